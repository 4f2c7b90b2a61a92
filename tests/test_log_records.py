"""Reading a log: where it begins and ends, following it, and other processes."""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rtmw
from rtmw import Start
from tests.child import Spawn


@pytest.fixture
def log(tmp_path: Path) -> rtmw.Log[bytes]:
    made = rtmw.Log(tmp_path / "log", segment="64K")
    for number in range(10):
        made.append(b"%d" % number * 1000, key=number)
    return made


def keys(records: rtmw.LogRecords[bytes]) -> list[object]:
    return [record.key for record in records]


def test_reading_begins_with_the_first_record_or_at_a_position(log: rtmw.Log[bytes]) -> None:
    everything = list(log.read())
    assert keys(log.read(Start.EARLIEST)) == list(range(10))
    assert keys(log.read(everything[4].position)) == list(range(4, 10))
    assert keys(log.read(log.end)) == []
    assert keys(log.read(Start.LATEST)) == []
    records = log.read()
    next(records)
    assert records.position == everything[1].position


def test_reading_begins_at_a_time(log: rtmw.Log[bytes]) -> None:
    everything = list(log.read())
    moment = datetime.fromtimestamp(everything[5].time_ns / 1e9 + 0.000001, UTC)
    assert keys(log.read(moment - timedelta(days=1))) == list(range(10))
    assert keys(log.read(moment + timedelta(days=1))) == []
    later = keys(log.read(moment))
    assert later == list(range(10))[-len(later) :]
    assert 3 <= len(later) <= 5


def test_reading_ends_where_the_log_ended_when_it_was_called(log: rtmw.Log[bytes]) -> None:
    records = log.read()
    log.append(b"later", key="later")
    assert keys(records) == list(range(10))


@pytest.mark.parametrize("start", [-1, 1.5, "earliest", None, True])
def test_what_is_no_beginning_is_refused(log: rtmw.Log[bytes], start: object) -> None:
    with pytest.raises(ValueError, match=r"start=.* is not possible"):
        log.read(start)  # type: ignore[arg-type]


def test_a_time_without_a_zone_is_refused(log: rtmw.Log[bytes]) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        log.read(datetime(2026, 1, 1))


def test_a_position_at_which_no_record_begins_is_refused(log: rtmw.Log[bytes]) -> None:
    second = list(log.read())[1].position
    with pytest.raises(ValueError, match=f"no record begins at position 8; the next one begins at {second}"):
        next(log.read(8))


def test_a_follower_gets_what_is_appended_later_until_it_is_closed(log: rtmw.Log[bytes]) -> None:
    records = log.read(Start.LATEST, follow=True)
    seen: list[object] = []
    enough = threading.Event()

    def follow() -> None:
        for record in records:
            seen.append(record.key)
            if len(seen) == 200:
                enough.set()

    thread = threading.Thread(target=follow)
    thread.start()
    for number in range(200):  # over several segments
        log.append(bytes(1000), key=number)
    assert enough.wait(60)
    assert seen == list(range(200))
    records.close()
    thread.join(60)
    assert not thread.is_alive()


def test_closing_the_log_ends_its_followers(log: rtmw.Log[bytes]) -> None:
    records = log.read(follow=True)
    thread = threading.Thread(target=lambda: list(records))
    thread.start()
    log.close()
    thread.join(60)
    assert not thread.is_alive()


def test_a_reader_in_another_process_sees_records_as_soon_as_they_are_durable(
    log: rtmw.Log[bytes], spawn: Spawn
) -> None:
    child = spawn(f"""
        import rtmw
        log = rtmw.Log({str(log.path)!r}, create=False)
        for record in log.read(follow=True):
            print(record.key, flush=True)
    """)
    assert [child.line() for _ in range(10)] == [str(number) for number in range(10)]
    for number in range(20):
        log.append(b"x", key=number)
        assert child.line() == str(number)


def test_records_that_are_kept_outlive_their_log(log: rtmw.Log[bytes]) -> None:
    records = log.read()
    first = next(records)
    log.close()
    with pytest.raises(StopIteration):
        next(records)
    assert (first.value[:3], first.epoch) == (b"000", 1)
    assert repr(first) == "<rtmw.LogRecord 0 key=0 1000 bytes>"


def test_reading_that_cannot_begin_leaves_no_descriptor(log: rtmw.Log[bytes]) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        log.read(datetime.now())
    with pytest.raises(ValueError, match="start='x' is not possible"):
        log.read_batches("x", cursor="c")  # type: ignore[arg-type]
    assert log.cursors() == {}
    opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert opened.count(str(log.path)) == 1, "that of the log itself"


def test_records_say_when_they_were_appended(tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"x")
        (record,) = log.read()
    assert before.timestamp() < record.time_ns / 1e9 < datetime.now(UTC).timestamp() + 1


def test_a_signal_handler_may_close_a_log_that_the_same_thread_follows(log: rtmw.Log[bytes]) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: log.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert keys(log.read(follow=True)) == list(range(10))
    finally:
        signal.signal(signal.SIGALRM, before)


FORKED = """
import os, threading, rtmw
log = rtmw.Log({folder!r})
answer = log.append(b"before")
threading.Thread(target=lambda: [None for _ in log.read(follow=True)], daemon=True).start()
def append():
    while not done.is_set():
        log.append(b"x")
done = threading.Event()
threads = [threading.Thread(target=append, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
statuses = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        log.stats()
        try:
            log.append(b"in the child")
        except rtmw.ForkedError:
            log.close()
            os._exit(7)
        os._exit(1)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
print(statuses == [7] * 20)
"""


def test_a_child_of_fork_looks_at_the_log_and_closes_it_and_cannot_append(tmp_path: Path, spawn: Spawn) -> None:
    child = spawn(FORKED.format(folder=f"{tmp_path}/log"))
    assert child.line(60) == "True"
    assert child.wait(60) == 0, child.stderr


FORKED_READER = """
import os, select, rtmw
log = rtmw.Log({folder!r})
records = log.read(follow=True)
descriptors = records._watch.descriptors
child = os.fork()
if child == 0:
    log.close()
    os._exit(0)
os.waitpid(child, 0)
print(select.select(descriptors, [], [], 0)[0])
log.append(b"x")
print(bytes(next(records).value))
"""


def test_a_reader_that_follows_sleeps_on_when_a_child_of_fork_closes_the_log(tmp_path: Path, spawn: Spawn) -> None:
    child = spawn(FORKED_READER.format(folder=f"{tmp_path}/log"))
    assert child.line(60) == "[]", "it would look again and again, for nothing"
    assert child.line(60) == "b'x'"


OPENING = "import rtmw\nfor n in range(1_000_000): rtmw.Log({folder!r}).close(); n == 3 and print('opens', flush=True)"


def test_who_opens_the_log_to_read_does_not_keep_a_writer_out(tmp_path: Path, spawn: Spawn) -> None:
    folder = f"{tmp_path}/log"
    with rtmw.Log(folder) as log:
        log.append_many([bytes(100_000)] * 9)
    spawn(OPENING.format(folder=folder)).line(60)
    for _ in range(20):
        with rtmw.Log(folder) as log:
            log.append(b"x")


def test_a_reader_keeps_its_log_that_nobody_else_holds(log: rtmw.Log[bytes]) -> None:
    path = log.path
    log.close()
    assert keys(rtmw.Log(path).read()) == list(range(10))
    assert sum(len(batch) for batch in rtmw.Log(path).read_batches()) == 10
