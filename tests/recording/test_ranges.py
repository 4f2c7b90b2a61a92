"""Ranges of the numbers in a chunk, as docs/formats/format.md has them."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import pytest

from rtmw.errors import RecordingDamaged
from rtmw.recording import Recording
from rtmw.recording.tools.check import check
from tests.spark.plant import BEGIN, Plant, Speed, speed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    plant = Plant(tmp_path / "a.mcap")
    plant.put("pump", [3, 9, 4])
    return plant.close()


def place(path: Path) -> int:
    """Where the ranges of the first chunk lie: behind its side record."""
    with Recording(path) as recording:
        side = recording.chunks[0].side_position
    return side + 9 + int.from_bytes(path.read_bytes()[side + 1 : side + 9], "little")


def test_ranges_lie_behind_the_side_record_byte_by_byte_as_the_format_says(path: Path) -> None:
    with Recording(path) as recording:
        begin = recording.chunks[0].position
    rows = struct.pack("<HHBqq", 1, 0, 2, 3, 4)  # pump: int32; 9 % 5 is 4
    rows += struct.pack("<HHBdd", 1, 1, 9, 3 / 7, 9 / 7)  # rpm
    rows += struct.pack("<HHBQQ", 1, 2, 7, (1 << 63) + 3, (1 << 63) + 9)  # turns
    content = struct.pack("<QIIQIQ", begin, 3, 0, len(rows), crc32(rows), len(rows)) + rows
    record = struct.pack("<BQ", 0x90, len(content)) + content
    assert path.read_bytes()[place(path) :][: len(record)] == record


def test_a_walk_without_the_summary_steps_over_ranges(path: Path) -> None:
    at = place(path)
    data = path.read_bytes()
    behind = at + 9 + int.from_bytes(data[at + 1 : at + 9], "little")
    for end in (at, at + 5, behind):
        cut = path.with_name(f"{end}.mcap")
        cut.write_bytes(data[:end])
        with Recording(cut) as recording:
            assert recording.message_count == 3
            assert bool(recording.ranges(recording.chunks[0])) == (end == behind)


def test_a_turned_bit_in_ranges_is_noticed_or_there_are_none(path: Path) -> None:
    at, data = place(path), path.read_bytes()
    behind = at + 9 + int.from_bytes(data[at + 1 : at + 9], "little")
    with Recording(path) as recording:
        true = recording.ranges(recording.chunks[0])
    outcomes = set[str]()
    for number in range(8 * at, 8 * behind):
        turned = bytearray(data)
        turned[number // 8] ^= 1 << number % 8
        path.write_bytes(turned)
        with Recording(path) as recording:
            try:
                found = recording.ranges(recording.chunks[0])
            except RecordingDamaged:
                outcomes.add("damaged")
            else:
                assert found in ({}, true), number
                outcomes.add("none")
    assert outcomes == {"damaged", "none"}


def test_check_compares_ranges_with_the_messages(path: Path) -> None:
    assert check(path).is_whole
    at, data = place(path), bytearray(path.read_bytes())
    rows = at + 9 + 36
    data[rows + 5 : rows + 13] = (4).to_bytes(8, "little")  # pump: from 4, not from 3
    size = int.from_bytes(data[at + 1 : at + 9], "little") - 36
    data[rows - 12 : rows - 8] = crc32(data[rows : rows + size]).to_bytes(4, "little")
    path.write_bytes(data)
    assert "the ranges of channel 1 are not its messages'" in check(path).problems[0]


def test_what_is_damaged_optional_or_no_number_has_no_range(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "a.mcap")
    plant.put("pump", [1])
    plant.payload("pump", Speed, 2, speed(2).serialize()[:9])
    plant.put("raw", [3], lambda number: bytes([number]))
    with Recording(plant.close()) as recording:
        assert recording.start_ns == BEGIN + 1_000_001
        assert [recording.ranges(chunk) for chunk in recording.chunks] == [{}]
