"""Side records: what rtmw knows of the messages of a chunk, and MCAP has no place for (docs/format.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.recording.checksum import crc32
from rtmw.recording.contents import Chunk, Missed
from rtmw.recording.damage import damaged
from rtmw.recording.decompression import check_claim, decompress
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import Opcode

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEAD: Final = Struct("<BQQ")
_CONTENT: Final = 9
_SIZE: Final = Struct("<QIQ")
_KINDS: Final = {
    "high": ("u8", 0),
    "publisher": ("u8", 8),
    "expires": ("i8", 16),
    "priority": ("u1", 24),
    "flags": ("u1", 25),
}
"""Its columns, and how many bytes a row those before have."""
_ROW: Final = 26
_KEPT: Final = 1 << 20
"""Uncompressed bytes of a side record that is kept for the next chunk."""


@dataclass(frozen=True, slots=True)
class Side:
    """One row a message, in the order of the chunk."""

    rows: int
    data: bytes | memoryview | None
    """None: nothing is known of them, as in recordings of others, which have no side records."""
    missed: tuple[Missed, ...] = ()

    def column(self, name: str) -> NDArray[Any]:
        """`high` (the sequence without its low 32 bits), `publisher`, `expires`, `priority` or `flags`."""
        kind, before = _KINDS[name]
        if self.data is None:
            return np.zeros(self.rows, kind)
        return np.frombuffer(self.data, kind, self.rows, before * self.rows)


def read_side(file: File, chunk: Chunk, rows: int, is_ours: bool) -> Side:
    """The side record of a chunk with so many messages. Raises RecordingDamaged; `is_ours`: also if there is none."""
    position = chunk.side_position
    begin = b"" if chunk.is_run else file.window(position, _HEAD.size)
    opcode, length, chunk_start = _HEAD.unpack(begin) if len(begin) == _HEAD.size else (0, 0, 0)
    if (opcode, chunk_start) == (Opcode.SIDE, chunk.position):
        return _parse(file, position, length, rows)
    if is_ours:
        raise damaged(file.path, position, f"the side record of the chunk at {chunk.position} is not there")
    return Side(rows, None)


def _parse(file: File, position: int, length: int, rows: int) -> Side:
    fields = Fields(file.path, file.read(position + _CONTENT, length), position + _CONTENT, "side record")
    fields.bytes(8)
    count, compression = fields.number(4), fields.text()
    size, crc, packed_size = fields.numbers(_SIZE)
    packed = fields.bytes(packed_size)
    if count != rows:
        fields.wrong(f"it is of {count} messages, and the chunk has {rows}")
    unpack = _unpack_or_known if size <= _KEPT else _unpack
    try:
        data = unpack(compression, bytes(packed), size, crc)
    except ValueError as error:
        fields.wrong(str(error))
    return Side(rows, data, _missed(Fields(file.path, data, position, "side record, uncompressed"), rows))


def _unpack(compression: str, packed: bytes, size: int, crc: int) -> bytes | memoryview:
    """Raises ValueError, with a reason."""
    reason = check_claim(compression, len(packed), size)
    if reason:
        raise ValueError(reason)
    data = decompress(compression, packed, size)
    if crc32(data) != crc:
        raise ValueError("it does not match its CRC")
    return data


_unpack_or_known = lru_cache(maxsize=1)(_unpack)
"""The chunks of one publisher with messages of one size have side records of the same bytes."""


def _missed(fields: Fields, rows: int) -> tuple[Missed, ...]:
    fields.bytes(_ROW * rows)
    return tuple(Missed(fields.number(2), fields.number(1), fields.number(8)) for _ in range(fields.number(4)))
