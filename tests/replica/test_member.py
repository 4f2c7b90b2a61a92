"""A member of one log and what befalls it between two steps: a process killed in its start, a log that is closed."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmw.errors import LogDamaged
from rtmw.replica import words as w
from rtmw.replica.control.sqlite import SqliteStore
from rtmw.replica.member import Identity, Member
from rtmw.replica.wal import LogWal, MarksFile
from rtmw.replica.words import Kind, Reply, Role
from rtmw.text.daemon_log import LINES_MOST, VisibleLines, written
from rtmw.types import resolve
from tests.replica.inside import Inside, alone, appended, in_loop, until

IDENTITY = Identity("orders", b"u" * 16, b"c" * 16, resolve(bytes).description)


class Nobody:
    """No other node is there."""

    has_one_log = True

    def send(self, log: Member, to: str, message: w.Message) -> None: ...
    def ship(self, log: Member, to: str) -> None: ...

    async def copy(self, log: Member, to: str) -> bool:
        return False


def started(path: Path) -> Member:
    return Member(path, "a", IDENTITY, SqliteStore(path / "control.db"), Nobody())


def spoil(path: Path) -> None:
    data = bytearray((path / "log").read_bytes())
    data[-1] ^= 0xFF
    (path / "log").write_bytes(data)


@pytest.mark.parametrize("harm", [shutil.rmtree, spoil])
def test_a_process_killed_in_its_start_does_not_make_a_log_that_was_lost_one_that_was_empty(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    member = started(tmp_path)
    request = appended(1, 100)(1)
    member.wal.append(1, request.id, Kind.DATA, request.data)
    member.wal.close()
    kept = MarksFile(tmp_path / "marks" / "orders.marks")
    kept.others = frozenset("abc")
    kept.keep(w.Marks(promise=1, incarnation=4, checkpoint=0))
    harm(member.path)
    for _ in range(2):  # neither gets as far as `begin`
        member = started(tmp_path)
        assert (member.wal.end, member.replica.marks.incarnation) == (0, 5)
        member.wal.close()


@in_loop
async def test_who_waits_for_room_while_the_log_is_closed_is_told_to_ask_again_and_readers_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(*_: object) -> None:
        raise TimeoutError

    async with alone(tmp_path) as nodes:
        master, woken = await nodes.master(), list[int]()
        with monkeypatch.context() as full:
            full.setattr(master.wal, "append", waits)
            answer = asyncio.ensure_future(master.ask(appended(1, 10)))
            await asyncio.sleep(0)
            master.on_commit(lambda: woken.append(master.committed))
            master.opened()
            assert (await answer).reply is Reply.MOVED
        assert woken, "a reader that was told nothing while the log was closed looks again"


@in_loop
async def test_what_a_step_decided_before_the_log_turned_out_to_be_damaged_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_damaged(*_: object) -> None:
        if master.replica.commit == master.wal.end > begin:
            raise LogDamaged("a record is not as it was")

    async with Inside(tmp_path, lag="0.5s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 5)
        await nodes.in_sync()
        master = await nodes.master()
        begin = master.wal.end
        with monkeypatch.context() as damaged:
            damaged.setattr(master.replica, "_consult", is_damaged)
            answer = asyncio.ensure_future(master.ask(appended(5, 10)))
            await until(answer.done)
        assert (await answer).reply is Reply.WRITTEN


@in_loop
async def test_effects_behind_one_that_fails_are_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_damaged(*_: object) -> None:
        raise LogDamaged("a record is not as it was")

    member, heard = await asyncio.to_thread(started, tmp_path), list[w.Answer]()
    member._asks[7] = heard.append
    monkeypatch.setattr(member.wal, "trim", is_damaged)
    with pytest.raises(LogDamaged):
        member._carry_out([w.Trim(0), w.Answer(7, Reply.PENDING)])
    assert heard == [w.Answer(7, Reply.PENDING)]
    await asyncio.to_thread(member.wal.close)


@in_loop
async def test_a_ring_while_the_log_is_closed_does_not_keep_the_loop_busy(tmp_path: Path) -> None:
    async with alone(tmp_path) as nodes:
        master = await nodes.master()
        assert master.replica.role is Role.MASTER
        master.is_open = False
        rung, ring = 0, master._rung

        def count() -> None:
            nonlocal rung
            rung += 1
            ring()

        loop = asyncio.get_running_loop()
        loop.add_reader(master.wal.watch(), count)
        os.eventfd_write(master.wal.watch(), 1)
        for _ in range(20):
            await asyncio.sleep(0)
        loop.add_reader(master.wal.watch(), ring)
        master.opened()
        assert rung < 5


@in_loop
async def test_a_fast_disk_is_synced_by_the_loop_and_a_slow_one_by_the_thread_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with alone(tmp_path) as nodes:
        master, here = await nodes.master(), list[bool]()
        try_sync = master.wal.try_sync

        def tried() -> bool:
            here.append(try_sync())
            return here[-1]

        monkeypatch.setattr(master.wal, "try_sync", tried)
        for fast_s, first in ((60.0, 1), (-1.0, 21)):
            here.clear()
            monkeypatch.setattr("rtmw.replica.member.FAST_S", fast_s)
            for number in range(20):
                await nodes.append(first + number, 1)
            assert any(here) == (fast_s > 0)


@in_loop
# Proves G366.
async def test_a_node_that_begins_without_others_shows_readers_what_was_committed(tmp_path: Path) -> None:
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 5)
        await nodes.in_sync()
        end = nodes.member("a").committed
        await nodes.stop(*"abc")
        await nodes.start("a")
        await until(lambda: "orders" in nodes.servers["a"].members)
        assert nodes.member("a").committed == end > 0


@in_loop
async def test_a_member_that_refuses_its_master_again_and_again_does_not_fill_the_log_of_its_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member = started(tmp_path)
    request = appended(1, 100)(1)
    member.wal.append(1, request.id, Kind.DATA, request.data)
    member.replica.marks = w.Marks(promise=2, incarnation=1, checkpoint=member.wal.end)
    member.begin()
    control = w.Control(2, "b", frozenset("ab"), {"b": 1})
    with written(logging.getLogger(), VisibleLines("%(message)s")):
        for _ in range(2 * LINES_MOST):
            member.hear("b", bytes(16), w.Beat(2, 0, 0, control, {}, member.replica._life, ((2, 0),), 0))
    await member.close()
    said = capsys.readouterr().err.splitlines()
    assert 1 <= sum("lacks what was answered" in line for line in said) <= LINES_MOST + 1


@in_loop
async def test_a_slow_sync_of_the_thread_is_known_for_slow_whatever_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with alone(tmp_path) as nodes:
        master, here, most = await nodes.master(), list[int](), [0]

        def tried() -> bool:
            here.append(1)
            return False

        def done() -> None:
            most[0] = 1 << 62
            os.eventfd_write(master.wal.watch(), 1)

        monkeypatch.setattr("rtmw.replica.member.FAST_S", 0.01)
        monkeypatch.setattr(master.wal, "try_sync", tried)
        most[0] = master.wal.end
        monkeypatch.setattr(LogWal, "durable", property(lambda wal: min(wal._writer.durable, most[0])))
        asyncio.get_running_loop().call_later(0.2, done)  # so long the disk is at it
        writing = asyncio.create_task(nodes.append(1, 1))
        while not writing.done():
            master.step(w.Tick())
            await asyncio.sleep(0)
        here.clear()
        await nodes.append(2, 1)
        assert not here
