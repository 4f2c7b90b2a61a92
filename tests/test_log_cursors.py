"""Cursors of a log: where a named reader goes on, who holds it, what it keeps, and what a kill costs."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest

import rtmw
from tests.child import Spawn

LENGTH = 20_000
"""Two of them fill a segment of 64 KiB."""


@pytest.fixture
def log(tmp_path: Path) -> rtmw.Log[bytes]:
    made = rtmw.Log(tmp_path / "log", segment="64K")
    for number in range(10):
        made.append(b"%d" % number * 1000, key=number)
    return made


def keys(records: rtmw.LogRecords[bytes], most: int | None = None) -> list[object]:
    """Reads, commits each, closes."""
    found = list[object]()
    with records:
        for record in itertools.islice(records, most):
            found.append(record.key)
            record.commit()
    return found


def test_a_reader_goes_on_behind_what_was_committed_with_its_cursor(log: rtmw.Log[bytes]) -> None:
    assert keys(log.read(cursor="billing"), 3) == [0, 1, 2]
    assert keys(log.read(cursor="billing"), 2) == [3, 4]
    assert keys(log.read(cursor="other"), 1) == [0]
    log.close()
    with rtmw.Log(log.path) as again:
        assert keys(again.read(rtmw.Start.LATEST, cursor="billing")) == [5, 6, 7, 8, 9]
        assert keys(again.read(cursor="billing")) == []
        again.append(b"x", key=10)
        assert keys(again.read(cursor="billing")) == [10]


def test_a_new_cursor_begins_where_reading_begins_and_stands_there_at_once(log: rtmw.Log[bytes]) -> None:
    end = log.end
    log.read(rtmw.Start.LATEST, cursor="late").close()
    log.append(b"x", key=10)
    assert log.cursors()["late"].position == end
    assert keys(log.read(cursor="late")) == [10]


def test_a_commit_is_cumulative_and_never_goes_back(log: rtmw.Log[bytes]) -> None:
    with log.read(cursor="c") as records:
        read = list(itertools.islice(records, 6))
        read[4].commit()
        read[1].commit()
    assert keys(log.read(cursor="c")) == [5, 6, 7, 8, 9]


def test_what_was_read_and_not_committed_comes_again(log: rtmw.Log[bytes]) -> None:
    for _ in range(2):
        with log.read(cursor="c") as records:
            assert [record.key for record in records] == list(range(10))


def test_a_record_that_was_read_without_a_cursor_cannot_be_committed(log: rtmw.Log[bytes]) -> None:
    with pytest.raises(rtmw.LogError, match="read without a cursor"):
        next(log.read()).commit()


def test_after_its_reader_is_closed_nothing_is_committed(log: rtmw.Log[bytes]) -> None:
    with log.read(cursor="c") as records:
        record = next(records)
    with pytest.raises(rtmw.ClosedError, match="commit before it is closed"):
        record.commit()


# Proves G124.
def test_one_reader_at_a_time_has_a_cursor_and_the_other_one_is_told_which(log: rtmw.Log[bytes], spawn: Spawn) -> None:
    child = spawn(f"""
        import rtmw
        log = rtmw.Log({str(log.path)!r})
        records = log.read(cursor="billing")
        next(records).commit()
        print("holds", flush=True)
        input()
    """)
    assert child.line() == "holds"
    with pytest.raises(rtmw.LogLocked, match=rf"cursor 'billing': the cursor is held by child_0\.py \({child.pid}\)"):
        log.read(cursor="billing")
    with pytest.raises(rtmw.LogLocked, match="is held by"):
        log.delete_cursor("billing")
    assert log.cursors()["billing"].holder == f"child_0.py ({child.pid})"
    assert keys(log.read(cursor="other"), 1) == [0]
    child.kill()
    assert log.cursors()["billing"].holder is None
    first = keys(log.read(cursor="billing"))[0]
    assert first in (0, 1)  # its commit was in a batch that the kill may have met


def test_two_readers_of_one_process_do_not_share_a_cursor(log: rtmw.Log[bytes]) -> None:
    with log.read(cursor="c"), pytest.raises(rtmw.LogLocked, match=rf"\({os.getpid()}\)"):
        log.read(cursor="c")
    log.read(cursor="c").close()


def test_cursors_say_where_they_stand_and_what_is_behind_them(log: rtmw.Log[bytes]) -> None:
    assert log.cursors() == {}
    before = time.time_ns()
    keys(log.read(cursor="größer / 1"), 4)
    position = [record.position for record in log.read()][4]
    (name, cursor), *_ = log.cursors().items()
    assert name == "größer / 1"
    assert (cursor.position, cursor.behind, cursor.holder) == (position, log.end - position, None)
    assert before - 1e9 < cursor.time_ns < time.time_ns() + 1e9


def test_a_cursor_that_is_deleted_begins_anew(log: rtmw.Log[bytes]) -> None:
    keys(log.read(cursor="c"))
    log.delete_cursor("c")
    assert log.cursors() == {}
    assert [name for name in os.listdir(log.path) if "cursor" in name] == []
    assert keys(log.read(cursor="c"), 1) == [0]
    with pytest.raises(rtmw.LogError, match=r"there is no cursor 'd'; it has \['c'\]"):
        log.delete_cursor("d")


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb"])
def test_a_name_that_is_not_possible_is_refused(name: str, log: rtmw.Log[bytes]) -> None:
    with pytest.raises(ValueError, match=r"cursor=.* is not possible"):
        log.read(cursor=name)


@pytest.mark.parametrize("name", [".", "..", "a/b", "%2F", "x" * 64, "ü" * 32])
def test_a_cursor_may_have_dots_and_slashes_in_its_name(name: str, log: rtmw.Log[bytes]) -> None:
    keys(log.read(cursor=name), 2)
    assert list(log.cursors()) == [name]
    assert keys(log.read(cursor=name), 1) == [2]


def test_a_spoiled_mark_of_a_cursor_costs_one_batch_and_two_are_damage(log: rtmw.Log[bytes]) -> None:
    keys(log.read(cursor="c"), 4)
    path = log.path / "c.cursor"
    data = bytearray(path.read_bytes())
    newest = max((4096, 8192), key=lambda at: data[at + 24])
    data[newest + 40] ^= 1
    path.write_bytes(data)
    assert log.cursors()["c"].position == 0
    data[12288 - newest + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(rtmw.LogDamaged, match=r"c\.cursor: both marks of the file are spoiled"):
        log.read(cursor="c")


def test_a_task_reads_with_a_cursor(log: rtmw.Log[bytes]) -> None:
    async def read(most: int) -> list[object]:
        found = list[object]()
        with log.read(cursor="c", follow=True) as records:
            async for record in records:
                found.append(record.key)
                record.commit()
                if len(found) == most:
                    break
        return found

    assert asyncio.run(read(4)) == [0, 1, 2, 3]
    assert asyncio.run(read(6)) == [4, 5, 6, 7, 8, 9]


# ---- retention ----


# Proves G125.
def test_a_segment_stays_until_each_cursor_has_passed_it(tmp_path: Path) -> None:
    retention = rtmw.Retention(bytes="128K")
    with rtmw.Log(tmp_path / "log", segment="64K", retention=retention) as log:
        log.append(bytes(LENGTH), key=0)
        log.read(cursor="slow").close()
        for number in range(1, 20):
            log.append(bytes(LENGTH), key=number)
        assert [record.key for record in log.read()] == list(range(20))
        end = time.monotonic() + 60
        while not log.stats().held:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert keys(log.read(cursor="slow")) == list(range(20))
        for number in range(20, 24):
            log.append(bytes(LENGTH), key=number)
        while log.stats().segments > 3:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert keys(log.read(cursor="slow")) == [20, 21, 22, 23]


@pytest.mark.parametrize("cursors", [False, 0.001])
# Proves G125.
def test_a_cursor_that_is_abandoned_or_does_not_count_keeps_nothing_and_is_told(
    cursors: bool | float, tmp_path: Path
) -> None:
    retention = rtmw.Retention(bytes="128K", cursors=cursors)
    with rtmw.Log(tmp_path / "log", segment="64K", retention=retention) as log:
        log.append(bytes(LENGTH), key=0)
        log.read(cursor="slow").close()
        until = time.monotonic() + 60
        for number in itertools.count(1):
            log.append(bytes(LENGTH), key=number)
            if log.stats().earliest:
                break
            assert time.monotonic() < until
        with pytest.raises(rtmw.LogError, match=r"cursor 'slow' stands at 0, and .* were trimmed; log\.delete_cursor"):
            log.read(cursor="slow")
        log.delete_cursor("slow")
        assert keys(log.read(cursor="slow"))


# ---- kills ----

READER = """
    import rtmw
    log = rtmw.Log({path!r}, create=False)
    for record in log.read(cursor="c", follow=True):
        print(record.key, flush=True)
        record.commit()
