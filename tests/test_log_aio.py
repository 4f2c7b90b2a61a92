"""The durable log in asyncio: appends and readers wait without threads, and lose nothing."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import rtmw
from rtmw import Durability
from rtmw.log import HELD
from rtmw.log import folder as cursors
from tests.bus import eventually


def test_tasks_share_a_sync_and_no_thread_is_made(tmp_path: Path) -> None:
    async def append_all(log: rtmw.Log[bytes]) -> list[rtmw.Appended]:
        return await asyncio.gather(*(log.append_async(b"%d" % number, key=number) for number in range(300)))

    with rtmw.Log(tmp_path / "log") as log:
        before = threading.active_count()
        answers = asyncio.run(append_all(log))
        assert threading.active_count() == before
        assert {answer.state for answer in answers} == {Durability.WRITTEN}
        found = {record.position: record.key for record in log.read()}
        assert found == {answer.position: number for number, answer in enumerate(answers)}
        assert log.stats().batches < 300


def test_more_than_a_batch_holds_waits_for_room(tmp_path: Path) -> None:
    data = bytes(200_000)

    async def append_all(log: rtmw.Log[bytes]) -> None:
        await asyncio.gather(*(log.append_async(data) for _ in range(100)))

    with rtmw.Log(tmp_path / "log", segment="8M") as log:
        asyncio.run(append_all(log))
        assert sum(len(record.data) for record in log.read()) == 100 * len(data)


def test_event_loops_are_told_once_of_a_sync_that_one_waits_for_and_when_room_was_missing(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", segment="8M") as log:
        writer, told = log._begin_to_write(), os.eventfd(0, os.EFD_NONBLOCK)
        assert writer.add_eventfd(told)
        for _ in range(3):
            log.append(b"x")
            with pytest.raises(BlockingIOError):
                os.eventfd_read(told)
            _, end = writer.append(b"x", None, HELD, 0.0)
            writer.start(end)
            writer.wait(end, None)
            eventually(lambda: select.select([told], [], [], 0.0)[0])
            assert os.eventfd_read(told) == 1
        with suppress(TimeoutError):
            while True:  # faster than the disk
                writer.append(bytes(500_000), None, HELD, 0.0)
        eventually(lambda: log.stats().persist_queue.records == 0)
        assert os.eventfd_read(told) >= 1
        writer.remove_eventfd(told)
        os.close(told)


def test_one_event_loop_after_another_appends(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        for number in range(12):
            asyncio.run(log.append_async(b"%d" % number))
        assert [record.data for record in log.read()] == [b"%d" % number for number in range(12)]


def test_without_sync_an_append_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    async def append(log: rtmw.Log[bytes]) -> rtmw.Appended:
        return await log.append_async(b"x")

    with rtmw.Log(tmp_path / "log", sync=False) as log:
        answer = asyncio.run(append(log))
        assert answer.resolve(60) is Durability.WRITTEN


def test_a_refusal_is_raised_where_it_is_awaited(tmp_path: Path) -> None:
    async def refused(log: rtmw.Log[bytes]) -> None:
        with pytest.raises(rtmw.TypeMismatch):
            await log.append_async("text")  # type: ignore[arg-type]
        with pytest.raises(rtmw.MessageTooLarge):
            await log.append_async(bytes(100_000))
        await log.append_async(b"good")

    with rtmw.Log(tmp_path / "log", segment="64K") as log:
        asyncio.run(refused(log))
        assert [record.data for record in log.read()] == [b"good"]


def test_closing_the_log_answers_who_waits(tmp_path: Path) -> None:
    async def append_and_close(log: rtmw.Log[bytes]) -> list[rtmw.Appended]:
        tasks = [asyncio.create_task(log.append_async(b"x")) for _ in range(10)]
        await asyncio.sleep(0)
        log.close()
        return await asyncio.gather(*tasks)

    answers = asyncio.run(append_and_close(rtmw.Log(tmp_path / "log")))
    assert len({answer.position for answer in answers}) == 10
    with rtmw.Log(tmp_path / "log") as log:
        assert len(list(log.read())) == 10


def test_a_cancelled_append_harms_no_other(tmp_path: Path) -> None:
    async def cancel_some(log: rtmw.Log[bytes]) -> None:
        tasks = [asyncio.create_task(log.append_async(b"%d" % number)) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, rtmw.Appended) for answer in done[1::2])

    with rtmw.Log(tmp_path / "log") as log:
        asyncio.run(cancel_some(log))
        found = [record.data for record in log.read()]
        assert {b"%d" % number for number in range(1, 20, 2)} <= set(found)


def test_a_follower_gets_each_record_while_tasks_append(tmp_path: Path) -> None:
    async def follow(log: rtmw.Log[bytes]) -> list[object]:
        with log.read(rtmw.Start.LATEST, follow=True) as records:
            writing = asyncio.gather(*(log.append_async(bytes(500), key=number) for number in range(200)))
            found: list[object] = []
            async for record in records:
                found.append(record.key)
                if len(found) == 200:
                    break
            await writing
            return found

    with rtmw.Log(tmp_path / "log", segment="64K") as log:
        assert sorted(map(str, asyncio.run(asyncio.wait_for(follow(log), 60)))) == sorted(map(str, range(200)))


def test_without_following_the_iteration_ends(tmp_path: Path) -> None:
    async def read(log: rtmw.Log[bytes]) -> list[bytes]:
        return [record.data async for record in log.read()]

    with rtmw.Log(tmp_path / "log") as log:
        log.append_many([b"a", b"b"])
        assert asyncio.run(read(log)) == [b"a", b"b"]


def test_closing_ends_a_follower_that_waits(tmp_path: Path) -> None:
    async def follow(log: rtmw.Log[bytes]) -> list[bytes]:
        asyncio.get_running_loop().call_later(0.05, log.close)
        return [record.data async for record in log.read(follow=True)]

    log = rtmw.Log(tmp_path / "log")
    log.append(b"only")
    assert asyncio.run(asyncio.wait_for(follow(log), 60)) == [b"only"]


def test_a_task_that_reads_what_is_there_lets_others_have_their_turn(tmp_path: Path) -> None:
    async def main() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        with rtmw.Log(tmp_path / "log") as log:
            log.append_many([b"x"] * 2000)
            async for _ in log.read():
                pass
        task.cancel()
        return turns

    assert asyncio.run(main()) > 10


# ---- commits ----


def test_the_loop_goes_on_while_a_commit_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk: the sync of the cursor ends only when the loop, which has to be alive for that, says so."""
    begun, may_end, write = threading.Event(), threading.Event(), cursors.core.cursor_write
    slow = 0

    def write_slowly(subject: str, folder: int, uuid: bytes, file: str, position: int) -> None:
        nonlocal slow
        begun.set()
        slow += may_end.wait(60)
        write(subject, folder, uuid, file, position)

    async def read(log: rtmw.Log[bytes]) -> None:
        with log.read(cursor="c", follow=True) as records:
            await anext(records)
            monkeypatch.setattr(cursors.core, "cursor_write", write_slowly)
            async for record in records:
                record.commit()
                if record.key == 3:
                    break
            await asyncio.wait_for(asyncio.to_thread(begun.wait), 60)
            log.append(b"one more", key=4)
            last = await anext(records)
            last.commit()
            may_end.set()
            assert last.key == 4

    with rtmw.Log(tmp_path / "log") as log:
        for key in range(4):
            log.append(b"x", key=key)
        asyncio.run(asyncio.wait_for(read(log), 120))
        assert slow >= 1
        assert log.cursors()["c"].behind == 0


def test_a_task_that_commits_and_ends_has_committed(tmp_path: Path) -> None:
    async def read(log: rtmw.Log[bytes]) -> None:
        async for record in log.read(cursor="c"):
            record.commit()

    with rtmw.Log(tmp_path / "log") as log:
        end = log.append_many([b"x"] * 300)[-1].position + 40
        asyncio.run(read(log))
        assert log.cursors()["c"].position == end


def test_a_commit_that_fails_is_told_once_by_what_the_task_does_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise rtmw.LogFailed("the disk is gone", 0, 0)

    async def read(log: rtmw.Log[bytes]) -> None:
        records = log.read(cursor="c")
        async for record in records:
            monkeypatch.setattr(cursors.core, "cursor_write", fail)
            record.commit()

    with rtmw.Log(tmp_path / "log") as log:
        log.append_many([b"x"] * 3)
        with pytest.raises(rtmw.LogFailed, match="the disk is gone"):
            asyncio.run(read(log))
        monkeypatch.undo()
        assert len(list(log.read(cursor="c"))) == 3
