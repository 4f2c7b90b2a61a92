"""Types of payloads that are not rtmw's own: JSON by its JSON Schema, and protobuf by its FileDescriptorSet.

They have descriptions, as message types have: bytes from which a decoder of columns is made, in any process. The bus
knows nothing of them.
"""

from __future__ import annotations

import zlib
from typing import Final, Literal, NamedTuple

from rtmw.errors import UnsupportedType
from rtmw.types.message_type import read_document

Kind = Literal["json", "protobuf"]
_MARKS: Final[dict[Kind, bytes]] = {"json": b"json\0", "protobuf": b"protobuf\0"}
"""How a description begins. Those of message types begin as zlib does, with the letter x."""
_WIDTH: Final = 4
"""Bytes of the length of a name, which may have any character."""
LARGEST: Final = 16 << 20
"""Bytes of a schema. One of a thousand messages has less than a megabyte."""


class PayloadType(NamedTuple):
    """The content of the description of a payload type."""

    kind: Kind
    name: str
    schema: bytes
    """JSON Schema in UTF-8, or a serialized FileDescriptorSet; empty: there is none."""


def describe(kind: Kind, name: str, schema: bytes) -> bytes:
    """The description of a type. Raises UnsupportedType for a schema beyond LARGEST."""
    if len(schema) > LARGEST:
        raise UnsupportedType(f"the schema of {name} has {len(schema)} bytes; at most {LARGEST} are read")
    named = name.encode()
    return _MARKS[kind] + len(named).to_bytes(_WIDTH, "big") + named + zlib.compress(schema)


def payload_type(description: bytes) -> PayloadType | None:
    """The payload type in a description; None: the description is that of a message type."""
    for kind, mark in _MARKS.items():
        if description.startswith(mark):
            begin = len(mark) + _WIDTH
            end = begin + int.from_bytes(description[len(mark) : begin], "big")
            return PayloadType(kind, description[begin:end].decode(), zlib.decompress(description[end:]))
    return None


def type_name(description: bytes) -> str:
    """The name of a described type, of either sort. Raises RegionDamaged."""
    found = payload_type(description)
    return found.name if found is not None else str(read_document(description)["name"])
