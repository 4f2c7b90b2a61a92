"""docs/formats/log-format.md, the golden files, rtmw, and a reader without rtmw say the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import rtmw
from rtmw.log import pack_labels, unpack_labels
from tests.log.crc import load_example
from tests.log.page import field, table
from tests.log.siphash import siphash

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
WRITTEN: list[tuple[str | bytes | int | None, bytes]] = [
    (None, b"first"),
    ("key", "größer".encode()),
    (None, b""),
    (None, b"of"),
    (None, b"a batch"),
    (-300, b"n"),
    (b"\x00\xff", b"b"),
    *((None, bytes([n]) * 20000) for n in range(3)),
    (None, b"last"),
]
"""What the golden files hold, in two segments of 64 KiB."""


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


@pytest.fixture
def example() -> ModuleType:
    return load_example()


def write_all(folder: Path) -> None:
    with rtmw.Log(folder, segment="64K") as log:
        batch = [data for _, data in WRITTEN[2:5]]
        for key, data in WRITTEN[:2]:
            log.append(data, key=key)
        log.append_many(batch)
        for key, data in WRITTEN[5:]:
            log.append(data, key=key)


def segments(folder: Path) -> Iterator[bytes]:
    return (path.read_bytes() for path in sorted(folder.glob("*.seg")))


def test_the_golden_files_hold_what_was_written(golden: Path) -> None:
    with rtmw.Log(golden, create=False) as log:
        assert [(record.key, record.data) for record in log.read()] == WRITTEN


def test_a_log_that_was_closed_is_read_without_a_byte_of_it_being_changed(golden: Path) -> None:
    with rtmw.Log(golden, create=False) as log:
        list(log.read())
    for path in GOLDEN.iterdir():
        assert (golden / path.name).read_bytes() == path.read_bytes()


# Proves G7.
def test_a_log_that_is_written_today_has_the_bytes_of_the_golden_files(tmp_path: Path) -> None:
    """But for uuid, times and CRCs."""
    write_all(tmp_path / "new")
    for new, old in zip(segments(tmp_path / "new"), segments(GOLDEN), strict=True):
        assert len(new) == len(old)
        same = bytearray(new)
        for at in (8192, 4096, 0):
            same[at : at + 64] = old[at : at + 64]
        position = 12288
        while length := int.from_bytes(old[position : position + 4], "little") or old[position + 20]:
            same[position + 4 : position + 8] = old[position + 4 : position + 8]
            same[position + 24 : position + 32] = old[position + 24 : position + 32]
            length = int.from_bytes(old[position : position + 4], "little")
            position += (32 + length + 7) // 8 * 8
        assert bytes(same) == old


@pytest.mark.parametrize("source", ["golden", "new"])
def test_the_reader_without_rtmw_reads_the_same(source: str, golden: Path, tmp_path: Path, example: ModuleType) -> None:
    folder = golden if source == "golden" else tmp_path / "new"
    if source == "new":
        write_all(folder)
    with rtmw.Log(folder, create=False) as log:
        ours = [(record.position, record.time_ns, record.key, record.data) for record in log.read()]
    found = [(where, when, unpack_labels(about)[0], data) for where, when, about, data in example.records(folder)]
    assert found == ours


def test_the_reader_without_rtmw_reads_a_log_without_its_file_end(golden: Path, example: ModuleType) -> None:
    (golden / "end").unlink()
    assert [data for _, _, _, data in example.records(golden)] == [data for _, data in WRITTEN]


def test_the_reader_without_rtmw_reads_a_log_that_was_trimmed(tmp_path: Path, example: ModuleType) -> None:
    folder = tmp_path / "log"
    with rtmw.Log(folder, segment="64K") as log:
        for number in range(12):
            log.append(bytes(20_000), key=number, id=number)
        log.read(cursor="c").close()
    first = {path.name: path.read_bytes() for path in folder.glob("*.seg")}
    with rtmw.Log(folder) as log:
        log.trim(6 * 20_048)
        ours = [(record.position, record.data) for record in log.read()]
    for name, data in first.items():  # what an interrupted trim leaves is no part of the log
        if not (folder / name).exists():
            (folder / name).write_bytes(data)
    assert ours
    assert [(where, data) for where, _, _, data in example.records(folder)] == ours


def test_the_reader_without_rtmw_has_at_most_sixty_lines() -> None:
    source = (ROOT / "examples" / "read_log.py").read_text()
    assert len(source.splitlines()) <= 60
    assert "import rtmw" not in source


@pytest.mark.parametrize(
    "heading",
    [
        "The file `log`",
        "Head, at 0",
        "Mark, at 4096 and at 8192",
        "Record",
        "Labels",
        "The file `ids`",
        "Entry of `ids`",
        "The file `<base>.idx`",
    ],
)
def test_the_tables_of_the_page_have_no_gap(heading: str) -> None:
    rows = table(heading)
    ends = [row.at + (row.size or 0) for row in rows]
    assert [row.at for row in rows] == [0, *ends[:-1]]


def test_the_page_says_what_lies_in_the_golden_files(example: ModuleType) -> None:
    identity = (GOLDEN / "log").read_bytes()
    assert field(identity, "The file `log`", "version") == 1
    assert field(identity, "The file `log`", "CRC") == example.crc32c(identity[16:])
    assert field(identity, "The file `log`", "length of the description") == len(identity) - 48
    seed = example.crc32c(identity[16:32])
    base, end = 0, field((GOLDEN / "end").read_bytes(), "The file `end`", "end")
    both = list(segments(GOLDEN))
    for number, data in enumerate(both):
        assert field(data, "Head, at 0", "version") == 1
        assert field(data, "Head, at 0", "CRC") == example.crc32c(data[16:4096])
        assert field(data, "Head, at 0", "base") == base
        assert field(data, "Head, at 0", "size of the file") == len(data)
        marks = [data[at : at + 48] for at in (4096, 8192)]
        newest = max(marks, key=lambda mark: field(mark, "Mark, at 4096 and at 8192", "number"))
        assert field(newest, "Mark, at 4096 and at 8192", "CRC") == example.crc32c(newest[12:], seed)
        assert field(newest, "Mark, at 4096 and at 8192", "flags") == (2 if number + 1 == len(both) else 1)
        assert field(newest, "Mark, at 4096 and at 8192", "base") == base
        slot = field(newest, "Mark, at 4096 and at 8192", "number") % 2
        assert marks[slot] == newest
        base = field(newest, "Mark, at 4096 and at 8192", "durable")
    assert base == end


def test_the_page_says_what_lies_in_a_record(example: ModuleType) -> None:
    (first, _) = segments(GOLDEN)
    record = first[12288 + 40 : 12288 + 96]
    assert field(record, "Record", "length") == 16 + len("größer".encode())
    assert field(record, "Record", "position") == 40
    assert field(record, "Record", "epoch") == 1
    assert field(record, "Record", "kind") == 1
    assert field(record, "Record", "flags") == 1
    labels = record[32:48]
    assert field(labels, "Labels", "kind of the key") == 2
    assert field(labels, "Labels", "length of the key") == 3
    assert labels == pack_labels("key", None)
    assert record[48 : 48 + 8] == "größer".encode()
    batch = first[12288 + 96 :]
    assert field(batch, "Record", "flags") == 2


def test_the_page_says_what_lies_in_the_snapshot_of_ids(tmp_path: Path, example: ModuleType) -> None:
    with rtmw.Log(tmp_path / "log", segment="64K") as log:
        log.append(b"without")
        answers = [log.append(b"data", key="k", id=id) for id in ("größer", 7)]
        end = log.end
    data, uuid = (tmp_path / "log" / "ids").read_bytes(), (tmp_path / "log" / "log").read_bytes()[16:32]
    name = "The file `ids`"
    assert data[:8] == b"RTMWIDS\0"
    assert field(data, name, "version") == 1
    assert field(data, name, "CRC") == example.crc32c(data[16:], example.crc32c(uuid))
    assert field(data, name, "upto") == end
    assert field(data, name, "number of entries") == 2
    entries = [data[at : at + 40] for at in range(32, len(data), 40)]
    for entry, answer, id, kind in zip(entries, answers, ("größer".encode(), b"\x07"), (2, 3), strict=True):
        labels = pack_labels("k", answer.id)
        assert labels is not None
        assert entry[:16] == siphash(uuid, bytes([kind]) + id)
        assert entry[16:24] == siphash(siphash(uuid, labels), b"data")[:8]
        assert field(entry, "Entry of `ids`", "position") == answer.position
        assert field(entry, "Entry of `ids`", "length") == len(labels) + 4


@pytest.mark.parametrize("label", ["", "k", "größer", b"", b"\x00", 0, 1, -1, 127, 128, -128, 1 << 70, -(1 << 70)])
def test_a_label_is_read_as_it_was_written(label: str | bytes | int) -> None:
    packed = pack_labels(label, None)
    assert packed is not None
    assert len(packed) % 8 == 0
    assert unpack_labels(packed) == (label, None)
    packed = pack_labels("key", label)
    assert packed is not None
    assert unpack_labels(packed) == ("key", label)


@pytest.mark.parametrize(
    ("label", "error"), [(1.5, TypeError), (True, TypeError), ("x" * 5000, ValueError), ("\ud800", ValueError)]
)
def test_what_is_no_label_is_refused(label: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"key.*not possible"):
        pack_labels(label, None)  # type: ignore[arg-type]


def test_the_siphash_of_these_tests_gives_the_vectors_of_the_reference_implementation() -> None:
    key = bytes(range(16))
    assert siphash(key, b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash(key, bytes(range(1))).hex() == "da87c1d86b99af44347659119b22fc45"
    assert siphash(key, bytes(range(15))).hex() == "5493e99933b0a8117e08ec0f97cfc3d9"
