"""docs/formats/relay-format.md, golden bytes, and what the relay writes say the same."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
import zlib
from dataclasses import fields as fields_of
from pathlib import Path

import rtmw
from rtmw.relay import Frame
from rtmw.relay import rows as r
from rtmw.relay.frame import Hello, Kind, Packet, Welcome, encode
from rtmw.relay.rows import Row
from rtmw.relay.seals import verify
from rtmw.relay.state import State
from rtmw.relay.store import Store
from tests.page import Page
from tests.relay.make_golden import BEHIND, GOLDEN, write
from tests.relay.test_seals import sealed
from tests.relay.test_store import make
from tests.relay.world import picture

PAGE = Page(Path(__file__).parents[2] / "docs" / "formats" / "relay-format.md")
FRAME = Frame("AODB", "GATE", b"2026-11-29 13:44:12.12", "O", "I", b"CA981 gate 12")
FRAME_A = bytes.fromhex(
    "02 414f4442 47415445 323032362d31312d32392031333a34343a31322e3132 000a8a 4f 49 43413938312067617465203132 0a"
)


def fields(heading: str, data: bytes) -> dict[str, bytes]:
    """What the table of the page says to be where; the tables leave no gap."""
    found, after = dict[str, bytes](), 0
    for row in PAGE.table(heading):
        assert row.at == after, f"{heading}: {row.what}"
        after = len(data) if row.size is None else row.at + row.size
        found[row.what.split(",")[0].split(":")[0].split(";")[0]] = data[row.at : after]
    assert after == len(data)
    return found


def test_the_frame_of_the_paper_is_as_the_page_says() -> None:
    assert FRAME.encode() == FRAME_A
    found = fields("Frame of the paper", FRAME_A)
    assert (found["source"], found["stamp"], found["command"]) == (b"AODB", FRAME.stamp, b"I")
    assert int.from_bytes(found["checksum"], "big") == sum(FRAME_A) - sum(found["checksum"])
    assert Frame.decode(FRAME_A).head == FRAME_A[1:36]


def test_hello_welcome_and_frame_of_this_package_are_as_the_page_says() -> None:
    hello = fields("Hello", Hello(b"AODB", 10.0, 3).encode())
    assert (hello["magic"], hello["address of the agent"]) == (b"RTMWRLY\0", b"AODB")
    assert struct.unpack("<d", hello["T1 in seconds"]) == (10.0,)
    welcome = fields("Welcome", Welcome(5.0, 3, 1 << 20, FRAME.stamp).encode())
    assert int.from_bytes(welcome["longest data"], "little") == 1 << 20
    frame = fields("Frame", encode(Packet(Kind.ORDER, FRAME, 5, 2.5)))
    assert int.from_bytes(frame["lifetime in microseconds"], "little") == 2_500_000
    assert (frame["priority"], frame["data"]) == (b"\5", FRAME.data)
    raw = encode(Packet(Kind.ORDER, FRAME, 5, 2.5), crc=True)
    assert int.from_bytes(raw[-4:], "little") == zlib.crc32(raw[:-4])


def test_a_reader_made_of_the_page_alone_verifies_seals(tmp_path: Path) -> None:
    sealed(tmp_path, None)
    with rtmw.Log(tmp_path / "record", Row) as log:
        records, before = list(log.read()), b""
    for row in [record.value for record in records if record.value.kind == r.SEAL]:
        said = fields("Seals", row.body)
        upto, begin = (int.from_bytes(said[name], "little") for name in list(said)[:2])
        head = hashlib.sha256(before)
        for record in records:
            if begin <= record.position < upto:
                head.update(struct.pack("<QI", record.position, len(record.data)) + record.data)
        assert row.digest == head.digest()
        before = row.digest
    assert before


def test_a_reader_made_of_the_page_alone_reads_a_checkpoint(tmp_path: Path) -> None:
    make(tmp_path)
    data = (tmp_path / "checkpoint-0").read_bytes()
    *lines, end = data.splitlines(keepends=True)
    assert int(end, 16) == zlib.crc32(b"".join(lines))
    first, state, *orders = map(json.loads, lines)
    assert (first["version"], state["numbered"]) == (1, 9)
    with rtmw.Log(tmp_path / "record", Row) as log, log.read(first["position"]) as records:
        assert next(iter(records)).value.digest.hex() == first["token"]
    assert [order[6] for order in orders] == list(range(1, 10))
    assert {len(order[2].encode("latin-1")) for order in orders} == {35}
    assert orders[0][5] == [["BAGS", 1, "DELIVERED", ""]]
    assert orders[8][5] == [["GATE", 0, "", ""]]


# ---- golden files ----


def test_the_golden_files_are_what_is_written_today(tmp_path: Path) -> None:
    """The log has a random name, so of it the rows are compared, and their places."""
    write(tmp_path / "made")
    for name in ("frames.txt", "checkpoint-0"):
        assert (tmp_path / "made" / name).read_bytes() == (GOLDEN / name).read_bytes()
    assert rows_at(tmp_path / "made") == rows_at(Path(shutil.copytree(GOLDEN, tmp_path / "golden")))


def rows_at(folder: Path) -> list[tuple[int, bytes, Row]]:
    with rtmw.Log(folder / "record", Row, create=False) as log:
        return [(record.position, bytes(record.data), record.value) for record in log.read()]


def test_the_golden_record_has_each_kind_and_each_field_and_its_seals_hold(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "golden"))
    rows = [row for _, _, row in rows_at(folder)]
    kinds = {value for name, value in vars(r).items() if name.isupper() and value == name}
    assert {row.kind for row in rows} == kinds
    plain = Row("", 0)
    unset = {
        one.name for one in fields_of(Row) if all(getattr(row, one.name) == getattr(plain, one.name) for row in rows)
    }
    assert unset == set()
    found = verify(folder / "record")
    assert (found.seals, found.faults) == (2, [])


def test_the_golden_checkpoint_and_the_rows_behind_it_are_the_golden_record(tmp_path: Path) -> None:
    store = Store(Path(shutil.copytree(GOLDEN, tmp_path / "golden")), 10.0, segment="64K")
    store.close()
    state = State(10.0)
    for position, _, row in rows_at(store.folder):
        state.apply(row, position)
    assert store.rows == len(BEHIND) + 1, "it begins with the checkpoint"
    assert picture(store.state) == picture(state)


def test_a_row_is_as_the_page_says(tmp_path: Path) -> None:
    """Read by the table alone: each field begins where its alignment lets it."""
    rows = rows_at(Path(shutil.copytree(GOLDEN, tmp_path / "golden")))
    names = [one.name for one in fields_of(Row)]
    assert [name for name, _ in PAGE_FIELDS] == names
    for _, data, row in rows:
        assert data[:4] == b"\0\1\0\0"
        assert read_row(data[4:]) == {name: getattr(row, name) for name in names}


ROWS = PAGE.path.read_text().partition("\n## Rows\n")[2].partition("\n## ")[0]
PAGE_FIELDS = re.findall(r"^\| ([a-z_]+) \| (\w+) \|", ROWS, re.MULTILINE)[1:]
"""Of the table of rows: each field and its type."""
NUMBERS = {"bool": "?", "i32": "i", "i64": "q", "u64": "Q", "f64": "d"}


def read_row(data: bytes) -> dict[str, object]:
    at, found = 0, dict[str, object]()

    def number(code: str) -> int | float:
        nonlocal at
        size = struct.calcsize(f"<{code}")
        at += -at % size
        at += size
        (value,) = struct.unpack_from(f"<{code}", data, at - size)
        assert isinstance(value, int | float)
        return value

    def some() -> bytes:
        nonlocal at
        size = int(number("I"))
        at += size
        return data[at - size : at]

    for name, type in PAGE_FIELDS:
        if type in NUMBERS:
            found[name] = number(NUMBERS[type])
        elif type == "strings":
            found[name] = [some()[:-1].decode() for _ in range(int(number("I")))]
        else:
            found[name] = some() if type == "bytes" else some()[:-1].decode()
    assert at == len(data)
    return found