"""


# Proves G123.
def test_a_reader_that_is_killed_misses_nothing_and_gets_again_at_most_what_it_had_not_committed(
    tmp_path: Path, spawn: Spawn
) -> None:
    chance, path = random.Random(4), tmp_path / "log"
    with rtmw.Log(path, sync=False) as log:
        for number in range(20_000):
            log.append(b"x", key=number)
        log.append(b"x", key="end")
    seen, last = set[str](), -1
    for _ in range(8):
        child = spawn(READER.format(path=str(path)))
        first = int(child.line())
        assert first <= last + 1
        seen |= {str(number) for number in [first]}
        for _ in range(chance.randrange(100, 1500)):
            seen.add(child.line())
        child.signal(signal.SIGKILL)
        child.kill()
        last = max(int(key) for key in seen)
    assert seen == {str(number) for number in range(last + 1)}


def test_a_commit_reaches_the_disk_though_the_log_is_closed_while_another_thread_is_inside_its_reader(
    log: rtmw.Log[bytes],
) -> None:
    records = log.read(cursor="c")
    record = next(records)
    record.commit()
    with records._busy:  # as a thread has it that reads; it closes the reader then
        log.close()
    records.close()
    with rtmw.Log(log.path) as again:
        assert again.cursors()["c"].position == next(again.read(cursor="c")).position > record.position


INTERRUPTED = """
    import signal, sys
    from pathlib import Path
    from rtmw.clock import Clock
    from rtmw.log import HeldCursor, open_folder

    class Interrupts(Clock):
        def monotonic(self):
            signal.raise_signal(signal.SIGUSR1)
            return 1.0

    folder = open_folder(Path({path!r}), None, segment=1 << 20)
    cursor = HeldCursor(folder, "c")
    cursor.begin(0)
    cursor._clock = Interrupts()  # it is asked in the middle of a commit
    signal.signal(signal.SIGUSR1, lambda *_: cursor.close())
    cursor.commit({end})
    print(folder.cursor("c")[0], flush=True)
    HeldCursor(folder, "c").close()
    print("free", flush=True)
"""


def test_a_handler_of_a_signal_may_close_a_cursor_that_the_same_thread_commits(
    log: rtmw.Log[bytes], spawn: Spawn
) -> None:
    child = spawn(INTERRUPTED.format(path=str(log.path), end=log.end))
    assert child.line(60) == str(log.end)
    assert child.line(60) == "free"
