"""The golden files of what lies beside segments of version 1, and docs/formats/log-format.md on them."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

import rtmw
from rtmw.log import check
from tests.log.crc import crc32c, load_example
from tests.log.page import field, table
from tests.log.siphash import siphash
from tests.log.small import BEGINS, COMMITTED, KEYS, LENGTH, STAYS, content, small_compact, small_write

GOLDEN = Path(__file__).parent / "golden_small"
SEED = crc32c((GOLDEN / "log").read_bytes()[16:32])
SIZE = 32 + 16 + LENGTH + 8
POSITIONS = [number * SIZE for number in range(len(KEYS))]
MARK, V2 = "Mark, at 4096 and at 8192", "Head of a compacted segment, at 0"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


def times(data: bytes) -> list[int]:
    """Of the records of a segment, wherever they lie."""
    found, at = list[int](), 12288
    while at + 32 <= len(data) and (length := struct.unpack_from("<I", data, at)[0]):
        found.append(field(data[at : at + 32], "Record", "when it was appended"))
        at += (32 + length + 7) // 8 * 8
    return found


def newest_mark(data: bytes) -> bytes:
    marks = [data[at : at + 48] for at in (4096, 8192)]
    assert all(field(mark, MARK, "CRC") == crc32c(mark[12:], SEED) for mark in marks)
    return max(marks, key=lambda mark: field(mark, MARK, "number"))


def test_what_compaction_has_left_is_read_and_is_no_damage(golden: Path) -> None:
    with rtmw.Log(golden, create=False) as log:
        found = [(record.position, record.key, record.id, record.data) for record in log.read()]
    assert found == [(POSITIONS[number], KEYS[number], number, content(number)) for number in STAYS]
    checked = check(golden, lambda *_: None)
    assert checked.is_whole
    assert (checked.records, checked.compacted) == (len(STAYS), SIZE * (len(KEYS) - BEGINS - len(STAYS)))
    for path in GOLDEN.iterdir():
        assert (golden / path.name).read_bytes() == path.read_bytes()


def test_the_reader_without_rtmw_reads_the_same(golden: Path) -> None:
    found = [(where, data) for where, _, _, data in load_example().records(golden)]
    assert found == [(POSITIONS[number], content(number)) for number in STAYS]


def test_the_reader_without_rtmw_says_what_is_missing_or_damaged(golden: Path) -> None:
    second = golden / f"{POSITIONS[4]:020}.seg"
    data = bytearray(second.read_bytes())
    data[20000] ^= 1
    second.write_bytes(data)
    with pytest.raises(SystemExit, match="is damaged"):
        list(load_example().records(golden))
    second.unlink()
    with pytest.raises(SystemExit, match=f"the segment of {POSITIONS[4]} is missing"):
        list(load_example().records(golden))


def test_a_log_that_is_written_today_has_the_same_files(tmp_path: Path) -> None:
    """And the same bytes, but for uuid, times, and what follows from them."""
    new = tmp_path / "new"
    assert small_write(new) == POSITIONS
    small_compact(new)
    names = {path.name: path.stat().st_size for path in GOLDEN.iterdir()}
    assert {path.name: path.stat().st_size for path in new.iterdir() if not path.name.endswith("lock")} == names
    for name in names:
        ours, theirs = (new / name).read_bytes(), (GOLDEN / name).read_bytes()
        if name.endswith(".seg"):
            assert ours[32:48] == theirs[32:48]
            assert ours[56:4096] == theirs[56:4096]
        if name.endswith((".seg", ".cursor")) or name in ("start", "compacted"):
            for what in ("flags", "base", "durable"):
                assert max_of(ours, what) == max_of(theirs, what)


def max_of(data: bytes, what: str) -> int:
    return max(field(data[at : at + 48], MARK, what) for at in (4096, 8192))


def test_the_page_says_what_lies_in_the_head_of_a_compacted_segment() -> None:
    for first in (2, 4, 6):
        data = (GOLDEN / f"{POSITIONS[first]:020}.seg").read_bytes()
        left = [number for number in STAYS if first <= number < first + 2]
        assert field(data, "Head, at 0", "version") == 2
        assert field(data, "Head, at 0", "CRC") == crc32c(data[16:4096])
        assert field(data, "Head, at 0", "size of the file") == len(data)
        assert field(data, V2, "end") == POSITIONS[first + 2]
        assert field(data, V2, "number of its records") == len(left)
        assert field(data, V2, "bytes of its records") == SIZE * len(left)
        assert field(data[12288:], "Record", "position") == POSITIONS[left[0]]
        mark = newest_mark(data)
        assert field(mark, MARK, "flags") == 1
        assert field(mark, MARK, "durable") == POSITIONS[first + 2]
    rows = table(V2)
    assert [row.at for row in rows] == [64, *(row.at + (row.size or 0) for row in rows[:-1])]


@pytest.mark.parametrize(
    ("name", "base", "number", "flags"),
    [
        ("start", 1, POSITIONS[BEGINS], 0),
        ("c.cursor", 2, POSITIONS[COMMITTED + 1], 0),
        ("compacted", 3, POSITIONS[10], 1),
    ],
)
def test_the_page_says_what_lies_in_a_file_of_two_marks(name: str, base: int, number: int, flags: int) -> None:
    data = (GOLDEN / name).read_bytes()
    assert len(data) == 12288
    assert data[:4096] == bytes(4096)
    mark = newest_mark(data)
    assert field(mark, MARK, "base") == (1 << 64) - base
    assert field(mark, MARK, "durable") == number
    assert field(mark, MARK, "flags") == flags


@pytest.mark.parametrize("first", [2, 4, 6, 8])
def test_the_page_says_what_lies_in_an_index(first: int) -> None:
    name, base, heading = f"{POSITIONS[first]:020}", POSITIONS[first], "The file `<base>.idx`"
    data, moments = (GOLDEN / f"{name}.idx").read_bytes(), times((GOLDEN / f"{name}.seg").read_bytes())
    left = [number for number in STAYS if first <= number < first + 2]
    assert data[:8] == b"RTMWIDX\0"
    assert field(data, heading, "version") == 1
    assert field(data, heading, "CRC") == crc32c(data[16:], SEED)
    assert field(data, heading, "base") == base
    assert field(data, heading, "end") == POSITIONS[first + 2]
    assert field(data, heading, "number of records") == len(left) == len(moments)
    assert field(data, heading, "earliest time") == min(moments)
    assert field(data, heading, "latest time") == max(moments)
    assert field(data, heading, "number of stretches") == 1
    assert struct.unpack("<QQ", data[64:]) == (POSITIONS[left[0]], max(moments))


def test_the_page_says_what_lies_in_the_snapshot_of_ids_also_of_records_that_are_gone() -> None:
    data, uuid, heading = (GOLDEN / "ids").read_bytes(), (GOLDEN / "log").read_bytes()[16:32], "The file `ids`"
    assert field(data, heading, "CRC") == crc32c(data[16:], SEED)
    assert field(data, heading, "number of entries") == len(KEYS)
    for number, position in enumerate(POSITIONS):
        entry = data[32 + 40 * number : 72 + 40 * number]
        assert entry[:16] == siphash(uuid, b"\x03" + bytes([number]))
        assert field(entry, "Entry of `ids`", "position") == position
