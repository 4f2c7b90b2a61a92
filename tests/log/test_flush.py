"""Who brings a batch to the disk: the flusher; or an appender that is alone, which spares two switches of threads."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from pathlib import Path
from types import FrameType

import pytest

import rtmw
from tests.bus import LONG, eventually

APPENDS = 400
LOOKS_A_SECOND = 20
"""At most, of the flusher and of the maker."""


def switches_of_others() -> int:
    """How often the other threads of this process went to sleep."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != threading.get_native_id():
            lines = (task / "status").read_text().splitlines()
            count += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return count


def test_an_appender_that_is_alone_wakes_no_other_thread(tmp_path: Path) -> None:
    """Others look at the clock ten times a second, and make the next segment."""
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"the first")
        eventually(lambda: log.stats().segments == 2)
        before, began = switches_of_others(), time.monotonic()
        for number in range(APPENDS):
            log.append(b"%d" % number)
        looked = LOOKS_A_SECOND * (time.monotonic() - began)
        assert switches_of_others() - before < APPENDS / 2 + looked
        assert log.stats().batches == APPENDS + 1


def test_signals_end_no_sync_and_their_handlers_run(tmp_path: Path) -> None:
    handled = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal handled
        handled += 1

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        with rtmw.Log(tmp_path / "log") as log:
            while handled < 20:
                log.append(b"x")
            count = log.stats().records
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with rtmw.Log(tmp_path / "log") as log:
        assert len(list(log.read())) == count


def test_threads_that_come_and_go_are_all_answered(tmp_path: Path) -> None:
    """One is alone, then others come: the batch goes from one to the flusher, and back."""
    with rtmw.Log(tmp_path / "log") as log:

        def append(count: int) -> None:
            for number in range(count):
                log.append(b"%d" % number)

        for count in (1, 2, 3, 1, 5, 2):
            threads = [threading.Thread(target=append, args=(60,)) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(list(log.read())) == log.stats().records == 60 * 14


def test_a_program_may_sync_in_its_own_thread_and_is_told_if_another_one_is_at_it(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", sync=False) as log:
        log._hold()
        log.append(b"the first").resolve()
        eventually(lambda: log.stats().segments == 2)
        writer, before, began = log._begin_to_write(), switches_of_others(), time.monotonic()
        for number in range(APPENDS):
            answer = log.append(b"%d" % number)
            eventually(writer.try_flush)  # the flusher may be writing its mark
            assert answer.state is rtmw.Durability.WRITTEN
            assert not writer.try_flush()  # there is nothing
        looked = LOOKS_A_SECOND * (time.monotonic() - began)
        assert switches_of_others() - before < APPENDS / 2 + looked

        answer = log.append(b"the last")
        writer.start()
        assert not writer.try_flush()  # the flusher was asked to
        assert answer.resolve() is rtmw.Durability.WRITTEN
    assert not writer.try_flush()


def test_an_eventfd_is_written_to_if_an_event_loop_waits_for_what_has_become_durable(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", sync=False) as log:
        log._hold()
        writer, rung = log._begin_to_write(), os.eventfd(0, os.EFD_NONBLOCK)
        assert writer.add_eventfd(rung)
        try:
            for number in range(APPENDS):
                log.append(b"nobody waits").resolve()
                with pytest.raises(BlockingIOError):
                    os.eventfd_read(rung)

                answer = log.append(b"%d" % number)
                if number % 2:
                    log.append(b"one more")  # which nobody waits for
                writer.start(answer.position + 1)
                assert select.select([rung], [], [], LONG)[0]
                os.eventfd_read(rung)
                assert answer.state is rtmw.Durability.WRITTEN
        finally:
            writer.remove_eventfd(rung)
            os.close(rung)


def test_what_is_written_ahead_is_in_the_file_before_its_sync_and_is_not_written_twice(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", sync=False) as log:
        log._hold()
        log.append(b"the first").resolve()
        writer, appended = log._begin_to_write(), [b"the first"]
        (first,) = (tmp_path / "log").glob("0*0.seg")

        def is_written(data: bytes) -> bool:
            writer.write_ahead()
            return data in first.read_bytes()

        for number in range(APPENDS):
            ahead, behind = b"<%d>" % number, b"[%d]" % number
            log.append(ahead)
            eventually(lambda ahead=ahead: is_written(ahead))  # the flusher may be writing its mark
            answer = log.append(behind)
            assert behind not in first.read_bytes() or answer.state is rtmw.Durability.WRITTEN
            assert answer.resolve() is rtmw.Durability.WRITTEN
            appended += [ahead, behind]
        assert [record.data for record in log.read()] == appended
    writer.write_ahead()
