"""The record on the disk: checkpoints, what is trimmed, and how fast a relay starts (R4)."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rtmw.disk import DISK, Disk
from rtmw.relay import rows as r
from rtmw.relay.rows import Row
from rtmw.relay.state import State
from rtmw.relay.store import CHECKPOINT_ROWS, CHECKPOINTS, Store
from tests.disks import Counting, Killed, full
from tests.relay.starting import append, delivered, fill, order, start_in_process
from tests.relay.world import picture
from tests.whole import LONG, sample

DAY_NS = 86_400 * 10**9


def opened(path: Path, keep: float = 1e9, disk: Disk = DISK) -> Store:
    return Store(path, 10.0, keep, disk, "64K")


def checkpoint(store: Store) -> None:
    asyncio.run(store.checkpoint())


def state_of_rows(path: Path) -> Any:
    """As it is without any checkpoint."""
    copy = path.with_name("copy")
    shutil.copytree(path / "record", copy / "record")
    try:
        store = opened(copy)
        store.close()
        return picture(store.state)
    finally:
        shutil.rmtree(copy)


def make(path: Path, begin: int = 1) -> None:
    """Some orders of each kind, a checkpoint, and as many more."""
    store = opened(path)
    for first in (begin, begin + 10):
        append(store, [row for number in range(first, first + 4) for row in delivered(number)])
        append(store, [order(number) for number in range(first + 4, first + 9)])
        append(store, [Row(r.HELD, 5, first + 4, "AODB", "GATE", "GATE")])
        if first == begin:
            checkpoint(store)
    store.close()


def test_a_store_that_starts_from_a_checkpoint_reads_the_rows_behind_it_alone(tmp_path: Path) -> None:
    make(tmp_path)
    store = opened(tmp_path)
    assert store.rows == 1 + 4 * 3 + 5 + 1
    assert picture(store.state) == state_of_rows(tmp_path)
    assert {number: store.body(order) for number, order in store.state.open.items()} == {
        number: b"body of %d" % number for number in (5, 6, 7, 8, 9, 15, 16, 17, 18, 19)
    }
    store.close()


@pytest.mark.parametrize("error", [None, full()])
# Proves G320.
def test_a_checkpoint_that_dies_or_has_no_room_at_any_call_leaves_the_one_before(
    error: OSError | None, tmp_path: Path
) -> None:
    make(tmp_path / "made")
    calls = 0
    while True:
        folder = tmp_path / f"{calls}"
        shutil.copytree(tmp_path / "made", folder)
        store = opened(folder, disk=Counting(calls, error))
        try:
            for _ in range(2):
                checkpoint(store)
        except (Killed, OSError):
            pass
        else:
            store.close()
            break
        store.close()
        calls += 1
        again = opened(folder)
        assert picture(again.state) == state_of_rows(folder), f"call {calls}"
        assert again.rows < 40, "a checkpoint was read"
        again.close()
    assert calls > 10


@pytest.mark.parametrize("at", sample(range(0, 3000, 97), 6))
# Proves G320.
def test_a_damaged_checkpoint_is_not_believed_and_the_one_before_or_all_rows_are_read(at: int, tmp_path: Path) -> None:
    make(tmp_path)
    store = opened(tmp_path)
    checkpoint(store)
    store.close()
    wanted = state_of_rows(tmp_path)
    for name in CHECKPOINTS:
        file = tmp_path / name
        data = bytearray(file.read_bytes())
        data[at % len(data)] ^= 4
        file.write_bytes(data)
        store = opened(tmp_path)
        assert picture(store.state) == wanted
        store.close()


def test_a_checkpoint_of_another_record_is_not_believed(tmp_path: Path) -> None:
    make(tmp_path / "one")
    make(tmp_path / "other", 100)
    for name in CHECKPOINTS:
        (tmp_path / "other" / name).unlink(missing_ok=True)
        if (tmp_path / "one" / name).exists():
            shutil.copy(tmp_path / "one" / name, tmp_path / "other" / name)
    store = opened(tmp_path / "other")
    assert picture(store.state) == state_of_rows(tmp_path / "other")
    store.close()


def test_rows_are_trimmed_when_they_are_old_and_neither_open_nor_known(tmp_path: Path) -> None:
    store = Store(tmp_path, 0.0, 0.0, DISK, "128K")
    store.state = State(0.0, known=150)
    append(store, [order(1)])
    fill(store, 2, 1000)
    for _ in range(2):
        checkpoint(store)
    assert store._log.stats().earliest == 0, "order 1 is open"
    append(store, [Row(r.UNDELIVERED, 5, 1, "AODB", "GATE", "GATE")])
    fill(store, 1002, 1000)
    for _ in range(2):
        checkpoint(store)
    earliest, known = store._log.stats().earliest, min(one.position for one in store.state.known.values())
    assert 0 < earliest <= known
    append(store, [order(5000)])
    store.close()
    store = Store(tmp_path, 0.0, 0.0, DISK, "128K")
    assert len(store.state.known) == 150
    assert [*store.state.open] == [5000]
    store.close()


def test_rows_younger_than_keep_are_not_trimmed(tmp_path: Path) -> None:
    store = Store(tmp_path, 0.0, 3600.0, DISK, "128K")
    store.state = State(0.0, known=150)
    fill(store, 1, 1000)
    for _ in range(2):
        checkpoint(store)
    assert store._log.stats().earliest == 0
    store.close()


def test_a_checkpoint_is_json_that_programs_can_read(tmp_path: Path) -> None:
    make(tmp_path)
    head, state, first, *_ = (tmp_path / "checkpoint-0").read_text().splitlines()
    assert json.loads(head)["version"] == 1
    assert json.loads(state)["numbered"] == 9
    assert json.loads(first)[:2] == ["AODB", "BAGS"]


def test_a_relay_with_orders_that_wait_and_many_old_rows_starts_from_its_checkpoint(tmp_path: Path) -> None:
    started = start_in_process(tmp_path, waiting=500, old=3000)
    assert (started.open, started.rows) == (500, 1)


@LONG
def test_a_relay_with_100000_waiting_orders_and_a_million_old_rows_starts_with_5_s_of_work(tmp_path: Path) -> None:
    started = start_in_process(tmp_path, waiting=100_000, old=1_000_000, behind=CHECKPOINT_ROWS)
    assert started.open == 100_000
    assert started.seconds <= 5.0


def test_a_relay_makes_its_folder_for_its_user_alone_and_leaves_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old").chmod(0o755)
    for name, mode in (("new", 0o700), ("old", 0o755)):
        opened(tmp_path / name).close()
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
