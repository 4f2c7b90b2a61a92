"""One chunk from the file: checked against everything that is known of it, then scanned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from rtmw.checksum import crc32
from rtmw.recording import _mcap, records
from rtmw.recording.contents import Chunk
from rtmw.recording.damage import damaged
from rtmw.recording.decompression import check_claim, decompress
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import HEAD, ChunkHead, Opcode
from rtmw.recording.times import UNSET_NS, clamped

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIELDS: Final = {"channel": (22, "u2"), "sequence": (20, "u4"), "log_time": (16, "i8"), "publish_time": (8, "i8")}
"""The fields of the header of a message: how many bytes before its payload each lies, and its type."""
_COMPARED: Final = ("start_ns", "end_ns", "compression", "size", "uncompressed_size")
"""What both the index and the head of a chunk say."""


@dataclass(slots=True)
class ChunkMessages:
    """The messages of a chunk, and its schemas and channels."""

    data: bytes | memoryview
    position: NDArray[np.int64]
    """Position of each payload in `data`."""
    size: NDArray[np.int64]
    """Bytes of each payload."""
    start_ns: int
    """Earliest log time, 0 if there is no message."""
    end_ns: int
    """Latest log time; UNSET_NS if a message has none."""
    channel: int | None
    """The channel of all messages; None: there are several."""
    definitions: list[tuple[int, int, int]]
    """Opcode, position and length in `data`."""
    has_unset: bool = False
    """A message has a time that nobody set."""

    def __len__(self) -> int:
        return len(self.position)

    @property
    def counts(self) -> dict[int, int]:
        """Messages by channel id."""
        if self.channel is not None:
            return {self.channel: len(self)}
        found = np.bincount(self.field("channel"))
        return {number: int(found[number]) for number in np.flatnonzero(found).tolist()}

    def field(self, name: str) -> NDArray[Any]:
        """The column `channel`, `sequence`, `log_time` or `publish_time`; a time that nobody set is UNSET_NS."""
        before, kind = _FIELDS[name]
        position: Any = self.position
        column = np.frombuffer(_mcap.field(self.data, position, before, int(kind[1])), kind)
        return np.where(column < 0, UNSET_NS, column) if self.has_unset and kind == "i8" else column


def parse_head(position: int, length: int, content: Fields) -> Chunk:
    """A chunk by its header, without counts. `content` begins behind opcode and length."""
    head = records.read_chunk_head(content)
    return Chunk(0, position, length, head.start_ns, head.end_ns, {}, head.compression, head.compressed_size, head.size)


def scan_chunk(file: File, chunk: Chunk) -> ChunkMessages:
    """Reads a chunk and believes nothing. Raises RecordingDamaged."""
    record = file.read(chunk.position, chunk.length)
    if chunk.is_run:
        return _scan(file, chunk, record)
    fields = Fields(file.path, record, chunk.position, "chunk")
    if records.read_head(fields.bytes(HEAD)) != (Opcode.CHUNK, chunk.length - HEAD):
        raise damaged(file.path, chunk.position, f"here should begin a chunk of {chunk.length} bytes")
    head = records.read_chunk_head(fields)
    _compare(file, chunk, head)
    return _scan(file, chunk, _uncompressed(file, chunk, head.crc, fields.bytes(chunk.size)))


def _compare(file: File, chunk: Chunk, head: ChunkHead) -> None:
    known = chunk.start_ns, chunk.end_ns, chunk.compression, chunk.size, chunk.uncompressed_size
    found = head.start_ns, head.end_ns, head.compression, head.compressed_size, head.size
    if known == found:
        return
    for name, mine, other in zip(_COMPARED, known, found, strict=True):
        if mine != other:
            raise damaged(file.path, chunk.position, f"{name} of the chunk is {other!r}, and {mine!r} in the index")


def _uncompressed(file: File, chunk: Chunk, crc: int, packed: memoryview) -> bytes | memoryview:
    reason = check_claim(chunk.compression, chunk.size, chunk.uncompressed_size)
    if reason:
        raise damaged(file.path, chunk.position, f"a chunk cannot be read: {reason}")
    try:
        data = decompress(chunk.compression, packed, chunk.uncompressed_size)
    except ValueError as error:
        raise damaged(file.path, chunk.position, f"a chunk cannot be read: {error}") from error
    if crc and crc32(data) != crc:
        raise damaged(file.path, chunk.position, "a chunk does not match its CRC")
    return data


def _scan(file: File, chunk: Chunk, data: bytes | memoryview) -> ChunkMessages:
    try:
        found = _mcap.scan(data, min(chunk.message_count, len(data)))
    except ValueError as error:
        offset, reason = cast("tuple[int, str]", error.args)
        where = chunk.position + offset if chunk.is_run else chunk.position
        inside = "" if chunk.is_run else f" (at byte {offset} of the uncompressed chunk)"
        raise damaged(file.path, where, f"{reason}{inside}") from None
    position, size, start_ns, end_ns, channel, definitions, has_unset = found
    places = np.frombuffer(position, np.int64), np.frombuffer(size, np.int64)
    return ChunkMessages(data, *places, clamped(start_ns), clamped(end_ns), channel, definitions, has_unset)


def check_facts(file: File, chunk: Chunk, scanned: ChunkMessages, is_ours: bool) -> None:
    """Check that the index was right to skip, or not to skip, a chunk: its times and counts are those of the messages.

    Other writers may give a chunk more time than its messages take. Raises RecordingDamaged.
    """
    claimed, real = (chunk.start_ns, chunk.end_ns), (scanned.start_ns, scanned.end_ns)
    covers = not len(scanned) or (claimed[0] <= real[0] and real[1] <= claimed[1])
    if not covers or (is_ours and claimed != real):
        what = f"log times {real[0]} to {real[1]} in a chunk of {claimed[0]} to {claimed[1]}"
        raise damaged(file.path, chunk.position, what)
    if is_ours and scanned.has_unset:
        raise damaged(file.path, chunk.position, "a message has a time after the year 2262")
    if scanned.counts != chunk.counts:
        raise damaged(file.path, chunk.position, "the messages of a chunk are not those that the index counts")
