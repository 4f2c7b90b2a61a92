"""T5, T6: what programs and core say to each other, as bytes; beside docs/formats/transfer-queues.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.transfer import frames, messages
from rtmw.transfer.address import Address, Life
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.frames import Frame, pack_frame, queue_of, unpack_frame
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.messages import Message, Move
from rtmw.transfer.records import Spooled, TransferId, TransferState
from tests.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs" / "formats" / "transfer-queues.md")
GOLDEN = Path(__file__).parent / "golden" / "queues.txt"
LIFE = Life(4711, 123456, 2)
ID, OTHER = TransferId("plant", 77, 5), TransferId("plant", 77, 9)
HEADER = Header(Address.parse("ingest"), Kind.BUF, 5, delivery=Delivery.LOG, priority=3)
LARGER = Header(Address.parse("ingest"), Kind.BUF, 6)

WRITTEN: dict[str, Message] = {
    "JOIN": messages.Join(1, "ingest", "/srv/inbox", (800, 900)),
    "LEAVE": messages.Leave(),
    "SEND": messages.Send(9, HEADER, b"", b"level"),
    "SEND-ONCE": messages.Send(0, HEADER, bytes(range(16)) + bytes(16), b"level"),
    "MORE": messages.More(b"more"),
    "BEGIN": messages.Begin(),
    "SAVEPOINT": messages.Savepoint(9, "half"),
    "ROLLBACK": messages.RollBack(9, 800),
    "RELEASE": messages.Release(9, 800),
    "COMMIT": messages.Commit(9),
    "ABORT": messages.Abort(9),
    "TAKE": messages.Take(0, 64, 1),
    "UNTAKE": messages.Untake(17),
    "SETTLE": messages.Settle(TransferState.ACCEPTED, "busy", (800, 900)),
    "ALTER": messages.Alter(ID, TransferState.CANCELLED),
    "ASK": messages.Ask(ID),
    "SHOW": messages.Show("queues"),
    "SENDS": messages.Sends((messages.Run(HEADER, (b"level", b"other")), messages.Run(LARGER, (b"larger",)))),
    "GIVEUP": messages.GiveUp(),
    "DONE": messages.Done(9),
    "ACCEPTED": messages.Accepted(1, (ID, ID)),
    "ACCEPTED-letters": messages.Accepted(3, (ID,)),
    "FAILED": messages.Failed(0, "refused"),
    "HANDED": messages.Handed(800, 2, ID, "gauge", HEADER, b"level"),
    "HANDED-FILE": messages.Handed(800, 0, ID, "gauge", HEADER, Spooled("spool/1s2", 5)),
    "HANDEDRUN": messages.HandedRun("plant", 77, "gauge", HEADER, ((800, 5, b"level"), (900, 7, b"other"))),
    "SETTLED": messages.Settled(((1, messages.Failed(0, "not its own")),)),
    "MOVES": messages.Moves((Move((ID, OTHER), TransferState.REFUSED, "why"), Move((ID,), None, ""))),
    "UNDONE": messages.Undone(9, 1),
    "GOT": messages.Got(262144),
    "ADVANCED": messages.Advanced(ID, 8 << 20, 400 << 20),
    "SHOWN": messages.Shown(1, b"{}"),
    "CORE": messages.Core(123, "plant"),
}
"""What the golden file holds, a frame a line: its name, and its bytes in hexadecimal digits."""


def framed(name: str) -> Frame:
    return Frame(LIFE, 5, 42, WRITTEN[name])


def golden() -> dict[str, bytes]:
    lines = (line.split() for line in GOLDEN.read_text().splitlines())
    return {name: bytes.fromhex(data) for name, data in lines}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_frame_has_the_bytes_of_the_golden_file(name: str) -> None:
    assert pack_frame(framed(name)) == golden()[name]
    assert unpack_frame(golden()[name]) == framed(name)


def test_the_page_has_each_kind_of_message_under_its_number() -> None:
    found = dict(re.findall(r"^\| (\d+) \| ([A-Z]+) \| ", PAGE.path.read_text(), re.MULTILINE))
    assert {name: int(kind) for kind, name in found.items()} == {
        name: data[1] for name, data in golden().items() if "-" not in name
    }


@pytest.mark.parametrize(
    ("what", "value"),
    [("version", 1), ("kind", 3), ("slot", 5), ("pid", 4711), ("when its", 123456), ("generation", 2), ("number", 42)],
)
def test_the_page_says_what_lies_in_a_head(what: str, value: int) -> None:
    assert PAGE.field(golden()["SEND"], "Head of a frame", what) == value


def test_the_table_of_the_head_has_no_gap() -> None:
    rows = PAGE.table("Head of a frame")
    assert [row.at for row in rows] == [0, *(row.at + (row.size or 0) for row in rows)][:-1]


def test_the_page_names_the_topics() -> None:
    text = PAGE.path.read_text()
    assert f"`{frames.CORE_QUEUE}`" in text
    assert f"`{frames.CORE_TOPIC}`" in text
    assert f"`{queue_of(0)[:-1]}N`" in text


@pytest.mark.parametrize("name", WRITTEN)
def test_whichever_bit_is_turned_a_frame_is_refused_or_is_another_one(name: str) -> None:
    for bit in range(len(golden()[name]) * 8):
        data = bytearray(golden()[name])
        data[bit // 8] ^= 1 << bit % 8
        try:
            frame = unpack_frame(memoryview(data))
        except TransfersDamaged:
            continue
        assert frame != framed(name)
        assert pack_frame(frame) == data


@given(st.binary(max_size=200), st.integers(0, 100))
def test_bytes_that_nobody_wrote_are_refused_or_are_the_frame_that_they_say(data: bytes, kind: int) -> None:
    head = bytearray(golden()["DONE"][:32])
    head[1] = kind
    try:
        frame = unpack_frame(bytes(head) + data)
    except TransfersDamaged:
        return
    assert pack_frame(frame) == bytes(head) + data


def test_a_frame_of_another_version_says_what_to_do() -> None:
    data = b"\2" + golden()["DONE"][1:]
    with pytest.raises(TransfersDamaged, match="version 2 of the format, where 1 is known; programs and node need one"):
        unpack_frame(data)
