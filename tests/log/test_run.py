"""Runs of records: the same as one record after the other, as columns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import rtmw
from rtmw.errors import ClosedError, LogDamaged
from rtmw.log import RUN_DATA, RUN_IDS, RUN_KEYS, SEGMENT_LEAST, Folder, Label, Reader, open_folder, unpack_labels
from tests.log.crc import crc32c
from tests.test_log_compaction import compact, fill

RECORDS: Final = 3000
ALL: Final = RUN_DATA | RUN_KEYS | RUN_IDS
EVER: Final = (1 << 64) - 1
FIRST_RECORD: Final = 12288
"""Where the records of a segment begin."""

KEYS: Final[list[Label | None]] = [None, "", "Ä…𝄞", b"", b"\x00\xff", 0, -1, 9, 10, 255, -256, 10**9, -(10**9), 10**18]
NUMBERS: Final[list[Label | None]] = [
    sign * (base**exponent + more)
    for base, exponent in ((2, 31), (2, 63), (2, 64), (10, 27), (10, 36), (2, 1000), (10, 4200))
    for more in (-1, 0, 1)
    for sign in (1, -1)
]


def shown(label: Label | None) -> str | None:
    return label.hex() if isinstance(label, bytes) else None if label is None else str(label)


def texts(found: tuple[bytes, bytes, bytes]) -> Iterator[str | None]:
    text, ends, is_there = found
    begin = 0
    for end, one in zip(np.frombuffer(ends, np.int32).tolist(), is_there, strict=True):
        assert one or begin == end
        yield text[begin:end].decode() if one else None
        begin = end


def rows(reader: Reader, end: int, rows: int, size: int, times: tuple[int, int] = (0, EVER)) -> Iterator[Any]:
    """Position, time, epoch, key, id and data of each record, by runs of so many rows and bytes."""
    while (run := reader.run(end, ALL, *times, rows, size)) is not None:
        count, position, time_ns, epoch, place, length, data, keys, ids, _, kind = run
        assert kind == 0
        assert place is not None
        assert length is not None
        assert data is not None
        assert keys is not None
        assert ids is not None
        assert 0 < count <= rows
        numbers = [np.frombuffer(memory, kind).tolist() for memory, kind in ((position, "u8"), (time_ns, "u8"))]
        places = [np.frombuffer(memory, "i8").tolist() for memory in (place, length)]
        payloads = [data[at : at + size] for at, size in zip(*places, strict=True)]
        yield from zip(*numbers, np.frombuffer(epoch, "u4").tolist(), texts(keys), texts(ids), payloads, strict=True)


def one_by_one(reader: Reader, end: int) -> Iterator[Any]:
    while (found := reader.next(end)) is not None:
        position, _, time_ns, epoch, _, labels, data = found
        key, id = unpack_labels(labels)
        yield position, time_ns, epoch, shown(key), shown(id), data


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A log of several segments, with records of all sizes."""
    chance = random.Random(1)
    with rtmw.Log(tmp_path / "log", segment="256K", sync=False) as log:
        for number in range(RECORDS):
            size = chance.choice([0, 1, 7, 8, 100, 1000])
            log.append(chance.randbytes(size), key=chance.choice(KEYS), id=number if number % 3 else f"id {number}")
        log.append(chance.randbytes(150_000), key="large")
        log.append(b"last")
    with open_folder(tmp_path / "log", None, segment=SEGMENT_LEAST) as opened:
        yield opened


@pytest.mark.parametrize(("most", "size"), [(1, 1), (7, 1 << 20), (1 << 15, 1 << 20), (1 << 15, 1)])
def test_a_run_has_the_records_that_follow_each_other_whatever_there_is_room_for(
    folder: Folder, most: int, size: int
) -> None:
    start, end = folder.bounds()
    expected = [*one_by_one(folder.reader(start), end)]
    assert len(expected) == RECORDS + 2
    assert len(folder_segments(folder)) > 3
    assert [*rows(folder.reader(start), end, most, size)] == expected


