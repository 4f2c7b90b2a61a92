"""Frames of a line, made with Python's standard library and docs/formats/link-format.md alone."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<HBBI")
BEGIN = struct.Struct("<QQQB7x")
TRAILER = struct.Struct("<IBBBBQQQ")
MAGIC = 0x776D7472
CHECKED = 0x80


def _table() -> list[int]:
    table = list[int]()
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frame(kind: int, body: bytes, route: int = 0, flags: int = 0) -> bytes:
    """A frame with a CRC."""
    start = HEADER.pack(HEADER.size + len(body) + 4, kind, flags | CHECKED, route) + body
    return start + struct.pack("<I", crc32c(start))


def control(number: int, data: bytes) -> bytes:
    return frame(4, struct.pack("<Q", number) + data)


def ack(route: int, room: int, numbers: list[int]) -> bytes:
    return frame(3, struct.pack("<9Q", room, *numbers, *([0] * (8 - len(numbers)))), route)


def begin(
    route: int,
    number: int,
    data: bytes,
    size: int | None = None,
    priority: int = 0,
    band: int | None = None,
    hops: int = 1,
    version: int = 1,
) -> bytes:
    """A message, or its first bytes."""
    head = BEGIN.pack(len(data) if size is None else size, 1, 0, hops)
    trailer = TRAILER.pack(MAGIC, version, priority, 0, 2 if version == 2 else 0, 0, number, 0)
    return frame(5, head + trailer + data, route, priority if band is None else band)


def more(route: int, data: bytes, band: int = 0) -> bytes:
    return frame(6, data, route, band)


def drop(route: int, number: int, band: int = 0, why: int = 1) -> bytes:
    return frame(7, struct.pack("<QQ", number, why), route, band)
