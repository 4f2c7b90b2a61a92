"""Files of a log that somebody has changed, with right checksums: readers end, and check sees what they see."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw
from rtmw.log import check
from tests.log.crc import crc32c
from tests.log.small import small_compact

RECORDS = 200
HEAD = 12288
LENGTH_OF_RECORD = 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of several segments, the first of which are compacted."""
    path = tmp_path / "log"
    with rtmw.Log(path, segment="64K") as log:
        for number in range(RECORDS):
            log.append(bytes(2000), key=f"k{number % 4}" if number % 2 else number, id=f"i{number}")
    small_compact(path)
    assert sum(is_compacted(one) for one in segments(path)) >= 2
    return path


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def is_compacted(path: Path) -> bool:
    return path.read_bytes()[8] == 2


def uuid(folder: Path) -> bytes:
    return (folder / "log").read_bytes()[16:32]


def change_head(path: Path, at: int, value: int) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, at, value)
    struct.pack_into("<I", data, 12, crc32c(bytes(data[16:4096])))
    path.write_bytes(data)


def change_record(folder: Path, path: Path, place: int, at: int, new: bytes) -> int:
    """Bytes of the record at this place of a segment. Its position."""
    data, begin = bytearray(path.read_bytes()), HEAD + place
    length, _, position = struct.unpack_from("<IIQ", data, begin)
    size = (LENGTH_OF_RECORD + length + 7) & ~7
    data[begin + at : begin + at + len(new)] = new
    rest = bytes(data[begin : begin + 4] + data[begin + 8 : begin + size])
    struct.pack_into("<I", data, begin + 4, crc32c(rest, crc32c(uuid(folder))))
    path.write_bytes(data)
    return int(position)


def change_marks(folder: Path, name: str, position: int) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    for at in (4096, 8192):
        struct.pack_into("<Q", data, at + 32, position)
        struct.pack_into("<I", data, at + 8, crc32c(bytes(data[at + 12 : at + 48]), crc32c(uuid(folder))))
    path.write_bytes(data)


def positions(folder: Path) -> list[int]:
    """As readers see it; each record is asked for all it has."""
    with rtmw.Log(folder, create=False) as log:
        found = list[int]()
        for record in log.read():
            assert record.key is not None
            assert record.id is not None
            found.append(record.position)
            assert len(found) <= RECORDS + 1, "a reader goes round"
        return found


def refused(folder: Path) -> rtmw.LogDamaged:
    """What reading raises. Check says the same, and batches do."""
    with pytest.raises(rtmw.LogDamaged) as refusal:
        positions(folder)
    with pytest.raises(rtmw.LogDamaged), rtmw.Log(folder, create=False) as log:
        for _ in log.read_batches():
            pass
    assert not check(folder, lambda done, all: None).is_whole
    return refusal.value


def test_a_compacted_log_is_whole_and_read_in_order(folder: Path) -> None:
    found = positions(folder)
    assert found == sorted(set(found))
    assert check(folder, lambda done, all: None).is_whole


def ends_in_front(folder: Path) -> None:
    change_head(segments(folder)[1], 64, 0)


def ends_at_itself(folder: Path) -> None:
    path = segments(folder)[1]
    change_head(path, 64, int(path.stem))


def ends_behind_the_next(folder: Path) -> None:
    change_head(segments(folder)[0], 64, int(segments(folder)[2].stem))


def ends_behind_all(folder: Path) -> None:
    change_head(segments(folder)[0], 64, 1 << 62)


def holds_more_than_a_file_may(folder: Path) -> None:
    change_head(segments(folder)[0], 72, (1 << 64) - HEAD)


@pytest.mark.parametrize(
    "harm", [ends_in_front, ends_at_itself, ends_behind_the_next, ends_behind_all, holds_more_than_a_file_may]
)
# Proves G130.
def test_readers_never_step_back_and_leave_nothing_out_when_the_head_of_a_segment_says_otherwise(
    folder: Path, harm: Callable[[Path], None]
) -> None:
    harm(folder)
    refused(folder)


# Proves G130.
def test_a_record_that_lies_behind_a_later_one_is_damage(folder: Path) -> None:
    path = next(one for one in segments(folder) if is_compacted(one))
    data = path.read_bytes()
    length, _, _ = struct.unpack_from("<IIQ", data, HEAD)
    size = (LENGTH_OF_RECORD + length + 7) & ~7
    first, second = (struct.unpack_from("<Q", data, HEAD + at + 8)[0] for at in (0, size))
    assert first < second
    end = struct.unpack_from("<Q", data, 64)[0]
    change_record(folder, path, 0, 8, struct.pack("<Q", end - size))
    assert refused(folder).start <= end


@pytest.mark.parametrize("which", ["key", "id"])
@pytest.mark.parametrize("new", [b"\xff\xfe", b"\xed\xa0", b"\xc0\x80"])
# Proves G130.
def test_a_key_or_an_id_that_is_no_text_is_damage_at_its_position(folder: Path, which: str, new: bytes) -> None:
    path = segments(folder)[-1]
    data, place = path.read_bytes(), 0
    while data[HEAD + place + LENGTH_OF_RECORD] != 2:  # the first record whose key is text
        length = struct.unpack_from("<I", data, HEAD + place)[0]
        place += (LENGTH_OF_RECORD + length + 7) & ~7
    key = struct.unpack_from("<H", data, HEAD + place + LENGTH_OF_RECORD + 2)[0]
    at = LENGTH_OF_RECORD + 8 + (0 if which == "key" else key)
    position = change_record(folder, path, place, at, new)
    damage = refused(folder)
    assert damage.start == position
    assert "a key or an id is none" in str(damage)


@pytest.mark.parametrize("writes", [False, True])
# Proves G130.
def test_a_start_inside_of_a_record_is_damage_at_that_position(folder: Path, writes: bool) -> None:
    """Also while a writer lives, which has looked whether the log is whole before the file was changed."""
    with rtmw.Log(folder, segment="64K") as log:
        log.trim(int(segments(folder)[1].stem))
        if writes:
            log.append(b"x", key="k", id="x")
        start = int(segments(folder)[0].stem)
        change_marks(folder, "start", start + 8)
        if not writes:
            log.close()
        with pytest.raises(rtmw.LogDamaged) as refusal:
            positions(folder)
        assert refusal.value.start == start + 8
        assert not check(folder, lambda done, all: None).is_whole


# Proves G130.
def test_a_cursor_inside_of_a_record_is_damage_at_that_position(folder: Path) -> None:
    with rtmw.Log(folder) as log, log.read(cursor="c") as records:
        next(records).commit()
        inside = next(records).position + 8
    last = int(segments(folder)[-1].stem) + 8
    change_marks(folder, "c.cursor", last)
    with rtmw.Log(folder) as log, pytest.raises(rtmw.LogDamaged) as refusal:
        next(log.read(cursor="c"))
    assert refusal.value.start == last != inside


def test_ids_that_are_saved_up_to_the_inside_of_a_record_are_damage(folder: Path) -> None:
    path = folder / "ids"
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 16, int(segments(folder)[-1].stem) + 8)
    struct.pack_into("<I", data, 12, crc32c(bytes(data[16:]), crc32c(uuid(folder))))
    path.write_bytes(data)
    with rtmw.Log(folder) as log, pytest.raises(rtmw.LogDamaged):
        log.append(b"x", id="new")
