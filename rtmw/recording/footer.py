"""The index as the summary section of a file has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from rtmw.checksum import crc32
from rtmw.recording import records
from rtmw.recording.contents import Chunk
from rtmw.recording.damage import damaged
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.index import Index
from rtmw.recording.records import CRC, FOOTER, HEAD, MAGIC, Opcode

_TAIL: Final = FOOTER + len(MAGIC)
_INDEX_ENTRY: Final = 16
_INDEX_HEAD: Final = HEAD + 6


@dataclass(slots=True)
class Summary:
    """An index, and the statistics that it must agree with."""

    index: Index
    message_count: int | None = None
    metadata_count: int | None = None
    attachment_count: int | None = None
    is_counted: bool = True
    """False: a chunk does not say which messages it has, or has none."""

    def explains_all(self) -> bool:
        """Does the index lead to every message? Where the statistics are missing, chunk indexes must do."""
        chunks = self.index.chunks
        if any(map(self.index.lacks, chunks)):
            return False
        if self.message_count is None:
            return self.is_counted and bool(chunks)
        return self.message_count == sum(chunk.message_count for chunk in chunks)


def is_finished(file: File) -> bool:
    """Does the file end as one that was closed?"""
    return file.size >= len(MAGIC) + _TAIL and file.window(file.size - len(MAGIC), len(MAGIC)) == MAGIC


def read_summary(file: File) -> Summary | None:
    """The summary of a finished file; None: it has none. Raises RecordingDamaged."""
    position = file.size - _TAIL
    tail = file.read(position, FOOTER)
    if records.read_head(tail) != (Opcode.FOOTER, FOOTER - HEAD):
        raise damaged(file.path, position, "its footer is no footer")
    start, crc = records.read_footer(tail[HEAD:])
    if start == 0:
        return None
    if not len(MAGIC) <= start <= position:
        raise damaged(file.path, position, f"its footer says that the summary begins at {start}")
    data = file.read(start, position - start)
    if crc and crc32(tail[:-CRC], crc32(data)) != crc:
        raise damaged(file.path, start, "the summary does not match its CRC")
    return _parse(file, memoryview(data), start)


def _parse(file: File, data: memoryview, start: int) -> Summary:
    summary = Summary(Index(file.path, metadata=[], attachments=[]))
    fields = Fields(file.path, data, start, "summary")
    while fields.left():
        opcode, size = records.read_head(fields.bytes(HEAD))
        position = start + fields.taken()
        content = fields.bytes(size)
        _enter(summary, opcode, Fields(file.path, content, position, "summary"), content, position)
    index = summary.index
    if any(before.position > after.position for before, after in pairwise(index.chunks)):
        index.chunks.sort(key=lambda chunk: chunk.position)
        index.chunks = [replace(chunk, number=number) for number, chunk in enumerate(index.chunks)]
    if summary.metadata_count != len(index.metadata or ()):
        index.metadata = None
    if summary.attachment_count != len(index.attachments or ()):
        index.attachments = None
    return summary


def _enter(summary: Summary, opcode: int, fields: Fields, content: memoryview, position: int) -> None:
    index = summary.index
    match opcode:
        case Opcode.SCHEMA | Opcode.CHANNEL:
            index.define(opcode, content, position)
        case Opcode.CHUNK_INDEX:
            _enter_chunk(summary, fields)
        case Opcode.STATISTICS:
            counts = records.read_statistics(fields)
            summary.message_count, summary.attachment_count, summary.metadata_count = counts
        case Opcode.METADATA_INDEX if index.metadata is not None:
            index.metadata.append(records.read_metadata_index(fields))
        case Opcode.ATTACHMENT_INDEX if index.attachments is not None:
            index.attachments.append(records.read_attachment_index(fields))
        case _:
            pass


def _enter_chunk(summary: Summary, fields: Fields) -> None:
    entry = records.read_chunk_index(fields)
    behind = entry.position + entry.length + entry.index_length
    counts = counts_of(entry.index_positions, behind)
    if counts is None:
        summary.is_counted = False
    chunk = Chunk(
        number=len(summary.index.chunks),
        position=entry.position,
        length=entry.length,
        start_ns=entry.start_ns,
        end_ns=entry.end_ns,
        counts=counts or {},
        compression=entry.compression,
        size=entry.compressed_size,
        uncompressed_size=entry.size,
        side_position=behind,
    )
    summary.index.chunks.append(chunk)


def counts_of(offsets: Mapping[int, int], end: int) -> dict[int, int] | None:
    """Messages by channel, from where the message indexes lie, one behind the other; None: they do not say."""
    counts: dict[int, int] = {}
    for number, position in sorted(offsets.items(), key=lambda item: -item[1]):
        entries, rest = divmod(end - position - _INDEX_HEAD, _INDEX_ENTRY)
        if entries < 0 or rest:
            return None
        counts[number] = entries
        end = position
    return counts or None
