"""T10: records of the transaction log as bytes, beside docs/formats/transfer-format.md; and bytes that nobody wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.log import pack_labels
from rtmw.transfer.address import Address, Life
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.records import (
    LARGEST_INLINE,
    Abort,
    AbortCause,
    Change,
    Checkpoint,
    Clr,
    Commit,
    End,
    Enqueue,
    Forget,
    Record,
    Release,
    Request,
    Savepoint,
    Settled,
    Spooled,
    Start,
    Take,
    TransferId,
    TransferState,
    Undone,
    pack,
    unpack,
)
from tests.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs" / "formats" / "transfer-format.md")
GOLDEN = Path(__file__).parent / "golden" / "records.txt"
LSN = 1 << 40
"""Where they lie."""
LIFE = Life(4711, 123456, 2)
ASKED = Request(Life(4712, 654321, 1), 17)

ONCE = bytes(range(16)) + (pack_labels(None, "reading 7") or b"")


def header(length: int) -> Header:
    return Header(Address.parse("ingest/4711"), Kind.BUF, length, delivery=Delivery.LOG, priority=3)


FIRST = TransferId("plant", 77, 5)
PLAIN = replace(header(5), to=Address.parse("ingest"))

WRITTEN: dict[str, Record] = {
    "enqueue": Enqueue(9, 800, FIRST, header(5), (b"level",), "gauge", LIFE, 10**18, 1, ASKED, ONCE),
    "spooled": Enqueue(0, 0, TransferId("größe", 1, 2), header(5000), (Spooled("1s2f", 5000),)),
    "letters": Enqueue(0, 0, FIRST, PLAIN, (b"level", b"flow", b"heat 7"), "gauge", request=ASKED),
    "arrived": Enqueue(0, 0, TransferId("hub", 77, 5), PLAIN, (b"level", b"flow"), "valve", others=(9,)),
    "take": Take(9, 840, (800,), LIFE),
    "taken": Take(0, 0, (800, 801, 1 << 39), LIFE),
    "savepoint": Savepoint(9, 900, "half"),
    "clr": Clr(9, 1000, 900, 840, Undone.SAVEPOINT),
    "commit": Commit(9, 1000, 2, ASKED),
    "forget": Forget(LIFE),
    "settled": Settled(TransferId("hub", 77, 5)),
    "abort": Abort(9, 1000, AbortCause.AGE),
    "end": End(9, 1040),
    "release": Release(9, 1000, 900),
    "change": Change((800,), TransferState.EXPIRED, "late"),
    "changed": Change((801, 800), TransferState.CONSUMED),
    "start": Start(3, "plant", 77),
    "checkpoint": Checkpoint(1, True, b"data"),
}
"""What the golden file holds, a record a line: its name, and its bytes in hexadecimal digits."""


def golden() -> dict[str, bytes]:
    lines = (line.split() for line in GOLDEN.read_text().splitlines())
    return {name: bytes.fromhex(data) for name, data in lines}


def process(pid: int, generation: int, began: int) -> int:
    """Returns the number that the 16 bytes of a process are, as the page has them."""
    return pid | generation << 32 | began << 64


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_has_the_bytes_of_the_golden_file(name: str) -> None:
    assert pack(WRITTEN[name]) == golden()[name]
    assert unpack(golden()[name], LSN) == WRITTEN[name]


@pytest.mark.parametrize(
    ("name", "heading", "what", "value"),
    [
        ("enqueue", "Head of a record", "version", 2),
        ("enqueue", "Head of a record", "kind", 1),
        ("enqueue", "Head of a record", "transaction", 9),
        ("enqueue", "Head of a record", "prevLSN", 800),
        ("enqueue", "ENQUEUE", "incarnation", 77),
        ("enqueue", "ENQUEUE", "sequence", 5),
        ("enqueue", "ENQUEUE", "deadline", 10**18),
        ("enqueue", "ENQUEUE", "copy", 1),
        ("enqueue", "ENQUEUE", "receiver", process(4711, 2, 123456)),
        ("enqueue", "ENQUEUE", "producer", process(4712, 1, 654321)),
        ("enqueue", "ENQUEUE", "number of its request", 17),
        ("commit", "COMMIT", "how many", 2),
        ("commit", "COMMIT", "producer", process(4712, 1, 654321)),
        ("commit", "COMMIT", "number of its request", 17),
        ("forget", "FORGET", "producer", process(4711, 2, 123456)),
        ("settled", "SETTLED", "incarnation", 77),
        ("settled", "SETTLED", "sequence", 5),
        ("take", "TAKE", "number", 800),
        ("take", "TAKE", "receiver", process(4711, 2, 123456)),
        ("clr", "CLR", "LSN", 900),
        ("clr", "CLR", "UndoNxtLSN", 840),
        ("clr", "CLR", "what it was", 4),
        ("change", "CHANGE", "number", 800),
        ("change", "CHANGE", "its state", 5),
        ("start", "START", "life", 3),
        ("start", "START", "incarnation", 77),
        ("checkpoint", "CHECKPOINT", "index", 1),
        ("checkpoint", "CHECKPOINT", "1: it is the last", 1),
    ],
)
def test_the_page_says_what_lies_in_a_record(name: str, heading: str, what: str, value: int) -> None:
    assert PAGE.field(golden()[name], heading, what) == value


@pytest.mark.parametrize(
    ("heading", "begin"),
    [("Header", 0), ("The paper's header", 0), ("Head of a record", 0), ("ENQUEUE", 24), ("TAKE", 24), ("CLR", 24),
     ("CHANGE", 24), ("START", 24), ("CHECKPOINT", 24), ("COMMIT", 24), ("FORGET", 24), ("SETTLED", 24)],
)  # fmt: skip
def test_the_tables_of_the_page_have_no_gap(heading: str, begin: int) -> None:
    rows = PAGE.table(heading)
    assert [row.at for row in rows] == [begin, *(row.at + (row.size or 0) for row in rows)][:-1]


def test_the_page_says_what_lies_in_a_header() -> None:
    data = (GOLDEN.parent / "buf.transfer").read_bytes()
    for what, value in {"version": 1, "kind": 1, "level": 3, "delivery": 2, "priority": 0, "length": 11}.items():
        assert PAGE.field(data, "Header", what) == value
    assert PAGE.field(data, "Header", "lifetime") == 3_600_000_000_000
    size = PAGE.field(data, "Header", "size of the address")
    assert data[32 : 32 + size] == b"ingest/*@hostB"
    paper = (GOLDEN.parent / "buf.paper").read_bytes()
    assert PAGE.field(paper, "The paper's header", "length") == 11
    assert PAGE.field(paper, "The paper's header", "lifetime") == 3600


@pytest.mark.parametrize("name", WRITTEN)
def test_whichever_bit_is_turned_a_record_is_refused_with_its_position_or_is_another_record(name: str) -> None:
    for bit in range(len(golden()[name]) * 8):
        data = bytearray(golden()[name])
        data[bit // 8] ^= 1 << bit % 8
        refused: TransfersDamaged | None = None
        try:
            record = unpack(data, LSN)
            assert record != WRITTEN[name]
            assert pack(record) == data
        except TransfersDamaged as error:
            refused = error
        assert refused is None or (refused.position == LSN and str(LSN) in str(refused))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_that_is_cut_or_too_long_is_refused_or_says_less(name: str) -> None:
    data = golden()[name]
    for size in range(len(data)):
        try:
            assert pack(unpack(data[:size], LSN)) == data[:size]  # up to its end, which is the log's
        except TransfersDamaged:
            continue
        assert name in ("checkpoint", "taken", "changed")
    if name != "checkpoint":
        with pytest.raises(TransfersDamaged, match=r"too many|bodies of"):
            unpack(data + b"\0", LSN)


@given(st.binary(max_size=200), st.integers(1, 13))
def test_bytes_that_nobody_wrote_are_refused_or_are_the_record_that_they_say(data: bytes, kind: int) -> None:
    data = bytes([2, kind, 0, 0, 0, 0, 0, 0]) + data
    refused: TransfersDamaged | None = None
    try:
        assert pack(unpack(data, LSN)) == data
    except TransfersDamaged as error:
        refused = error
    assert refused is None or refused.position == LSN


@pytest.mark.parametrize(
    "record",
    [
        replace(WRITTEN["letters"], txn=9),
        replace(WRITTEN["letters"], life=LIFE),
        replace(WRITTEN["letters"], deadline_ns=1),
        replace(WRITTEN["letters"], copy=1),
        replace(WRITTEN["letters"], once=ONCE),
        replace(WRITTEN["letters"], header=header(5)),
        replace(WRITTEN["letters"], request=ASKED._replace(number=0)),
    ],
)  # fmt: skip
def test_what_does_not_go_the_common_way_is_alone_in_its_record(record: Record) -> None:
    with pytest.raises(TransfersDamaged, match="3 letters that do not go the common way"):
        unpack(pack(record), LSN)


@pytest.mark.parametrize(
    "record", [Take(9, 840, (800, 801), LIFE), Take(0, 0, (8, 8), LIFE), Change((8, 8), TransferState.SENT)]
)
def test_a_record_names_each_transfer_once_and_in_a_transaction_one(record: Record) -> None:
    with pytest.raises(TransfersDamaged, match=r"TAKE of 2|1 are different"):
        unpack(pack(record), LSN)


def test_a_record_names_none_that_is_not_before_it() -> None:
    with pytest.raises(TransfersDamaged, match="prevLSN 840"):
        unpack(golden()["take"], 840)
    with pytest.raises(TransfersDamaged, match="UndoNxtLSN"):
        unpack(pack(Clr(9, 1000, 900, 900, Undone.TAKE)), LSN)


def test_t9_a_body_below_4_kib_lies_in_its_record_and_a_larger_one_does_not() -> None:
    assert LARGEST_INLINE == 4095
    id = TransferId("plant", 1, 1)
    record = Enqueue(0, 0, id, header(4095), (bytes(4095),))
    assert unpack(pack(record), LSN) == record
    with pytest.raises(ValueError, match="spool it"):
        pack(Enqueue(0, 0, id, header(4096), (bytes(4096),)))


@pytest.mark.parametrize("record", [Savepoint(1, 0, "x" * 4097), Change((8,), TransferState.DEAD, "ü" * 2049)])
def test_a_text_that_is_too_long_is_refused_when_it_is_written(record: Record) -> None:
    with pytest.raises(ValueError, match="at most 4096"):
        pack(record)
