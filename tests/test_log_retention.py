"""Trim and retention: what goes is gone durably, what stays is whole, and readers are told."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rtmw
from tests.child import Spawn

LENGTH = 20_000
"""Two of them fill a segment of 64 KiB; with head and labels each takes SIZE."""
SIZE = LENGTH + 32 + 16


def append(log: rtmw.Log[bytes], numbers: range) -> None:
    for number in numbers:
        log.append(bytes(LENGTH), key=number)


def keys(log: rtmw.Log[bytes]) -> list[object]:
    return [record.key for record in log.read()]


def segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.seg"))


def until(holds: Callable[[], bool]) -> None:
    """The maker does it in the background."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def log(tmp_path: Path) -> rtmw.Log[bytes]:
    made = rtmw.Log(tmp_path / "log", segment="64K")
    append(made, range(12))
    return made


# ---- trim ----


def test_a_trim_that_is_asked_for_is_done_soon_and_nobody_waits_for_it(log: rtmw.Log[bytes]) -> None:
    everything, writer = list(log.read()), log._begin_to_write()
    writer.ask_trim(everything[5].position)
    until(lambda: log.stats().earliest == everything[4].position)
    assert keys(log) == list(range(4, 12))
    assert writer.last_base == everything[10].position
    writer.ask_trim(log.end)
    until(lambda: segments(log.path) == [writer.last_base])
    log.close()
    with pytest.raises(rtmw.ClosedError):
        writer.ask_trim(0)
    with pytest.raises(rtmw.ClosedError):
        _ = writer.last_base


def test_a_trim_removes_the_segments_before_a_position(log: rtmw.Log[bytes]) -> None:
    everything = list(log.read())
    start = log.trim(everything[5].position)
    assert start == everything[4].position
    assert segments(log.path) == [everything[number].position for number in (4, 6, 8, 10)]
    assert keys(log) == list(range(4, 12))
    assert (log.stats().earliest, log.trim(0)) == (start, start)
    log.close()
    with rtmw.Log(log.path, segment="64K") as again:
        assert keys(again) == list(range(4, 12))
        append(again, range(12, 14))
        assert keys(again) == list(range(4, 14))


def test_the_last_segment_stays(log: rtmw.Log[bytes]) -> None:
    positions = [record.position for record in log.read()]
    assert log.trim(log.end) == positions[10]
    assert keys(log) == [10, 11]


def test_a_trim_before_a_time_keeps_all_records_of_then_and_later(log: rtmw.Log[bytes]) -> None:
    records = list(log.read())
    moment = datetime.fromtimestamp(records[7].time_ns / 1e9, UTC) + timedelta(microseconds=1)
    assert log.trim(moment - timedelta(days=1)) == 0
    start = log.trim(moment)
    assert records[4].position <= start <= records[8].position
    log.trim(moment + timedelta(days=1))
    assert keys(log) == [10, 11]


@pytest.mark.parametrize("before", [-1, True, 10**12])
def test_what_is_no_position_of_the_log_is_refused(before: int, log: rtmw.Log[bytes]) -> None:
    with pytest.raises(ValueError, match=r"before=.* is not possible"):
        log.trim(before)


# Proves G122.
def test_a_reader_that_stands_in_what_was_trimmed_is_told_from_where_to_where(log: rtmw.Log[bytes]) -> None:
    records = log.read()
    next(records)
    start = log.trim(9 * SIZE)
    with pytest.raises(rtmw.LogError, match=rf"records from position \d+ up to {start} were trimmed") as error:
        list(records)
    assert type(error.value) is rtmw.LogError
    with pytest.raises(rtmw.LogError, match=f"from position 0 up to {start} were trimmed"):
        next(log.read(0))


def test_only_who_writes_may_trim(log: rtmw.Log[bytes]) -> None:
    with rtmw.Log(log.path) as other, pytest.raises(rtmw.LogLocked):
        other.trim(0)


