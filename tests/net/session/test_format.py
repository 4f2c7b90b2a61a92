"""The wire format stays: golden bytes, a reader of plain Python, and the tables of docs/formats/session.md."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from rtmw.net.session.errors import Code
from rtmw.net.session.frames import BODIES, Kind
from rtmw.net.session.hello import FIXED
from tests.net.session.make_golden import GOLDEN, SESSION, conversation
from tests.net.session.reader import HELLO_FIELDS, KINDS, read

PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "session.md").read_text()
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", section, re.M)[2:]
    ]


def test_both_sides_send_the_golden_bytes() -> None:
    assert conversation() == ((GOLDEN / "dialler").read_bytes(), (GOLDEN / "listener").read_bytes())


def test_the_plain_reader_finds_in_the_golden_bytes_what_was_said() -> None:
    dialler, listener = (list(read((GOLDEN / name).read_bytes())) for name in ("dialler", "listener"))
    assert {frame["kind"] for frame in dialler + listener} == {name for name, _, _ in KINDS.values()} | {"HELLO"}
    assert (dialler[0]["site"], dialler[0]["hops"], dialler[0]["rest"]) == (7, 3, b"log")
    assert dialler[1]["session"] == SESSION
    (opened,) = (frame for frame in dialler if frame["kind"] == "OPEN")
    assert (opened["priority"], opened["position"], opened["rest"]) == (5, 1 << 40, b"log orders")
    (data,) = (frame for frame in dialler if frame["kind"] == "DATA")
    assert (data["position"], data["rest"]) == (1 << 40, b"hello")
    (done,) = (frame for frame in listener if frame["kind"] == "DONE")
    assert done["durable"] == (1 << 40) + 5
    (reset,) = (frame for frame in listener if frame["kind"] == "RESET")
    assert (reset["code"], reset["rest"]) == (300, b"no more")


def test_the_table_of_the_hello_is_that_of_the_code() -> None:
    at = 0
    for row, name in zip(rows("Hello"), HELLO_FIELDS, strict=False):
        assert (int(row[0]), row[2].split(":")[0]) == (at, name.replace("_", " "))
        at += SIZES.get(row[1]) or int(row[1])
    assert at == FIXED.size


@pytest.mark.parametrize("kind", Kind)
def test_the_table_of_frames_is_that_of_the_code(kind: Kind) -> None:
    (row,) = (row for row in rows("Frames") if int(row[0]) == kind)
    body, most = BODIES[kind]
    assert row[1] == kind.name == KINDS[kind][0]
    assert sum(SIZES[word] for word in re.findall(r"\b(u8|u16|u32|u64)\b", row[2].partition(";")[0])) == body.size
    assert struct.calcsize(KINDS[kind][1]) == body.size
    assert (";" in row[2]) == (most > 0)


@pytest.mark.parametrize("code", Code)
def test_the_table_of_codes_is_that_of_the_code(code: Code) -> None:
    assert [row[1] for row in rows("Codes") if int(row[0]) == code] == [code.name]
