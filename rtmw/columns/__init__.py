"""Payloads of one type to Arrow columns and back, in bulk: no Python object for a message.

    batch = decode((data, position, size), message_type)        # a pyarrow.RecordBatch, one column a member
    data, position, size = encode(batch, message_type)

Needs pyarrow, which is imported when something is asked for.

Payloads that are not rtmw's own have types, too: JSON by its JSON Schema, and protobuf by its FileDescriptorSet. They
have descriptions, as message types have: bytes from which a decoder of columns is made, in any process. The bus knows
nothing of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from rtmw.errors import UnsupportedType
from rtmw.types.checks import shown_name
from rtmw.types.message_type import MessageType, read_document

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from typing_extensions import Buffer

    from rtmw.columns.cdr import CdrEncoder
    from rtmw.columns.program import Unsigned
    from rtmw.columns.rows import Rows
    from rtmw.columns.versions import Versions

    Integers = np.ndarray[Any, np.dtype[np.int64]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]
    Payloads = tuple[Buffer, Integers, Integers]
    """Memory, and in it the position and the size of each payload."""

__all__ = [
    "Decoder", "arrow_schema", "decode", "decoder", "described_decoder", "encode", "merged_versions", "payload_array",
]  # fmt: skip


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


class Decoder(Protocol):
    """The columns of one message type. One may serve several threads."""

    def schema(self, permissive: bool) -> pa.Schema:
        """The schema of the batches of `decode`. Permissive: each column may be null."""
        ...

    def decode(self, rows: Rows, permissive: bool) -> Iterator[tuple[pa.RecordBatch, Mask | None]]:
        """One batch, and which of its rows are damaged; more if one would be larger than Arrow's offsets reach.

        Permissive: a damaged payload is a row of nulls; otherwise ValueMismatch names the first one. None: no row is.
        """
        ...


def decoder(type: MessageType, unsigned: Unsigned = "keep") -> Decoder:
    """The decoder of a message type, made once. `unsigned`: see `rtmw.columns.program.Unsigned`.

    Raises UnsupportedType for types that no columns can hold: mutable ones, those that contain themselves, maps.
    """
    return described_decoder(type.description, unsigned)


@lru_cache(maxsize=256)
def described_decoder(description: bytes, unsigned: Unsigned = "keep", names: frozenset[str] | None = None) -> Decoder:
    """Returns the decoder of a type, by its description or by that of JSON or protobuf
    (`payload_type`).

    `names`: of the members that are wanted; None: all. A decoder of CDR makes no columns of the others; those of
    other encodings make all. Raises NotInstalled where the library is missing that decodes JSON or protobuf.
    """
    found = payload_type(description)
    if found is not None:
        return _payload_decoder(found, unsigned)
    document = read_document(description)
    if document["kind"] == "cdr":
        from rtmw.columns.cdr import CdrDecoder
        from rtmw.types.description import from_document

        return CdrDecoder(from_document(document), unsigned, names)
    if document["kind"] == "numpy":
        from rtmw.columns.cdr import NumpyDecoder
        from rtmw.types.numpy_type import dtype_from_document

        return NumpyDecoder(document["name"], dtype_from_document(document), unsigned)
    raise UnsupportedType(f"messages of {document['name']} have no members; read them as payloads")


def _payload_decoder(found: PayloadType, unsigned: Unsigned) -> Decoder:
    from rtmw.columns.objects import ObjectDecoder

    if found.kind == "json":
        from rtmw.columns.objects import json_parser

        return ObjectDecoder(json_parser(found.name, found.schema))
    from rtmw.columns.objects import protobuf_parser

    return ObjectDecoder(protobuf_parser(found.name, found.schema, unsigned))


@lru_cache(maxsize=64)
def merged_versions(
    descriptions: tuple[bytes, ...], unsigned: Unsigned = "keep", places: tuple[int, ...] | None = None
) -> Versions:
    """The columns of several versions of a type, merged by name. `descriptions`: of each version, the oldest first.

    `places`: only the columns at these places of all of them, in this order. Raises UnsupportedType for a version, or
    a member, that no columns can hold.
    """
    from rtmw.columns.versions import Versions

    def decoder_of(description: bytes, names: frozenset[str] | None) -> Decoder:
        return described_decoder(description, unsigned, names)

    return Versions(type_name(descriptions[0]), descriptions, decoder_of, places)


def arrow_schema(type: MessageType, unsigned: Unsigned = "keep") -> pa.Schema:
    """The columns of a message type. Raises UnsupportedType."""
    return decoder(type, unsigned).schema(False)


def payload_array(rows: Rows) -> pa.Array:
    """The payloads themselves, as a column of bytes. Raises OverflowError when they have more than 2 GiB."""
    import pyarrow as pa

    from rtmw.columns._columns import pack

    count, offsets, values = pack(*rows.lent())
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(values or b"")])


def decode(payloads: Payloads, type: MessageType, unsigned: Unsigned = "keep") -> pa.RecordBatch:
    """All payloads as one batch, a column for each member, a row for each payload.

    Raises ValueMismatch, naming row and member, when one is damaged; OverflowError when a column would have more than
    2 GiB; UnsupportedType.
    """
    from rtmw.columns.rows import Rows

    batches = [*decoder(type, unsigned).decode(Rows(*payloads), False)]
    if len(batches) > 1:
        raise OverflowError(
            f"{len(payloads[1])} payloads of {shown_name(type.name)} do not fit one batch; give fewer at a time"
        )
    return batches[0][0]


def encode(batch: pa.RecordBatch, type: MessageType) -> Payloads:
    """The payloads of all rows: the columns of `arrow_schema`, by name, in types that hold the same values.

    Other columns are left alone; one that is missing has to be of an optional member. Raises TypeMismatch for a column
    that the type cannot take, ValueMismatch for a value, UnsupportedType.
    """
    return _encoder(type.description).encode(batch)


@lru_cache(maxsize=256)
def _encoder(description: bytes) -> CdrEncoder:
    from rtmw.columns.cdr import CdrEncoder
    from rtmw.types.description import from_document

    document = read_document(description)
    if document["kind"] != "cdr":
        raise UnsupportedType(f"messages of {document['name']} are not made of columns; give their payloads")
    return CdrEncoder(from_document(document))
