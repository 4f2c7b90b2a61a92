"""What every control store promises: compare-and-change, whole or not at all, and answers that are true."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from rtmw.replica.control.store import SLICE_MOST, Outcome, Store, Value
from tests.bus import LONG
from tests.control.stores import Cluster, needs_etcd, store_of
from tests.control.writer import LOG

WRITERS = 3
ROUNDS = 40
KILLS = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("etcd"))
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=needs_etcd)])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store that has no value of LOG."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'control.db'}"
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    yield cluster.spec
    forget(cluster)


def forget(cluster: Cluster) -> None:
    everything = {"key": b64encode(b"rtmw/").decode(), "range_end": b64encode(b"rtmw0").decode()}
    url = f"{cluster.members[0].endpoint}/v3/kv/deleterange"
    urllib.request.urlopen(url, json.dumps(everything).encode(), timeout=LONG).close()


def run(spec: str, play: Callable[[Store], Awaitable[None]]) -> None:
    async def bounded() -> None:
        store = store_of(spec, LONG)
        try:
            async with asyncio.timeout(3 * LONG):
                await play(store)
        finally:
            store.close()

    asyncio.run(bounded())


async def read(store: Store) -> Value:
    found = await store.read(LOG, slices=True)
    assert found is not None, store.fault
    return found


def test_a_change_is_read_with_its_slices_and_its_version(spec: str) -> None:
    async def play(store: Store) -> None:
        assert await read(store) == Value(0, b"", {})
        first = await store.change(LOG, 0, b"\0state", {})
        assert first.outcome is Outcome.APPLIED
        second = await store.change(LOG, first.version, b"", {10: b"ten", 20: b""})
        assert await read(store) == (second.version, b"", {10: b"ten", 20: b""})
        assert await store.read(LOG) == (second.version, b"", {})
        assert second.version > first.version > 0
        assert await store.read("or") == await store.read("orders.2") == Value()

    run(spec, play)


def test_slices_before_and_behind_those_that_are_named_are_removed(spec: str) -> None:
    async def play(store: Store) -> None:
        put = {number: b"%d" % number for number in (0, 5, 10, 90, 100)}
        version = (await store.change(LOG, 0, b"1", put)).version
        version = (await store.change(LOG, version, b"2", {5: None, 10: None, 90: b"new"})).version
        assert (await read(store)).slices == {5: b"5", 10: b"10", 90: b"new"}
        version = (await store.change("other", 0, b"2", {90: b"of another"})).version
        value = await read(store)
        await store.change(LOG, value.version, b"3", {})
        assert (await read(store)).slices == {}
        other = await store.read("other", slices=True)
        assert other == (version, b"2", {90: b"of another"})

    run(spec, play)


def test_a_change_of_another_version_is_refused_and_changes_nothing(spec: str) -> None:
    async def play(store: Store) -> None:
        assert (await store.change(LOG, 7, b"none", {})).outcome is Outcome.REFUSED
        first = await store.change(LOG, 0, b"first", {1: b"1"})
        for version in (0, first.version - 1, first.version + 1):
            assert (await store.change(LOG, version, b"lost", {2: b"2"})).outcome is Outcome.REFUSED
        assert await read(store) == (first.version, b"first", {1: b"1"})
        assert store.fault == ""

    run(spec, play)


def test_a_slice_of_the_largest_size_is_kept_and_a_larger_one_is_an_error(spec: str) -> None:
    async def play(store: Store) -> None:
        largest = random.Random(1).randbytes(SLICE_MOST)
        assert (await store.change(LOG, 0, b"x" * 4096, {0: largest})).outcome is Outcome.APPLIED
        assert (await read(store)).slices == {0: largest}
        with pytest.raises(ValueError, match="1048576 are possible"):
            await store.change(LOG, 0, b"", {0: largest + b"x"})

    run(spec, play)


def writer(spec: str, times: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.control.writer", spec, str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# Proves G341.
def test_of_changes_that_processes_make_at_once_each_that_was_applied_counts_once(spec: str) -> None:
    writers = [writer(spec, ROUNDS) for _ in range(WRITERS)]
    told = [one.communicate(timeout=6 * LONG)[0].splitlines() for one in writers]
    applied = [tuple(map(int, line.split()[1:])) for lines in told for line in lines if line.startswith("applied")]
    assert sorted(number for number, _ in applied) == list(range(1, WRITERS * ROUNDS + 1)), told
    versions = [version for _, version in sorted(applied)]
    assert versions == sorted(set(versions))
    run(spec, lambda store: ends_with(store, WRITERS * ROUNDS))


async def ends_with(store: Store, *numbers: int) -> None:
    value = await read(store)
    number = int(value.state)
    assert number in numbers
    assert value.slices == {number: value.state}


# Proves G341.
def test_a_process_that_is_killed_in_a_change_leaves_it_whole_or_none_of_it(spec: str) -> None:
    chosen, last = random.Random(43), 0
    for _ in range(KILLS):
        one = writer(spec, 1_000_000)
        assert one.stdout is not None
        for _ in range(chosen.randrange(1, 20)):
            last = int(one.stdout.readline().split()[1])
        one.kill()
        rest = [line.split() for line in one.stdout.read().splitlines()]
        one.stdout.close()
        one.wait()
        last = max([last, *(int(words[1]) for words in rest if len(words) == 3)])
        run(spec, lambda store: ends_with(store, last, last + 1))  # noqa: B023  (it has run before the next round)
