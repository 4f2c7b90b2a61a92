"""Side records: what rtmw knows of the messages of a chunk, and MCAP has no place for (docs/formats/format.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.checksum import crc32
from rtmw.recording import records
from rtmw.recording.contents import Chunk, Missed
from rtmw.recording.damage import damaged
from rtmw.recording.decompression import check_claim, decompress
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import HEAD, SIDE_HEAD, Packed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KINDS: Final = {
    "high": ("u8", 0),
    "publisher": ("u8", 8),
    "expires": ("i8", 16),
    "priority": ("u1", 24),
    "flags": ("u1", 25),
}
"""The columns of a side record: the type of each, and how many bytes a row the columns before it take."""
_ROW: Final = 26
_USUAL: Final = 2048
"""Bytes of a side record that are read before its length is known."""
_CHUNK_POSITION: Final = SIDE_HEAD - HEAD
"""Bytes of its content that are the position of the chunk."""
_KEPT: Final = 1 << 20
"""Bytes of the rows of a side record that is kept for the next chunk."""


@dataclass(frozen=True, slots=True)
class Side:
    """What side records say of each message: one row a message, in the order of the chunk."""

    rows: int
    data: bytes | memoryview | None
    """None: nothing is known of them, as in recordings of others, which have no side records."""
    missed: tuple[Missed, ...] = ()
    has_flags: bool = False
    """A message has one."""

    def column(self, name: str) -> NDArray[Any]:
        """`high` (the sequence without its low 32 bits), `publisher`, `expires`, `priority` or `flags`."""
        kind, before = _KINDS[name]
        if self.data is None:
            return np.zeros(self.rows, kind)
        return np.frombuffer(self.data, kind, self.rows, before * self.rows)


_latest: list[tuple[bytes, Side]] = []
"""The side record that was parsed last, without the position of its chunk, if it is small: the chunks of one publisher
with messages of one size have side records of the same bytes."""


def read_side(file: File, chunk: Chunk, rows: int, is_ours: bool) -> Side:
    """The side record of a chunk with so many messages. Raises RecordingDamaged; `is_ours`: also if there is none."""
    position = chunk.side_position
    begin = b"" if chunk.is_run else file.window(position, _USUAL)
    length = records.side_length(begin, chunk.position)
    if length is not None:
        content = begin[HEAD : HEAD + length]
        if len(content) < length:
            content = file.read(position + HEAD, length)
        return _parse_or_known(file, position, content, rows)
    if is_ours:
        raise damaged(file.path, position, f"the side record of the chunk at {chunk.position} is not there")
    return Side(rows, None)


def _parse_or_known(file: File, position: int, content: bytes, rows: int) -> Side:
    """`content`: behind opcode and length, which begin at `position`."""
    behind = content[_CHUNK_POSITION:]
    for known, side in _latest:
        if side.rows == rows and known == behind:
            return side
    side = _parse(file, position, content, rows)
    if _ROW * rows <= _KEPT:
        _latest[:] = [(behind, side)]
    return side


def _parse(file: File, position: int, content: bytes, rows: int) -> Side:
    fields = Fields(file.path, content, position + HEAD, "side record")
    count, packed = records.read_side(fields)
    if count != rows:
        fields.wrong(f"it is of {count} messages, and the chunk has {rows}")
    try:
        data = _unpack(packed)
    except ValueError as error:
        fields.wrong(str(error))
    missed = _missed(Fields(file.path, data, position, "side record, uncompressed"), rows)
    return Side(rows, data, missed, bool(Side(rows, data).column("flags").any()))


def _unpack(packed: Packed) -> bytes | memoryview:
    """Raises ValueError, with a reason."""
    reason = check_claim(packed.compression, len(packed.data), packed.size)
    if reason:
        raise ValueError(reason)
    data = decompress(packed.compression, packed.data, packed.size)
    if crc32(data) != packed.crc:
        raise ValueError("it does not match its CRC")
    return data


def _missed(fields: Fields, rows: int) -> tuple[Missed, ...]:
    fields.bytes(_ROW * rows)
    return tuple(Missed(fields.number(2), fields.number(1), fields.number(8)) for _ in range(fields.number(4)))
