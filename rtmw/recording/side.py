"""Side records: what rtmw knows of the messages of a chunk, and MCAP has no place for (docs/format.md)."""

from __future__ import annotations

from dataclasses import dataclass
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

_HEAD: Final = 9
_MOST_HEAD: Final = 9 + 36 + 64


@dataclass(frozen=True, slots=True)
class Side:
    """One row a message, in the order of the chunk."""

    high: NDArray[Any] | None
    """The sequence without its low 32 bits; None: a recording of others, which has no side records."""
    publisher: NDArray[Any]
    expires: NDArray[Any]
    priority: NDArray[Any]
    flags: NDArray[Any]
    missed: tuple[Missed, ...] = ()


def read_side(file: File, chunk: Chunk, rows: int, is_ours: bool) -> Side:
    """The side record of a chunk with so many messages. Raises RecordingDamaged; `is_ours`: also if there is none."""
    position = chunk.side_position
    begin = b"" if chunk.is_run else file.window(position, _MOST_HEAD)
    if begin[:1] == bytes([Opcode.SIDE]) and int.from_bytes(begin[_HEAD : _HEAD + 8], "little") == chunk.position:
        return _parse(file, position, int.from_bytes(begin[1:_HEAD], "little"), rows)
    if is_ours:
        raise damaged(file.path, position, f"the side record of the chunk at {chunk.position} is not there")
    return no_side(rows)


def no_side(rows: int) -> Side:
    """Of messages of which nothing more is known."""
    numbers, small = np.zeros(rows, "u8"), np.zeros(rows, "u1")
    return Side(None, numbers, numbers.view("i8"), small, small)


def _parse(file: File, position: int, length: int, rows: int) -> Side:
    fields = Fields(file.path, file.read(position + _HEAD, length), position + _HEAD, "side record")
    fields.bytes(8)
    count, compression, size, crc = fields.number(4), fields.text(), fields.number(8), fields.number(4)
    packed = fields.bytes(fields.number(8))
    if count != rows:
        fields.wrong(f"it is of {count} messages, and the chunk has {rows}")
    reason = check_claim(compression, len(packed), size)
    if reason:
        fields.wrong(reason)
    try:
        data = decompress(compression, packed, size)
    except ValueError as error:
        fields.wrong(str(error))
    if crc32(data) != crc:
        fields.wrong("it does not match its CRC")
    return _columns(Fields(file.path, data, position, "side record, uncompressed"), rows)


def _columns(fields: Fields, rows: int) -> Side:
    high = np.frombuffer(fields.bytes(8 * rows), "u8")
    publisher = np.frombuffer(fields.bytes(8 * rows), "u8")
    expires = np.frombuffer(fields.bytes(8 * rows), "i8")
    priority, flags = np.frombuffer(fields.bytes(rows), "u1"), np.frombuffer(fields.bytes(rows), "u1")
    missed = tuple(Missed(fields.number(2), fields.number(1), fields.number(8)) for _ in range(fields.number(4)))
    return Side(high, publisher, expires, priority, flags, missed)
