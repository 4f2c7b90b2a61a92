"""The least and the largest value of each number that a message type has: of many payloads at once.

Numbers are members of the message itself that are always there; those inside of structs, sequences and unions have no
range, and neither have booleans, enumerations and texts. Types with rows of anything but numbers have no ranges at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rtmw.columns._columns import ARRAY, NUMBER, SEQUENCE, Program
from rtmw.columns.program import Op, compile_columns
from rtmw.errors import UnsupportedType
from rtmw.types.description import from_document
from rtmw.types.message_type import read_document

if TYPE_CHECKING:
    from typing_extensions import Buffer

KINDS: Final = (*("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float", "double"),)
"""Kinds of numbers, in the order of `enum column_number`."""
_ENTRIES: Final = tuple(Struct("<?" + 2 * letter) for letter in "qqqqQQQQdd")


class Range(NamedTuple):
    """The range of a member in all payloads: least <= value <= most. No value is a NaN."""

    member: int
    """Which member of the message, from 0."""
    kind: str
    """One of KINDS."""
    least: float
    most: float


class Ranger:
    """The ranges of one message type. One may serve several threads."""

    def __init__(self, program: Program, members: list[tuple[int, int, str]]) -> None:
        self._program = program
        self._members = members
        """Place among the members, op, kind."""
        self._wanted = b"".join(_WANTED.pack(op, KINDS.index(kind)) for _, op, kind in members)

    def ranges(self, data: Buffer, position: Buffer, size: Buffer) -> list[Range]:
        """Returns the ranges of payloads in `data`, with their positions and sizes as i8; none if one of them is
        damaged."""
        packed = self._program.ranges(data, position, size, self._wanted)
        found: list[Range] = []
        for at, (member, _, kind) in enumerate(self._members if packed else ()):
            is_there, least, most = _ENTRIES[KINDS.index(kind)].unpack_from(packed or b"", at * _ENTRY)
            if is_there:
                found.append(Range(member, kind, least, most))
        return found


_WANTED: Final = Struct("<II")
_ENTRY: Final = 17


@lru_cache(maxsize=256)
def described_ranger(description: bytes) -> Ranger | None:
    """Returns the ranger of a type, by its description. None: the type has no such numbers, or columns cannot hold
    it."""
    document = read_document(description)
    if document["kind"] != "cdr":
        return None
    schema = from_document(document)
    try:
        ops, columns = compile_columns(schema, "keep")
    except UnsupportedType:
        return None
    numbers = [
        (member, column.op, column.kind)
        for member, column in enumerate(columns)
        if ops[column.op].code == NUMBER and not column.nullable and column.kind in KINDS
    ]
    if not numbers or not all(_is_cheap(op, ops) for op in ops):
        return None
    return Ranger(Program([*ops], schema.top.extensibility == "appendable"), numbers)


def _is_cheap(op: Op, ops: Sequence[Op]) -> bool:
    """Rows of anything but numbers would take longer to decode than the chunk to compress."""
    return op.code not in (SEQUENCE, ARRAY) or ops[op.first].code == NUMBER
