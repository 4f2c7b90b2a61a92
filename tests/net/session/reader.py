"""Reads what one side of a session sent, with nothing but Python's standard library and docs/formats/session.md."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

HELLO = "<8sHHHBB16sQQQIIQI"
HELLO_FIELDS = ["magic", "length", "lowest", "highest", "hops", "flags", "node", "incarnation", "site"]
HELLO_FIELDS += ["number", "lease_ms", "stream_credit", "session_credit", "streams"]
KINDS = {
    1: ("HOLD", "<Q", "session"),
    2: ("GO", "<QQHB", "attachment session version held"),
    3: ("BYE", "<H", "code"),
    4: ("RESUME", "<QH", "controls streams"),
    5: ("PING", "<Q", "value"),
    6: ("PONG", "<Q", "value"),
    7: ("CREDIT", "<QQ", "allowed controls"),
    8: ("DATA", "<Q", "position"),
    9: ("ACK", "<QQQ", "received durable limit"),
    10: ("OPEN", "<Q", "position"),
    11: ("ACCEPT", "<Q", "position"),
    12: ("END", "<Q", "position"),
    13: ("DONE", "<QQ", "received durable"),
    14: ("RESET", "<QH", "position code"),
}


def checked(data: bytes) -> bytes:
    """The bytes before the CRC, which must be theirs."""
    assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
    return data[:-4]


def read(data: bytes) -> Iterator[dict[str, Any]]:
    """The hello, and then each frame."""
    length = int.from_bytes(data[8:10], "little")
    hello = checked(data[:length])
    fields = dict(zip(HELLO_FIELDS, struct.unpack_from(HELLO, hello), strict=True))
    yield {"kind": "HELLO", **fields, "rest": hello[struct.calcsize(HELLO) :]}
    yield from frames(data[length:])


def frames(data: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    while at < len(data):
        length, kind, flags, stream = struct.unpack_from("<HBBI", data, at)
        whole = data[at : at + length]
        body = (checked(whole) if flags & 0x80 else whole)[8:]
        name, form, names = KINDS[kind]
        values = dict(zip(names.split(), struct.unpack_from(form, body), strict=True))
        size = struct.calcsize(form)
        yield {"kind": name, "priority": flags & 7, "stream": stream, **values, "rest": body[size:]}
        at += length
