"""The least and the largest value of each number in a chunk, channel by channel, so that queries skip chunks.

Numbers are members of the message itself that are always there; those inside of structs, sequences and unions have no
range, and neither have booleans, enumerations and texts. Types with rows of anything but numbers have no ranges at all.

Ranges lie in a side record of their own, behind the one of the messages (docs/formats/format.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rtmw.checksum import crc32
from rtmw.columns._columns import ARRAY, NUMBER, SEQUENCE, Program
from rtmw.columns.program import Op, compile_columns
from rtmw.columns.rows import Rows
from rtmw.errors import RtmwError, UnsupportedType
from rtmw.recording import records
from rtmw.recording.records import HEAD, SIDE_HEAD, Fields, Packed
from rtmw.types.description import from_document
from rtmw.types.message_type import read_document

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from rtmw.recording._mcap import ChunkBuilder
    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Chunk
    from rtmw.recording.files import File


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


Ranges = Mapping[int, Sequence[Range]]
"""Ranges by channel: the values of all of its messages in the chunk lie in them."""

Members = Mapping[int, Collection[int]]
"""Places of members in the message, by channel."""

_ROW: Final = 21
_WHOSE: Final = Struct("<HHB16x")
"""Channel, member and kind of a range."""
_ROWS: Final = {kind: Struct("<HHB" + 2 * letter) for kind, letter in zip(KINDS, "qqqqQQQQdd", strict=True)}
_NEAR, _SHARE = 2048, 64
"""Bytes behind a chunk that are read at once, as a rule its side record and its ranges: at most a 64th of the chunk."""
_MOST: Final = 1 << 16
"""Ranges of a chunk, as they are read."""


def ranges_record(chunk: ChunkBuilder, data: memoryview, position: int, descriptions: Mapping[int, bytes]) -> bytes:
    """Returns the record with the ranges of a chunk that is written at this position; b"" if there are none.
    `descriptions`: the descriptions of types, by channel."""
    rows = b"".join(_rows(chunk, data, descriptions))
    return records.side(position, len(rows) // _ROW, Packed("", len(rows), crc32(rows), rows)) if rows else b""


def _rows(chunk: ChunkBuilder, data: memoryview, descriptions: Mapping[int, bytes]) -> Iterator[bytes]:
    channels = chunk.channels()
    rangers = [_ranger(descriptions.get(number)) for number, _, _ in channels]
    if not any(rangers):
        return
    position, size = (memoryview(places) for places in chunk.places())
    begin = 0
    for (number, count, _), ranger in zip(channels, rangers, strict=True):
        part, begin = slice(8 * begin, 8 * (begin + count)), begin + count
        for found in ranger.ranges(data, position[part], size[part]) if ranger else ():
            kind = KINDS.index(found.kind)
            yield _ROWS[found.kind].pack(number, found.member, kind, found.least, found.most)


def ranges_of(description: bytes, batch: Batch) -> Sequence[Range]:
    """Returns the ranges of the numbers in a batch, whose messages all have the type of this description."""
    ranger = _ranger(description)
    return ranger.ranges(*Rows(batch.data, batch.position, batch.size).lent()) if ranger else ()


@lru_cache(maxsize=256)
def _ranger(description: bytes | None) -> Ranger | None:
    """None also of what is no description: a recording of others may claim anything."""
    try:
        return None if description is None else described_ranger(description)
    except RtmwError:
        return None


def read_ranges(file: File, chunk: Chunk, members: Members | None = None) -> Ranges:
    """Returns the ranges of a chunk; none where nobody wrote them. `members`: the only ones wanted; None: all.
    Raises RecordingDamaged."""
    if chunk.is_run or not chunk.side_position:
        return {}
    ahead = min(_NEAR, max(chunk.size // _SHARE, SIDE_HEAD))
    begin, near = chunk.side_position, file.window(chunk.side_position, ahead)
    length = records.side_length(near, chunk.position)
    if length is None:
        return {}
    at = HEAD + length
    if at + SIDE_HEAD > len(near):
        begin, near, at = begin + at, file.window(begin + at, ahead), 0
    length = records.side_length(near[at : at + SIDE_HEAD], chunk.position)
    if length is None:
        return {}
    begin, content = begin + at + HEAD, near[at + HEAD : at + HEAD + length]
    if len(content) < length:
        content = file.read(begin, length)
    return _parse(Fields(file.path, content, begin, "ranges of a chunk"), members)


def _parse(fields: Fields, members: Members | None) -> Ranges:
    count, packed = records.read_side(fields)
    rows, size = packed.data, packed.size
    if packed.compression or size != len(rows) or size != count * _ROW or count > _MOST:
        fields.wrong(f"{count} ranges in {size} bytes")
    if crc32(rows) != packed.crc:
        fields.wrong("they do not match their CRC")
    found: dict[int, list[Range]] = {}
    for row, (channel, member, kind) in enumerate(_WHOSE.iter_unpack(rows)):
        if kind >= len(KINDS):
            fields.wrong(f"numbers of kind {kind}")
        if members is None or member in members.get(channel, ()):
            *_, least, most = _ROWS[KINDS[kind]].unpack_from(rows, row * _ROW)
            found.setdefault(channel, []).append(Range(member, KINDS[kind], least, most))
    return found
