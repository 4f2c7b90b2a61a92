"""Reading from a time: by the index of each sealed segment, also where the clock was set back, and without an index."""

from __future__ import annotations

import random
import struct
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rtmw
from tests.log.crc import crc32c
from tests.log.page import field

RECORDS = 200
LENGTH = 2000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def wait_for_indexes(folder: Path, kind: type = bytes) -> list[Path]:
    """A writer makes them in the background."""
    until = time.monotonic() + 60
    wanted = [path.with_suffix(".idx") for path in segments(folder)[:-1]]
    with rtmw.Log(folder, kind, segment="64K") as log:
        log.append_many([])
        while not all(path.exists() and path.stat().st_size for path in wanted):
            assert time.monotonic() < until
            time.sleep(0.01)
    return wanted


def set_times(folder: Path, seconds: list[int]) -> None:
    """As if the wall clock had said so when each record was appended."""
    times, seed = iter(seconds), crc32c((folder / "log").read_bytes()[16:32])
    for path in segments(folder):
        data, at = bytearray(path.read_bytes()), 12288
        while length := int.from_bytes(data[at : at + 4], "little"):
            end = at + (32 + length + 7) // 8 * 8
            moment = int(BEGIN.timestamp() + next(times)) * 10**9
            data[at + 24 : at + 32] = moment.to_bytes(8, "little")
            crc = crc32c(bytes(data[at + 8 : end]), crc32c(bytes(data[at : at + 4]), seed))
            data[at + 4 : at + 8] = crc.to_bytes(4, "little")
            at = end
        path.write_bytes(data)
    assert next(times, None) is None


def clock(kind: str) -> list[int]:
    chance = random.Random(7)
    if kind == "steady":
        return [10 * number for number in range(RECORDS)]
    if kind == "set back":
        return [10 * (number if number < 90 else number - 60) for number in range(RECORDS)]
    return [chance.randrange(1000 if number < 100 else 2000) for number in range(RECORDS)]


def make_log(folder: Path, seconds: list[int], segment: str) -> None:
    with rtmw.Log(folder, segment=segment, sync=False) as log:
        for number in range(RECORDS):
            log.append(bytes(LENGTH), key=number)
    for path in folder.glob("*.idx"):
        path.unlink()
    set_times(folder, seconds)


@pytest.fixture(params=["steady", "set back", "at random"])
def log_of_times(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    folder, seconds = tmp_path / "log", clock(request.param)
    make_log(folder, seconds, "64K")
    return folder, seconds


def first_from(log: rtmw.Log[bytes], second: int) -> object:
    return next((record.key for record in log.read(BEGIN + timedelta(seconds=second))), None)


@pytest.mark.parametrize("indexes", ["whole", "none", "spoiled", "some"])
# Proves G120.
def test_reading_begins_with_the_first_record_by_position_of_that_time_or_later(
    indexes: str, log_of_times: tuple[Path, list[int]]
) -> None:
    folder, seconds = log_of_times
    made = wait_for_indexes(folder)
    assert len(made) >= 5
    for number, path in enumerate(made):
        if indexes == "none" or (indexes == "some" and number % 2):
            path.unlink()
        elif indexes == "spoiled":
            path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with rtmw.Log(folder, create=False) as log:
        for second in [-1, 0, 5, 300, 301, 899, 900, 995, 1390, 1391, 1990, 1999, 2001]:
            wanted = next((number for number, one in enumerate(seconds) if one >= second), None)
            assert first_from(log, second) == wanted


def test_what_lies_before_is_not_read(log_of_times: tuple[Path, list[int]]) -> None:
    """A record that is spoiled there would be met otherwise."""
    folder, seconds = log_of_times
    wait_for_indexes(folder)
    latest = max(seconds)
    wanted = seconds.index(latest)
    for path in segments(folder)[:2]:
        data = bytearray(path.read_bytes())
        data[12288 + 100] ^= 1
        path.write_bytes(data)
    with rtmw.Log(folder, create=False) as log:
        with pytest.raises(rtmw.LogDamaged):
            list(log.read())
        assert wanted > 60
        assert first_from(log, latest) == wanted


@pytest.mark.parametrize("kind", ["steady", "set back", "at random"])
def test_a_time_is_found_in_any_stretch_of_a_large_segment(kind: str, tmp_path: Path) -> None:
    folder, seconds = tmp_path / "log", clock(kind)
    make_log(folder, seconds, "256K")
    (index,) = wait_for_indexes(folder)
    assert len(index.read_bytes()) == 64 + 4 * 16
    with rtmw.Log(folder, create=False) as log:
        for second in range(-1, 2002, 17):
            wanted = next((number for number, one in enumerate(seconds) if one >= second), None)
            assert first_from(log, second) == wanted


def test_the_page_says_what_lies_in_an_index(log_of_times: tuple[Path, list[int]]) -> None:
    folder, seconds = log_of_times
    first, second, *_ = wait_for_indexes(folder)
    data, name = first.read_bytes(), "The file `<base>.idx`"
    seed = crc32c((folder / "log").read_bytes()[16:32])
    assert data[:8] == b"RTMWIDX\0"
    assert field(data, name, "version") == 1
    assert field(data, name, "CRC") == crc32c(data[16:], seed)
    assert field(data, name, "base") == int(first.stem) == 0
    assert field(data, name, "end") == int(second.stem)
    count = field(data, name, "number of records")
    times = [int(BEGIN.timestamp() + one) * 10**9 for one in seconds[:count]]
    assert field(data, name, "earliest") == min(times)
    assert field(data, name, "latest") == max(times)
    assert field(data, name, "number of stretches") == 1
    assert struct.unpack_from("<QQ", data, 64) == (0, max(times))
    assert len(data) == 80
