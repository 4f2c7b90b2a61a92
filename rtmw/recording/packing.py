"""A chunk as it lies in the file: its record, the message indexes behind it, and its side record."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from rtmw.checksum import crc32
from rtmw.recording import records
from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.compression import Compress
from rtmw.recording.records import ChunkEntry, Packed

__all__ = ["Missed", "Packing", "pack"]

Missed = Mapping[tuple[int, int], int]
"""Messages that are not in the recording, by channel and cause."""

LEAST_GAIN = 0.95
"""A chunk that compression leaves larger than this part of it is written uncompressed."""

SAMPLE = 64 << 10
"""A chunk of several times so many bytes is tried by a piece first: what is noise costs no time then."""


class Packing(NamedTuple):
    """How chunks are written."""

    name: str
    compress: Compress | None
    indexed: bool


def pack(
    chunk: ChunkBuilder, data: memoryview, packing: Packing, position: int, missed: Missed
) -> tuple[list[bytes | memoryview], ChunkEntry]:
    """The bytes to write at this position, and their entry of the index. `data`: a view of the chunk."""
    packed = _packed(data, packing)
    head = records.chunk_head(chunk.start_ns, chunk.end_ns, packed)
    indexes = chunk.indexes() if packing.indexed else b""
    behind = position + len(head) + len(packed.data)
    entry = ChunkEntry(
        start_ns=chunk.start_ns,
        end_ns=chunk.end_ns,
        position=position,
        length=len(head) + len(packed.data),
        index_positions={channel: behind + at for channel, _, at in chunk.channels()} if indexes else {},
        index_length=len(indexes),
        compression=packed.compression,
        compressed_size=len(packed.data),
        size=packed.size,
    )
    return [head, packed.data, indexes, _side(chunk, packing, position, missed)], entry


def _packed(data: memoryview, packing: Packing) -> Packed:
    crc = crc32(data)
    if packing.compress is not None and (len(data) <= 4 * SAMPLE or _gains(data, packing.compress)):
        compressed = packing.compress(data)
        if len(compressed) <= LEAST_GAIN * len(data):
            return Packed(packing.name, len(data), crc, compressed)
    return Packed("", len(data), crc, data)


def _gains(data: memoryview, compress: Compress) -> bool:
    middle = len(data) // 2
    return len(compress(data[middle : middle + SAMPLE])) <= LEAST_GAIN * SAMPLE


def _side(chunk: ChunkBuilder, packing: Packing, position: int, missed: Missed) -> bytes:
    rows = [struct.pack("<HBQ", channel, cause, count) for (channel, cause), count in missed.items()]
    content = b"".join((chunk.side(), struct.pack("<I", len(rows)), *rows))
    return records.side(position, len(chunk), _packed(memoryview(content), packing))
