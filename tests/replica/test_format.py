"""The bytes between programs and nodes of a replicated log, beside docs/formats/replica-wire.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtmw.replica import requests as r
from rtmw.replica import wire
from rtmw.replica import words as w
from rtmw.replica.guests import CURSORS
from rtmw.replica.operating import QUESTION
from rtmw.replica.words import Reply
from tests.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs" / "formats" / "replica-wire.md")
LOG, COPY = bytes(range(16)), bytes(range(16, 32))
LABELS = r.AUTOMATIC_HEAD + bytes(range(24))
ACK = w.Ack(3, 1200, 1300, 2, 4, (5, 6), is_full=True, is_beat=True)
GOLDEN = {
    "Request": r.pack_request(r.Ask.APPEND, 7, 9, r.pack_batch(LABELS, [b"one", b"more"])),
    "Answer": r.pack_answer(Reply.MOVED, 7, 8, 9, b"a"),
    "Frame of a reader": r.RAW.pack(5, r.Refusal.TRIMMED) + b"words",
    "Message of a node": wire.pack(LOG, COPY, ACK),
}
BYTES = {
    "Request": "37000000 01 000000 07000000 0900000000000000 20000000 02000000 03000000 04000000"
    f"0004000018000000 {bytes(range(24)).hex()} {b'onemore'.hex()}",
    "Answer": "01000000 07 000000 07000000 0800000000000000 0900000000000000 61",
    "Frame of a reader": f"05000000 03000000 {b'words'.hex()}",
    "Message of a node": f"3a000000 03 000000 {LOG.hex()} {COPY.hex()} 0300000000000000 b004000000000000"
    "1405000000000000 0200000000000000 0400000000000000 0500000000000000 0600000000000000 01 01",
}


@pytest.mark.parametrize("heading", GOLDEN)
def test_bytes_are_those_of_version_1(heading: str) -> None:
    assert GOLDEN[heading] == bytes.fromhex(BYTES[heading])


@pytest.mark.parametrize(
    ("heading", "what", "value"),
    [
        ("Request", "size", 55), ("Request", "kind", 1), ("Request", "ticket", 7), ("Request", "since", 9),
        ("Answer", "size", 1), ("Answer", "reply", 7), ("Answer", "ticket", 7), ("Answer", "position", 8),
        ("Answer", "commit", 9), ("Frame of a reader", "size", 5), ("Frame of a reader", "0:", 3),
        ("Message of a node", "size", 58), ("Message of a node", "kind", 3),
        ("Message of a node", "uuid of the log", int.from_bytes(LOG, "little")),
        ("Message of a node", "uuid of the sender", int.from_bytes(COPY, "little")),
    ],
)  # fmt: skip
def test_the_page_says_what_lies_in_a_head(heading: str, what: str, value: int) -> None:
    assert PAGE.field(GOLDEN[heading], heading, what) == value


def test_the_page_has_each_number_under_its_name() -> None:
    text = PAGE.path.read_text()

    def named(title: str) -> dict[str, int]:
        rows = text.partition(f"| {title} | name |")[2].partition("\n\n")[0]
        return {name: int(number) for number, name in re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", rows, re.MULTILINE)}

    assert named("kind") == {one.name: one.value for one in r.Ask}
    assert named("reply") == {one.name: number for number, one in enumerate(r.REPLIES)}
    assert named("reason") == {one.name: one.value for one in r.Refusal}
    batches, over = w.Batches(3, 800, b"", 700), w.TakeOver(3)
    said = {
        name: wire.pack(LOG, COPY, one)[4] for name, one in (("BATCHES", batches), ("ACK", ACK), ("TAKE_OVER", over))
    }
    assert named("message") == {"BEAT": 1} | said
    for purpose in (QUESTION, wire.MESSAGES, wire.BATCHES, wire.COPY, CURSORS):
        assert f"| `{purpose}` |" in text
    assert f"`{wire.SPEAKS}{wire.VERSION}`" in text
    assert r.purpose_of(r.read_purpose("NAME", 1, 2)) == ("read", "NAME", 1, 2)