def test_ids_of_what_was_trimmed_are_known_in_the_next_life(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", segment="64K") as log:
        positions = [log.append(bytes(LENGTH), id=number).position for number in range(12)]
        log.trim(log.end)
    for _ in range(2):
        with rtmw.Log(tmp_path / "log", segment="64K") as log:
            assert [log.append(bytes(LENGTH), id=number).position for number in range(12)] == positions
            assert [record.id for record in log.read()] == [10, 11]


def test_segments_that_a_trim_had_not_removed_yet_are_no_part_of_the_log(log: rtmw.Log[bytes], tmp_path: Path) -> None:
    old = {path.name: path.read_bytes() for path in log.path.glob("*.seg")}
    start = log.trim(6 * SIZE)
    log.close()
    (log.path / f"{2 * SIZE:020}.seg").write_bytes(old[f"{2 * SIZE:020}.seg"])
    (log.path / f"{4 * SIZE:020}.seg").write_bytes(bytes(65536))  # it was being filled with zeros
    with rtmw.Log(log.path, create=False) as again:
        assert keys(again) == list(range(6, 12))
    assert segments(log.path)[0] == start


# Proves G122.
def test_a_segment_that_is_missing_behind_the_start_is_damage(log: rtmw.Log[bytes]) -> None:
    start = log.trim(6 * SIZE)
    log.close()
    (log.path / f"{start:020}.seg").unlink()
    with pytest.raises(rtmw.LogDamaged, match=f"first segments are missing: records from position {start}"):
        rtmw.Log(log.path)


def test_one_spoiled_mark_of_the_start_harms_nothing_and_two_are_damage(log: rtmw.Log[bytes]) -> None:
    start = log.trim(6 * SIZE)
    log.close()
    path = log.path / "start"
    data = bytearray(path.read_bytes())
    newest = max((4096, 8192), key=lambda at: data[at + 24])
    data[12288 - newest + 40] ^= 1
    path.write_bytes(data)
    with rtmw.Log(log.path) as again:
        assert again.stats().earliest == start
    data[newest + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(rtmw.LogDamaged, match="start: both marks of the file are spoiled"):
        rtmw.Log(log.path)


def test_a_log_of_before_there_were_trims_is_trimmed_too(log: rtmw.Log[bytes]) -> None:
    log.close()
    (log.path / "start").unlink()
    with rtmw.Log(log.path) as again:
        assert again.trim(4 * SIZE) == 4 * SIZE
    with rtmw.Log(log.path) as again:
        assert keys(again) == list(range(4, 12))


# ---- retention ----


def test_no_more_is_kept_than_the_retention_says(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", segment="64K", retention=rtmw.Retention(bytes="256K")) as log:
        append(log, range(40))
        until(lambda: len(segments(log.path)) <= 4)
        found = keys(log)
        assert found == list(range(40))[-len(found) :]
        assert 7 <= len(found) <= 8
        assert log.stats().disk <= 5 * 65536


def test_what_is_older_than_the_retention_says_goes(log: rtmw.Log[bytes]) -> None:
    log.close()
    with rtmw.Log(log.path, segment="64K", retention=rtmw.Retention(age="1h")) as hour:
        hour.append_many([])
        append(hour, range(12, 16))
        assert keys(hour) == list(range(16))
    with rtmw.Log(log.path, segment="64K", retention=rtmw.Retention(age=0)) as nothing:
        nothing.append_many([])
        until(lambda: len(segments(log.path)) == 1)
        assert keys(nothing) == [14, 15]


def test_without_a_limit_nothing_goes(log: rtmw.Log[bytes]) -> None:
    log.close()
    with rtmw.Log(log.path, segment="64K", retention=rtmw.Retention()) as again:
        append(again, range(12, 20))
        assert keys(again) == list(range(20))


def test_a_segment_that_goes_becomes_the_next_one(tmp_path: Path) -> None:
    """Its blocks are the file system's already, so that no room has to be found."""
    with rtmw.Log(tmp_path / "log", segment="64K", retention=rtmw.Retention(bytes="128K")) as log:
        append(log, range(4))
        seen = {path.stat().st_ino for path in log.path.glob("*.seg")}
        used_again = 0
        for number in range(4, 40, 2):
            append(log, range(number, number + 2))
            until(lambda: len(segments(log.path)) <= 2 and (log.path / "spare").exists())
            now = {path.stat().st_ino for path in log.path.glob("*.seg")} - seen
            spare = (log.path / "spare").stat().st_ino
            used_again += spare in seen
            seen |= now | {spare}
        assert used_again > 10


@pytest.mark.parametrize(
    "settings", [{"age": -1}, {"age": "soon"}, {"bytes": "much"}, {"cursors": -1}, {"age": 1e12}, {"cursors": "x"}]
)
def test_a_retention_that_is_not_possible_is_refused(settings: dict[str, float | str]) -> None:
    with pytest.raises(ValueError, match="is not"):
        rtmw.Retention(**settings)  # type: ignore[arg-type]


WRITER = """
    import rtmw
    retention = rtmw.Retention(bytes="192K")
    with rtmw.Log({path!r}, segment="64K", retention=retention) as log:
        for number in range({least}, 100_000):
            log.append(b"%d" % number + bytes({length}), key=number, id=number)
            if number % 7 == 0:
                log.trim(max(0, log.end - 3 * {length}))
            print(number, flush=True)
"""


# Proves G121.
def test_a_writer_that_is_killed_while_segments_go_leaves_the_newest_records_whole(
    tmp_path: Path, spawn: Spawn
) -> None:
    chance, path, last = random.Random(2), tmp_path / "log", -1
    for _ in range(8):
        child = spawn(WRITER.format(path=str(path), least=last + 1, length=LENGTH))
        for _ in range(chance.randrange(20, 90)):
            last = int(child.line())
        child.kill()
        with rtmw.Log(path, rtmw.ANY) as log:
            found = keys(log)
        assert found == list(range(int(str(found[0])), int(str(found[0])) + len(found)))
        assert int(str(found[-1])) >= last
        assert len(found) >= 2
        last = int(str(found[-1]))


@pytest.mark.parametrize("written", [5, 5.0, "7d", {"age": 5}, True])
def test_what_is_no_retention_is_refused_and_how_to_write_one_is_said(tmp_path: Path, written: object) -> None:
    with pytest.raises(TypeError) as error:
        rtmw.Log(tmp_path / "log", retention=written)  # type: ignore[arg-type]
    assert f"rtmw.Retention(age={written!r}) for a time" in str(error.value)
    assert f"rtmw.Retention(bytes={written!r}) for a size" in str(error.value)
    assert not (tmp_path / "log").exists()
