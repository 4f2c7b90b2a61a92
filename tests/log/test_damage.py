"""What is wrong with a log is told from what a power cut leaves: refused with file, positions and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw

RECORDS = 12
LENGTH = 20_000
"""Of each record's data: two of them fill a segment of 64 KiB."""
SIZE = LENGTH + 32
DATA = 12288


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of six segments, closed."""
    path = tmp_path / "log"
    with rtmw.Log(path, segment="64K") as log:
        for number in range(RECORDS):
            log.append(bytes([number]) * LENGTH)
    return path


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def turn(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def read(folder: Path) -> list[int]:
    with rtmw.Log(folder, create=False) as log:
        return [record.data[0] for record in log.read()]


def test_the_log_of_these_tests_is_as_it_should_be(folder: Path) -> None:
    assert len(segments(folder)) == 6
    assert read(folder) == list(range(RECORDS))


def remove(number: int) -> Callable[[Path], None]:
    return lambda folder: segments(folder)[number].unlink()


def swap(folder: Path) -> None:
    first, second = segments(folder)[1:3]
    other = first.with_suffix(".x")
    first.rename(other)
    second.rename(first)
    other.rename(second)


def cut_short(folder: Path) -> None:
    path = segments(folder)[2]
    path.write_bytes(path.read_bytes()[:30_000])


def of_another_log(folder: Path) -> None:
    with rtmw.Log(folder.with_name("other"), segment="64K") as log:
        for number in range(RECORDS):
            log.append(bytes([number]) * LENGTH)
    target = segments(folder)[3]
    shutil.copy(folder.with_name("other") / target.name, target)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (remove(0), "the first segments are missing: records from position 0 up to 40064"),
        (remove(2), "records or segments are missing: records from position 80128 up to 120192"),
        (remove(-1), "the segment behind it is missing: records from position 200320"),
        (swap, "the file has the name of another segment"),
        (cut_short, "the file is shorter than it was made"),
        (of_another_log, "the segment is of another log"),
        (lambda folder: turn(folder / "log", 20), "log: the file is not as it was written"),
        (lambda folder: turn(segments(folder)[1], 100), "the head of the segment is not as it was written"),
        (lambda folder: turn(segments(folder)[-1], DATA + 100), f"records from position 200320 up to {RECORDS * SIZE}"),
        (lambda folder: turn(segments(folder)[-1], DATA + SIZE + 8), f"position {11 * SIZE} up to {RECORDS * SIZE}"),
    ],
    ids=["first", "middle", "last", "swapped", "short", "foreign", "identity", "head", "record", "last record"],
)
# Proves G129.
def test_a_log_with_damage_is_refused_and_not_changed(harm: Callable[[Path], None], told: str, folder: Path) -> None:
    harm(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    with pytest.raises(rtmw.LogDamaged, match=told) as error:
        rtmw.Log(folder, create=False)
    assert "restore the folder from a copy" in str(error.value)
    assert error.value.path.startswith(str(folder))
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"} == before


def test_damage_in_the_middle_is_told_when_a_reader_comes_to_it(folder: Path) -> None:
    turn(segments(folder)[2], DATA + 77)
    with rtmw.Log(folder, create=False) as log:
        records = iter(log.read())
        assert [next(records).data[0] for _ in range(4)] == [0, 1, 2, 3]
        with pytest.raises(rtmw.LogDamaged) as error:
            next(records)
        assert error.value.start == 4 * SIZE
        assert [record.data[0] for record in log.read(6 * SIZE)] == [6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("at", [4096, 8192])
def test_one_spoiled_watermark_harms_nothing(at: int, folder: Path) -> None:
    turn(segments(folder)[-1], at + 30)
    assert read(folder) == list(range(RECORDS))


def test_without_both_watermarks_nobody_can_say_what_was_durable(folder: Path) -> None:
    for at in (4096, 8192):
        turn(segments(folder)[-1], at + 30)
    with pytest.raises(rtmw.LogDamaged, match="both watermarks of the segment are spoiled"):
        rtmw.Log(folder, create=False)


def test_a_log_without_its_identity_is_not_made_anew(folder: Path) -> None:
    (folder / "log").unlink()
    with pytest.raises(rtmw.LogDamaged, match="segments are there, and the file `log` is missing"):
        rtmw.Log(folder)
    assert len(segments(folder)) == 6


def test_a_log_of_another_version_is_refused_with_both_versions(folder: Path) -> None:
    for path in (folder / "log", segments(folder)[0]):
        data = bytearray(path.read_bytes())
        data[8:12] = (7).to_bytes(4, "little")
        before = path.read_bytes()
        path.write_bytes(data)
        with pytest.raises(rtmw.LogError, match="is of version 7 of the format, and this rtmw knows version 1"):
            rtmw.Log(folder, create=False)
        path.write_bytes(before)


# ---- what a power cut leaves ----


def uncleanly(folder: Path) -> None:
    """As if the last writer had not closed it: the file `end` was never synced, and the clean mark is not there."""
    last = segments(folder)[-1]
    data = bytearray(last.read_bytes())
    marks = sorted((4096, 8192), key=lambda at: data[at + 24])
    data[marks[1] : marks[1] + 64] = bytes(64)
    last.write_bytes(data)
    (folder / "end").unlink()


def test_a_torn_tail_is_cut_off_and_counted_and_the_log_goes_on(folder: Path) -> None:
    uncleanly(folder)
    last = segments(folder)[-1]
    data = bytearray(last.read_bytes())
    data[DATA + SIZE + 500 :] = bytes(len(data) - DATA - SIZE - 500)
    last.write_bytes(data)
    with rtmw.Log(folder, segment="64K") as log:
        assert [record.data[0] for record in log.read()] == list(range(RECORDS - 1))
        assert log.stats().cut == 4096
        log.append(b"\xff")
    assert read(folder) == [*range(RECORDS - 1), 255]


def test_a_record_that_was_cut_off_never_comes_back(tmp_path: Path) -> None:
    """Behind a new record as long as the one that is torn, the other one of the old batch lies whole at its place."""
    folder = tmp_path / "log"
    with rtmw.Log(folder, segment="64K") as log:
        log.append_many([bytes([number]) * LENGTH for number in range(2)])
    uncleanly(folder)
    turn(segments(folder)[0], DATA + 500)
    with rtmw.Log(folder, segment="64K") as log:
        assert list(log.read()) == []
        log.append(b"\xfe" * LENGTH)
    assert read(folder) == [254]


def test_a_clean_end_is_told_from_one_that_is_not(folder: Path) -> None:
    """Opening a log that was closed writes nothing; after a power cut it writes a watermark."""
    last = segments(folder)[-1]
    before = last.read_bytes()
    read(folder)
    assert last.read_bytes() == before
    uncleanly(folder)
    without = last.read_bytes()
    assert read(folder) == list(range(RECORDS))
    assert last.read_bytes() != without
