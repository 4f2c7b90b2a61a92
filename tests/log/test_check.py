"""check tells a torn tail from damage and changes nothing; salvage writes what is whole, and says what is missing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw
from rtmw.log import Checked, check, salvage
from tests.log.replica import write_golden

RECORDS = 12
LENGTH = 20_000
SIZE = LENGTH + 32 + 16
"""Of a record, with head and labels: two of them fill a segment of 64 KiB."""
DATA = 12288


def nobody(done: int, all: int) -> None:
    assert 0 <= done <= all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with rtmw.Log(path, segment="64K") as log:
        for number in range(RECORDS):
            log.append(bytes([number]) * LENGTH, key=number)
    return path


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def spoil(path: Path, at: int, size: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + size] = bytes(byte ^ 1 for byte in data[at : at + size])
    path.write_bytes(data)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def whole(folder: Path) -> Checked:
    before = contents(folder)
    checked = check(folder, nobody)
    assert contents(folder) == before
    return checked


def test_a_log_that_is_whole_is_said_to_be(folder: Path) -> None:
    checked = whole(folder)
    assert checked.is_whole
    assert (checked.records, checked.segments, checked.start, checked.end) == (RECORDS, 6, 0, RECORDS * SIZE)
    with rtmw.Log(folder, segment="64K") as log:
        log.trim(4 * SIZE)
        log.read(cursor="c").close()
        assert check(folder, nobody).is_whole  # while it is written, too
    assert (whole(folder).start, whole(folder).records) == (4 * SIZE, 8)


def head(folder: Path) -> None:
    spoil(segments(folder)[1], 100)


def both_marks(folder: Path) -> None:
    spoil(segments(folder)[2], 4096, 8192)


def cursor(folder: Path) -> None:
    with rtmw.Log(folder) as log:
        log.read(cursor="c").close()
    spoil(folder / "c.cursor", 4096, 8192)


@pytest.mark.parametrize(
    ("harm", "missing", "problem"),
    [
        (lambda folder: spoil(segments(folder)[0], DATA + 50), [(0, SIZE)], ""),
        (lambda folder: spoil(segments(folder)[2], DATA + SIZE + 5), [(5 * SIZE, 6 * SIZE)], ""),
        (lambda folder: spoil(segments(folder)[-1], DATA + SIZE + 99), [(11 * SIZE, 12 * SIZE)], ""),
        (lambda folder: segments(folder)[0].unlink(), [(0, 2 * SIZE)], ""),
        (lambda folder: segments(folder)[3].unlink(), [(6 * SIZE, 8 * SIZE)], ""),
        (lambda folder: segments(folder)[-1].unlink(), [(10 * SIZE, 12 * SIZE)], ""),
        (lambda folder: spoil(folder / "start", 4096, 8192), [], "start: both marks of the file are spoiled"),
        (head, [], "the head of the segment is not as it was written"),
        (both_marks, [], "both watermarks of the segment are spoiled"),
        (cursor, [], r"c.cursor: both marks of the file are spoiled"),
    ],
    ids=["first", "middle", "last", "no first", "no middle", "no last", "start", "head", "marks", "cursor"],
)
# Proves G126.
def test_damage_is_said_by_its_range_and_what_is_whole_is_saved(
    harm: Callable[[Path], None], missing: list[tuple[int, int]], problem: str, folder: Path, tmp_path: Path
) -> None:
    with rtmw.Log(folder) as log:
        before = {record.position: (record.time_ns, record.key, record.data) for record in log.read()}
    harm(folder)
    checked = whole(folder)
    assert not checked.is_whole
    assert [(lost.start, lost.end) for lost in checked.missing] == missing
    assert problem in " ".join(checked.problems)
    assert bool(problem) == bool(checked.problems)
    saved = salvage(folder, tmp_path / "new", nobody)
    assert saved.missing == checked.missing
    with rtmw.Log(tmp_path / "new", create=False) as log:
        found = [(record.time_ns, record.key, record.data) for record in log.read()]
    lost = [position for position in before for start, end in missing if start <= position < end]
    assert found == [record for position, record in before.items() if position not in lost]
    assert saved.records == len(found) == RECORDS - len(lost)


# Proves G126.
def test_a_torn_tail_is_no_damage(folder: Path) -> None:
    """As if the writer had been killed while it wrote the last two records, of which one is torn."""
    last = segments(folder)[-1]
    data = bytearray(last.read_bytes())
    newest = max((4096, 8192), key=lambda at: data[at + 24])
    data[newest : newest + 64] = bytes(64)
    data[DATA + SIZE + 500 :] = bytes(len(data) - DATA - SIZE - 500)
    last.write_bytes(data)
    (folder / "end").unlink()
    checked = whole(folder)
    assert checked.is_whole
    assert checked.records * SIZE + checked.tail == checked.end + checked.tail == 11 * SIZE


# Proves G126.
def test_wherever_bytes_rot_all_other_records_are_saved(folder: Path, tmp_path: Path) -> None:
    chance = random.Random(6)
    clean = {path.name: path.read_bytes() for path in segments(folder)}
    for number in range(12):
        for name, data in clean.items():
            (folder / name).write_bytes(data)
        hurt = set[int]()
        for _ in range(chance.randrange(1, 4)):
            which, at = chance.randrange(6), chance.randrange(2 * SIZE)
            spoil(segments(folder)[which], DATA + at)
            hurt.add(2 * which + at // SIZE)
        saved = salvage(folder, tmp_path / f"new{number}", nobody)
        with rtmw.Log(tmp_path / f"new{number}", create=False) as log:
            assert [record.key for record in log.read()] == [n for n in range(RECORDS) if n not in hurt]
        assert sum(lost.end - lost.start for lost in saved.missing) == len(hurt) * SIZE


def test_ids_of_a_log_that_was_saved_are_known(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        for number in range(30):
            log.append(b"x", id=number)
    salvage(tmp_path / "log", tmp_path / "new", nobody)
    with rtmw.Log(tmp_path / "new") as log:
        for number in range(30):
            log.append(b"x", id=number)
        assert [record.id for record in log.read()] == list(range(30))


def test_nothing_is_saved_over_what_is_there(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with pytest.raises(rtmw.LogError, match="is there already"):
        salvage(folder, tmp_path / "new", nobody)
    with pytest.raises(FileNotFoundError, match="there is no log"):
        check(tmp_path / "other", nobody)


def test_marks_of_a_replicated_log_are_no_records(tmp_path: Path) -> None:
    positions = write_golden(tmp_path / "replica")
    assert salvage(tmp_path / "replica", tmp_path / "saved", nobody).records == len(positions) - 1
