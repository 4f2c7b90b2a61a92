"""A reader of samples of nodes without rtmw: it knows the tables of docs/formats/wire-format.md and no more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.net.raw import crc32c
from tests.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs" / "formats" / "wire-format.md")
TRAILER, ENTRY, DATED = 32, 32, 1 << 62
MAGIC, MAGIC_CHECKED = 0x776D7472, 0x9B5A3CC6
OCTETS_HEAD = 8
"""Bytes of raw bytes' CDR before the bytes: header and length."""


@dataclass(frozen=True)
class Message:
    payload: bytes
    priority: int
    publisher: int
    left_ns: int
    """Of the lifetime when it was sent; 0: no limit."""


@dataclass(frozen=True)
class Sample:
    version: int
    sequence: int
    is_checked: bool
    messages: tuple[Message, ...]


def left_of(lifetime: int) -> int:
    return (lifetime >> 30 & 0xFFFFFFFF) * 1000 if lifetime >= DATED else lifetime


def read(sample: bytes) -> Sample:
    """Of a topic of raw bytes."""

    def said(what: str) -> int:
        return PAGE.field(sample[-TRAILER:], "Trailer", what)

    checked = said("magic") == MAGIC_CHECKED
    assert checked or said("magic") == MAGIC
    end = len(sample) - TRAILER - 4 * checked
    if checked:
        crc = int.from_bytes(sample[end : end + 4], "little")
        assert crc == crc32c(sample[:end] + sample[end + 4 :])
    assert not any(sample[end - said("padding") : end])
    assert (end % 4, said("version") in (1, 2, 3)) == (0, True)
    bare = sample[OCTETS_HEAD : end - said("padding")]
    if said("version") != 2:
        messages = (Message(bare, said("priority"), said("publisher"), left_of(said("lifetime"))),)
        assert said("messages") == 0
    else:
        messages = tuple(entries(bare, said("messages"), said("priority")))
        assert (said("publisher"), said("lifetime")) == (0, 0)
    assert int.from_bytes(sample[4:8], "little") == len(messages[0].payload)
    return Sample(said("version"), said("sequence"), checked, messages)


def entries(bare: bytes, count: int, priority: int) -> list[Message]:
    table, at, found = len(bare) - count * ENTRY, 0, list[Message]()
    for number in range(count):
        entry = bare[table + number * ENTRY :][:ENTRY]
        publisher, left, size, zero = (
            PAGE.field(entry, "Entry of a pack", what) for what in ("publisher", "lifetime", "size", "zero")
        )
        assert zero == 0
        found.append(Message(bare[at : at + size], priority, publisher, left_of(left)))
        at += size
    assert at == table
    return found