@pytest.mark.parametrize(("most", "size"), [(1, 1), (7, 1 << 20), (1 << 15, 1)])
def test_a_run_of_a_compacted_log_loses_no_record(most: int, size: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, [number % 150 if number % 3 else None for number in range(600)], random.Random(4))
    compact(path)
    with open_folder(path, None, segment=SEGMENT_LEAST) as folder:
        start, end = folder.bounds()
        expected = [*one_by_one(folder.reader(start), end)]
        assert len(expected) < 600
        assert [*rows(folder.reader(start), end, most, size)] == expected


def folder_segments(folder: Folder) -> list[Path]:
    return sorted(Path(folder.path).glob("*.seg"))


def test_a_run_has_only_records_of_the_wanted_times(folder: Folder) -> None:
    start, end = folder.bounds()
    expected = [*one_by_one(folder.reader(start), end)]
    low, high = expected[RECORDS // 3][1], expected[RECORDS // 2][1]
    found = [*rows(folder.reader(start), end, 100, 1 << 20, (low, high))]
    assert found == [row for row in expected if low <= row[1] < high]


def test_what_nobody_wants_is_not_there(folder: Folder) -> None:
    start, end = folder.bounds()
    run = folder.reader(start).run(end, 0, 0, EVER, 10, 1 << 20)
    assert run is not None
    assert run[0] == 10
    assert run[4:9] == (None, None, None, None, None)


def test_labels_are_shown_as_python_shows_them(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        for label in KEYS + NUMBERS:
            log.append(b"", key=label)
    with open_folder(tmp_path / "log", None, segment=SEGMENT_LEAST) as folder:
        found = [row[3] for row in rows(folder.reader(0), folder.bounds()[1], 1000, 1 << 20)]
    assert found == [shown(label) for label in KEYS + NUMBERS]


def test_a_reader_that_is_closed_reads_no_run(folder: Folder) -> None:
    reader = folder.reader(0)
    reader.close()
    with pytest.raises(ClosedError):
        reader.run(folder.bounds()[1], ALL, 0, EVER, 10, 10)


@pytest.mark.parametrize(("most", "size"), [(0, 1), (1 << 31, 1), (1, 1 << 31)])
def test_a_run_has_a_size(folder: Folder, most: int, size: int) -> None:
    with pytest.raises(ValueError, match="a run has from 1"):
        folder.reader(0).run(folder.bounds()[1], ALL, 0, EVER, most, size)


def rewritten(folder: Folder, at: int, value: bytes) -> None:
    """Other bytes in the first record of the log, which is valid afterwards."""
    path = folder_segments(folder)[0]
    data = bytearray(path.read_bytes())
    data[FIRST_RECORD + at : FIRST_RECORD + at + len(value)] = value
    length = int.from_bytes(data[FIRST_RECORD : FIRST_RECORD + 4], "little")
    end = FIRST_RECORD + (32 + length + 7) // 8 * 8
    checked = folder.uuid + data[FIRST_RECORD : FIRST_RECORD + 4] + data[FIRST_RECORD + 8 : end]
    data[FIRST_RECORD + 4 : FIRST_RECORD + 8] = crc32c(bytes(checked)).to_bytes(4, "little")
    path.write_bytes(data)


def test_a_run_ends_before_a_record_of_another_kind(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        log.append_many([b"one", b"two"])
    with open_folder(tmp_path / "log", None, segment=SEGMENT_LEAST) as folder:
        rewritten(folder, 20, b"\x07")
        run = folder.reader(0).run(folder.bounds()[1], ALL, 0, EVER, 10, 10)
        assert run is not None
        assert (run[0], run[9:]) == (0, (0, 7))


@pytest.mark.parametrize("kind", [4, 255])
def test_a_label_that_is_none_is_damage(kind: int, tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"one", key="key")
    with open_folder(tmp_path / "log", None, segment=SEGMENT_LEAST) as folder:
        rewritten(folder, 32, bytes([kind]))
        with pytest.raises(LogDamaged, match="a key or an id is none"):
            folder.reader(0).run(folder.bounds()[1], ALL, 0, EVER, 10, 10)
        with pytest.raises(LogDamaged, match="a key or an id is none"):  # also where nobody wants it
            folder.reader(0).run(folder.bounds()[1], RUN_DATA, 0, EVER, 10, 10)
