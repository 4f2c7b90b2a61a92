"""A control store in etcd whose members die, whose answers are lost or late, and whose room ends."""

from __future__ import annotations

import asyncio
import re
import signal
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from rtmw.replica.control.etcd import EtcdStore, _text
from rtmw.replica.control.store import SLICE_MOST, Outcome, StoreFault
from tests.bus import LONG
from tests.control.certificates import write_certificates
from tests.control.relay import Way, proxy
from tests.control.stores import Cluster, needs_etcd
from tests.control.writer import LOG
from tests.ports import free_ports

FAILS = 0.5
"""Seconds for a request that is to fail."""
MIB = 1 << 20


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Of one member."""
    made = Cluster(tmp_path_factory.mktemp("etcd"), 1)
    made.start()
    try:
        yield made
    finally:
        made.close()


def run(play: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * LONG):
            await play()

    asyncio.run(bounded())


@needs_etcd
def test_a_change_whose_answer_is_lost_is_unknown_and_the_next_read_shows_it(one: Cluster) -> None:
    async def play() -> None:
        async with proxy(one.members[0].endpoint) as way:
            with closing(EtcdStore([way.endpoint], timeout=FAILS)) as store:
                first = await store.change("lost", 0, b"1", {})
                way.way = Way.MUTE
                assert (await store.change("lost", first.version, b"2", {})).outcome is Outcome.UNKNOWN
                assert way.endpoint in store.fault
                assert await store.read("lost") is None
                way.open()
                found = await store.read("lost")
                assert found is not None, store.fault
                assert (found.state, found.version > first.version) == (b"2", True)

    run(play)


@needs_etcd
# Proves G342.
def test_a_change_that_comes_late_is_not_made_behind_a_read_that_did_not_show_it(one: Cluster) -> None:
    async def play() -> None:
        async with proxy(one.members[0].endpoint) as way:
            direct = one.members[0].endpoint
            with closing(EtcdStore([way.endpoint, direct], timeout=2 * FAILS)) as store:
                first = await store.change("late", 0, b"1", {})
                way.way = Way.LATE
                assert (await store.change("late", first.version, b"2", {})).outcome is Outcome.UNKNOWN
                found = await store.read("late")  # at the other endpoint
                assert found is not None, store.fault
                assert found.state == b"1"
                way.open()
                await way.answered.wait()  # the late one
                again = await store.read("late")
                assert again == found
                assert (await store.change("late", found.version, b"3", {})).outcome is Outcome.APPLIED

    run(play)


def is_compacted(store: EtcdStore, revision: int) -> bool:
    """etcd has nothing any more that was replaced or removed before this revision."""
    try:
        store._request("kv/range", {"key": _text("rtmw/state/trim"), "revision": revision})
    except StoreFault as fault:
        return "compacted" in str(fault)
    return False


@needs_etcd
def test_slices_that_are_trimmed_give_their_room_back(one: Cluster) -> None:
    async def play() -> None:
        with closing(EtcdStore([one.members[0].endpoint], timeout=LONG)) as store:
            first = await store.change("trim", 0, b"", {0: b"0", 1: b"1"})
            second = await store.change("trim", first.version, b"", {0: None, 1: None, 2: b"2"})
            await store.change("other", 0, b"", {})
            assert not is_compacted(store, first.version)  # nothing was trimmed
            await store.change("trim", second.version, b"", {2: None})
            until = time.monotonic() + LONG
            while not is_compacted(store, second.version):
                assert time.monotonic() < until, "the history stays"
                await asyncio.sleep(0.01)

    run(play)


@needs_etcd
def test_a_store_that_is_almost_full_says_so_and_what_to_do(tmp_path: Path) -> None:
    made = Cluster(tmp_path, 1, f"--quota-backend-bytes={8 * MIB}")

    async def play() -> None:
        with closing(EtcdStore([made.members[0].endpoint], timeout=LONG, quota=8 * MIB)) as store:
            version, slices = 0, dict[int, bytes | None]()
            assert store.tight == ""
            while (changed := await store.change(LOG, version, b"", {**slices, version: bytes(SLICE_MOST)})).version:
                slices[version] = None
                version, store._looks = changed.version, 0.0  # it looks each time
                assert len(slices) > 3 or store.tight == ""
            assert "etcdctl defrag" in store.tight
            assert changed.outcome is Outcome.UNKNOWN
            assert "space exceeded" in store.fault
            found = await store.read(LOG)
            assert found is not None

    made.start()
    try:
        run(play)
    finally:
        made.close()


@needs_etcd
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
# Proves G343.
def test_with_one_member_of_three_gone_the_store_goes_on_and_with_two_it_gives_no_answer(
    tmp_path: Path, number: signal.Signals
) -> None:
    made = Cluster(tmp_path)

    async def until_applied(store: EtcdStore) -> None:
        while True:
            found = await store.read(LOG)
            if found is not None and (await store.change(LOG, found.version, b"x", {})).outcome is Outcome.APPLIED:
                return

    async def play() -> None:
        endpoints = [one.endpoint for one in made.members]
        with closing(EtcdStore(endpoints, timeout=3 * FAILS)) as store:
            await until_applied(store)
            made.members[0].signal(number)
            await until_applied(store)
            made.members[1].signal(number)
            assert (await store.change(LOG, 0, b"y", {})).outcome is Outcome.UNKNOWN
            assert await store.read(LOG) is None
            assert store.where in store.fault
            if number == signal.SIGSTOP:
                made.members[1].signal(signal.SIGCONT)
            else:
                made.members[1].kill()
                made.members[1].start()
            await until_applied(store)

    made.start()
    try:
        run(play)
    finally:
        made.close()


@needs_etcd
def test_etcd_and_the_store_know_each_other_by_their_certificates(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "node.pem", "node.key"))
    trusting = ssl.create_default_context(cafile=ca)
    known = ssl.create_default_context(cafile=ca)
    known.load_cert_chain(cert, key)
    asked = ("--client-cert-auth", f"--trusted-ca-file={ca}", f"--cert-file={cert}", f"--key-file={key}")
    made = Cluster(tmp_path, 1, *asked, tls=known)

    async def play() -> None:
        for tls, words in ((known, ""), (trusting, "https://127"), (ssl.create_default_context(), "verify failed")):
            with closing(EtcdStore([made.members[0].endpoint], tls, timeout=LONG)) as store:
                changed = await store.change("tls", 0, b"x", {})
                assert changed.outcome is (Outcome.UNKNOWN if words else Outcome.APPLIED), store.fault
                assert words in store.fault

    made.start()
    try:
        run(play)
    finally:
        made.close()


def test_an_endpoint_where_nobody_is_or_no_etcd_is_an_answer() -> None:
    async def not_found(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        words = said.pop(0)
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" % words)
        writer.close()

    said = [b"404 Not Found", b"200 OK", b"500 Error", b"garbage"]

    async def play() -> None:
        server = await asyncio.start_server(not_found, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with closing(EtcdStore([f"http://127.0.0.1:{port}"], timeout=LONG)) as store:
            for words in ("rtmw needs etcd 3.4", "HTTP 200", "HTTP 500", "HTTP/1.1 garbage"):
                assert (await store.change(LOG, 0, b"", {})).outcome is Outcome.UNKNOWN
                assert words in store.fault, store.fault
        server.close()
        with closing(EtcdStore([f"http://127.0.0.1:{free_ports(1)[0]}"], timeout=LONG)) as store:
            assert await store.read(LOG) is None
            assert "refused" in store.fault

    run(play)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"header": {}}', "'responses'"),
        (b'{"header": {}, "responses": []}', "IndexError|ValueError"),
        (b'{"header": {}, "responses": [{"response_range": {"kvs": [{"mod_revision": 1, "value": "a"}]}}]}', "base64"),
        (b'{"header": {}, "responses": [[]]}', "TypeError"),
    ],
)
def test_an_answer_that_is_not_as_one_of_etcd_is_none(body: bytes, words: str) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async def play() -> None:
        server = await asyncio.start_server(answers, "127.0.0.1", 0)
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with closing(EtcdStore([endpoint], timeout=LONG)) as store:
            assert await store.read(LOG) is None
            assert re.search(words, store.fault), store.fault
        server.close()

    run(play)


def test_a_connection_that_another_thread_has_taken_is_made_anew() -> None:
    class Taken(list[HTTPConnection]):
        """One is there when it is looked for, and gone when it is taken."""

        def __len__(self) -> int:
            return 1

    async def play() -> None:
        endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
        with closing(EtcdStore([endpoint], timeout=LONG)) as store:
            store._idle[endpoint] = Taken()
            assert await store.read(LOG) is None
            assert "refused" in store.fault, "it was dialled"

    run(play)
