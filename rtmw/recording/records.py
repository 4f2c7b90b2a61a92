"""The records of an MCAP file as bytes: https://mcap.dev/spec. All numbers are little endian."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from rtmw.recording.contents import Attachment

__all__ = ["MAGIC", "ChunkEntry", "Opcode", "Packed", "Statistics", "record"]

HEAD = 9
"""Bytes of a record before its content: opcode and length."""

MAGIC = b"\x89MCAP0\r\n"


class Opcode(IntEnum):
    """What a record is."""

    HEADER = 0x01
    FOOTER = 0x02
    SCHEMA = 0x03
    CHANNEL = 0x04
    MESSAGE = 0x05
    CHUNK = 0x06
    MESSAGE_INDEX = 0x07
    CHUNK_INDEX = 0x08
    ATTACHMENT = 0x09
    ATTACHMENT_INDEX = 0x0A
    STATISTICS = 0x0B
    METADATA = 0x0C
    METADATA_INDEX = 0x0D
    SUMMARY_OFFSET = 0x0E
    DATA_END = 0x0F
    SIDE = 0x90
    """Ours: what MCAP has no place for, of the chunk before it (docs/format.md)."""


class Packed(NamedTuple):
    """Bytes, compressed or not."""

    compression: str
    """Empty: not compressed."""
    size: int
    """Before it was compressed; `crc` likewise."""
    crc: int
    data: bytes | memoryview


class ChunkEntry(NamedTuple):
    """A chunk in the file, for its index."""

    start_ns: int
    end_ns: int
    position: int
    length: int
    index_positions: tuple[tuple[int, int], ...]
    """Channel, and where in the file its message index lies."""
    index_length: int
    compression: str
    compressed_size: int
    size: int


class Statistics(NamedTuple):
    """What is in the file."""

    messages: int
    schemas: int
    channels: int
    attachments: int
    metadata: int
    chunks: int
    start_ns: int
    end_ns: int
    counts: Mapping[int, int]
    """Messages of each channel."""


def record(opcode: Opcode, *content: bytes | memoryview) -> bytes:
    return b"".join((struct.pack("<BQ", opcode, sum(map(len, content))), *content))


def text(value: str) -> bytes:
    return octets(value.encode())


def octets(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def text_map(values: Mapping[str, str]) -> bytes:
    return octets(b"".join(text(key) + text(value) for key, value in values.items()))


def number_map(values: Iterable[tuple[int, int]]) -> bytes:
    """A map of 16-bit numbers to 64-bit ones."""
    return octets(b"".join(struct.pack("<HQ", key, value) for key, value in values))


def header(library: str, profile: str = "") -> bytes:
    return record(Opcode.HEADER, text(profile), text(library))


def schema(number: int, name: str, encoding: str, data: bytes) -> bytes:
    return record(Opcode.SCHEMA, struct.pack("<H", number), text(name), text(encoding), octets(data))


def channel(number: int, schema_id: int, topic: str, encoding: str, metadata: Mapping[str, str]) -> bytes:
    return record(
        Opcode.CHANNEL, struct.pack("<HH", number, schema_id), text(topic), text(encoding), text_map(metadata)
    )


def chunk_head(start_ns: int, end_ns: int, packed: Packed) -> bytes:
    """All of a chunk's record but its records, which follow."""
    content = struct.pack("<QQQI", start_ns, end_ns, packed.size, packed.crc) + text(packed.compression)
    content += struct.pack("<Q", len(packed.data))
    return struct.pack("<BQ", Opcode.CHUNK, len(content) + len(packed.data)) + content


def side(chunk_position: int, count: int, packed: Packed) -> bytes:
    head = struct.pack("<QI", chunk_position, count) + text(packed.compression)
    return record(Opcode.SIDE, head, struct.pack("<QIQ", packed.size, packed.crc, len(packed.data)), packed.data)


def chunk_index(entry: ChunkEntry) -> bytes:
    return record(
        Opcode.CHUNK_INDEX,
        struct.pack("<QQQQ", entry.start_ns, entry.end_ns, entry.position, entry.length),
        number_map(entry.index_positions),
        struct.pack("<Q", entry.index_length),
        text(entry.compression),
        struct.pack("<QQ", entry.compressed_size, entry.size),
    )


def attachment_head(about: Attachment) -> bytes:
    """All of an attachment's record but its data and, behind that, the CRC of its content."""
    content = struct.pack("<QQ", about.log_time, about.create_time) + text(about.name) + text(about.media_type)
    content += struct.pack("<Q", about.size)
    return struct.pack("<BQ", Opcode.ATTACHMENT, len(content) + about.size + 4) + content


def attachment_index(about: Attachment, length: int) -> bytes:
    """`length`: of its record."""
    return record(
        Opcode.ATTACHMENT_INDEX,
        struct.pack("<QQQQQ", about.position, length, about.log_time, about.create_time, about.size),
        text(about.name),
        text(about.media_type),
    )


def metadata(name: str, values: Mapping[str, str]) -> bytes:
    return record(Opcode.METADATA, text(name), text_map(values))


def metadata_index(position: int, length: int, name: str) -> bytes:
    return record(Opcode.METADATA_INDEX, struct.pack("<QQ", position, length), text(name))


def statistics(facts: Statistics) -> bytes:
    numbers = struct.pack(
        "<QHIIIIQQ",
        facts.messages,
        facts.schemas,
        facts.channels,
        facts.attachments,
        facts.metadata,
        facts.chunks,
        facts.start_ns,
        facts.end_ns,
    )
    return record(Opcode.STATISTICS, numbers, number_map(sorted(facts.counts.items())))


def summary_offset(group: Opcode, position: int, length: int) -> bytes:
    return record(Opcode.SUMMARY_OFFSET, struct.pack("<BQQ", group, position, length))


def data_end(crc: int) -> bytes:
    return record(Opcode.DATA_END, struct.pack("<I", crc))


def footer_head(summary_position: int, offsets_position: int) -> bytes:
    """All of the footer but its CRC of the summary, which follows, and covers this, too."""
    return struct.pack("<BQQQ", Opcode.FOOTER, 20, summary_position, offsets_position)
