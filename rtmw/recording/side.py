"""Side records: what rtmw knows of the messages of a chunk, and MCAP has no place for (docs/format.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.checksum import crc32
from rtmw.recording import records
from rtmw.recording.contents import Chunk, Missed
from rtmw.recording.damage import damaged
from rtmw.recording.decompression import check_claim, decompress
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import HEAD, SIDE_HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    length = None if chunk.is_run else records.side_length(file.window(position, SIDE_HEAD), chunk.position)
    if length is not None:
        return _parse(file, position, length, rows)
    if is_ours:
        raise damaged(file.path, position, f"the side record of the chunk at {chunk.position} is not there")
    return Side(rows, None)


def _parse(file: File, position: int, length: int, rows: int) -> Side:
    fields = Fields(file.path, file.read(position + HEAD, length), position + HEAD, "side record")
    count, packed = records.read_side(fields)
    if count != rows:
        fields.wrong(f"it is of {count} messages, and the chunk has {rows}")
    unpack = _unpack_or_known if packed.size <= _KEPT else _unpack
    try:
        data = unpack(packed.compression, bytes(packed.data), packed.size, packed.crc)
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
