"""The index of a recording: where its chunks, metadata and attachments lie, and what the chunks are about.

`read_summary` has it from the summary section of a file. `Walk` makes it from the data section itself, for files that
have no summary: still growing, cut, or written without. A chunk is entered with the message indexes and the side record
behind it, or not at all, so that whoever follows a growing file sees only what is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

from rtmw.checksum import crc32
from rtmw.errors import RecordingDamaged
from rtmw.recording import _mcap, records
from rtmw.recording.batch import ChunkMessages, check_facts, parse_head, read_side, scan_chunk
from rtmw.recording.contents import Attachment, Channel, Chunk, Schema, clamped
from rtmw.recording.files import File
from rtmw.recording.records import CHUNK_HEAD, CRC, FOOTER, HEAD, MAGIC, Fields, Opcode, damaged

_NAMES: Final = 1 << 16


def _content(file: File, position: int, length: int, opcode: Opcode) -> Fields:
    data = file.read(position, length)
    what = opcode.name.lower()
    if length < HEAD or records.read_head(data) != (opcode, length - HEAD):
        raise damaged(file.path, position, f"here should be {what} of {length} bytes")
    return Fields(file.path, memoryview(data)[HEAD:], position + HEAD, what)


def read_metadata(file: File, position: int, length: int, is_ours: bool) -> tuple[str, dict[str, str]]:
    fields = _content(file, position, length, Opcode.METADATA)
    found = records.read_metadata(fields)
    if is_ours and fields.left():
        fields.wrong(f"{fields.left()} bytes too many")
    return found


def read_attachment(file: File, attachment: Attachment) -> bytes:
    """Returns an attachment's data. Raises RecordingDamaged where it does not match its CRC."""
    length = records.read_head(file.read(attachment.position, HEAD))[1] + HEAD
    fields = _content(file, attachment.position, length, Opcode.ATTACHMENT)
    found = records.read_attachment_head(fields, attachment.position)
    data = fields.bytes(found.size)
    covered = file.read(attachment.position + HEAD, fields.taken())
    crc = fields.number(CRC)
    if found != attachment:
        name = attachment.name
        fields.wrong(f"it is {found.name!r} of {found.size} bytes, and {name!r} in the index, or of other times")
    if crc and crc32(covered) != crc:
        fields.wrong(f"the attachment {found.name!r} does not match its CRC")
    return bytes(data)


def attachment_at(file: File, position: int, length: int) -> Attachment:
    """The head of an attachment record; the data is not read."""
    head = file.window(position + HEAD, min(length - HEAD, _NAMES))
    fields = Fields(file.path, head, position + HEAD, "attachment")
    found = records.read_attachment_head(fields, position)
    if found.size > length - HEAD - fields.taken() - CRC:
        fields.wrong(f"it claims to have {found.size} bytes, and has not")
    return found


@dataclass(slots=True)
class Index:
    """Filled from the summary at the end of the file, or by a walk through its data section."""

    path: Path
    is_ours: bool = False
    """Written by rtmw: every chunk has a side record."""
    schemas: dict[int, Schema] = field(default_factory=dict[int, Schema])
    channels: dict[int, Channel] = field(default_factory=dict[int, Channel])
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    metadata: list[tuple[int, int]] | None = None
    """Position and length of their records; None: not known without a walk."""
    attachments: list[Attachment] | None = None

    def define(self, opcode: int, content: bytes | memoryview, position: int) -> None:
        """Enters a schema or channel. Raises RecordingDamaged where another one has its number."""
        if opcode == Opcode.SCHEMA:
            self._schema(Fields(self.path, content, position, "schema"))
        else:
            self._channel(Fields(self.path, content, position, "channel"))

    def define_from(self, scanned: ChunkMessages, chunk: Chunk) -> None:
        """Enters the schemas and channels that lie in a chunk."""
        for opcode, position, length in scanned.definitions:
            self.define(opcode, memoryview(scanned.data)[position : position + length], chunk.position)

    def _schema(self, fields: Fields) -> None:
        schema = records.read_schema(fields)
        number = schema.id
        if number and self.schemas.setdefault(number, schema) != schema:  # a schema with number 0 is to be ignored
            fields.wrong(
                f"number {number} is {self.schemas[number].name!r} and here {schema.name!r}, or of other content"
            )

    def _channel(self, fields: Fields) -> None:
        channel = records.read_channel(fields)
        number = channel.id
        if self.channels.setdefault(number, channel) != channel:
            fields.wrong(
                f"number {number} is the topic {self.channels[number].topic!r} and here {channel.topic!r}, "
                "or of other content"
            )

    def lacks(self, chunk: Chunk) -> bool:
        """Has the chunk messages of a channel that is not known yet, or whose schema is not?"""
        for number in chunk.counts:
            channel = self.channels.get(number)
            if channel is None or (channel.schema_id and channel.schema_id not in self.schemas):
                return True
        return False


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


_SMALL: Final = 16 << 10
_LARGE: Final = 1 << 20
"""Windows: chunks are stepped over, but messages outside of chunks have to be looked at one by one."""
_ENTRY: Final = struct.Struct("<5Q2I")


class End(IntEnum):
    """`enum mcap_walk_end` of scan.h."""

    NEEDS_MORE = 0
    FULL = 1
    AT_END = 2
    CUT = 3
    ZEROS = 4
    WRONG = 5


@dataclass(slots=True)
class _Unit:
    """A chunk whose message indexes are being met."""

    position: int
    length: int
    end: int
    counts: dict[int, int] = field(default_factory=dict[int, int])
    times: list[int] = field(default_factory=list[int])


class Walk:
    """Goes through the data section once, and on from where it was when the file has grown."""

    def __init__(self, file: File, index: Index, position: int) -> None:
        self.position = position
        """Position in the file behind what has been entered."""
        self.is_at_end = False
        """Has the end of the data been reached? Else the file was cut, or still grows."""
        self.why_not = ""
        """Why what lies behind `position` was not entered."""
        self._file = file
        self._index = index
        self._unit: _Unit | None = None
        self._searched: set[int] = set()
        self._has_runs = False
        self._is_behind_chunk = False
        self._metadata = index.metadata = list[tuple[int, int]]()
        self._attachments = index.attachments = list[Attachment]()

    def advance(self) -> bool:
        """Enters what has become whole. False: nothing has. Raises RecordingDamaged, and then has entered nothing."""
        before, chunks = self.position, len(self._index.chunks)
        extras, was_behind_chunk = (len(self._metadata), len(self._attachments)), self._is_behind_chunk
        self.why_not = ""
        try:
            self._advance(chunks)
        except BaseException:
            del self._index.chunks[chunks:], self._metadata[extras[0] :], self._attachments[extras[1] :]
            self._searched = {number for number in self._searched if number < chunks}
            self.position, self._unit, self._is_behind_chunk, self.is_at_end = before, None, was_behind_chunk, False
            raise
        return self.position > before

    def _advance(self, chunks: int) -> None:
        at, size, end = self.position, _SMALL, End.FULL
        while end in (End.NEEDS_MORE, End.FULL):
            at, size, end = self._step(at, size)
        if end == End.ZEROS:
            self._require_zeros(at)
        self._finish(at)
        if not self.is_at_end:
            self._drop_torn(chunks)

    def lost(self) -> RecordingDamaged:
        """Returns the error for a file that has its end, although the records before do not lead there."""
        what = self.why_not or "here a record should begin or end, and does not, although the file has its end"
        return damaged(self._file.path, self.position, what)

    def _step(self, at: int, size: int) -> tuple[int, int, End]:
        window = self._file.window(at, size)
        if self._file.size < at or len(window) < min(size, self._file.size - at):
            raise damaged(self._file.path, at, "somebody cut the file while it was read")
        packed, at, needed, end, wrong = _mcap.walk(window, at, self._file.size, self._index.is_ours)
        opcode = 0
        for position, length, count, first, last, opcode, channel in _ENTRY.iter_unpack(packed):
            self._enter(opcode, position, length)
            if opcode == Opcode.MESSAGE_INDEX and self._unit and count:
                self._unit.counts[channel] = count
                self._unit.times += clamped(first), clamped(last)
        if end == End.WRONG:
            raise damaged(self._file.path, at, str(wrong))
        return at, max(needed, _LARGE if opcode == Opcode.MESSAGE else _SMALL), End(end)

    def _enter(self, opcode: int, position: int, length: int) -> None:
        unit = self._unit
        if opcode == Opcode.MESSAGE_INDEX and not self._is_behind_chunk:
            raise damaged(self._file.path, position, "a message index without a chunk before it")
        self._is_behind_chunk = opcode in (Opcode.CHUNK, Opcode.MESSAGE_INDEX)
        if unit and opcode in (Opcode.MESSAGE_INDEX, Opcode.SIDE):
            unit.end = position + (length if opcode == Opcode.MESSAGE_INDEX else 0)
            if opcode == Opcode.SIDE:
                self._close_unit(unit)
            return
        if unit:
            if self._index.is_ours:
                raise damaged(self._file.path, position, f"the chunk at {unit.position} has no side record")
            self._close_unit(unit)
        self._enter_single(opcode, position, length)

    def _enter_single(self, opcode: int, position: int, length: int) -> None:
        match opcode:
            case Opcode.CHUNK:
                self._unit = _Unit(position, length, position + length)
            case Opcode.MESSAGE:
                self._add_run(position, length)
            case Opcode.SCHEMA | Opcode.CHANNEL:
                content = self._file.read(position + HEAD, length - HEAD)
                self._index.define(opcode, content, position + HEAD)  # which fails if it is longer than its record
            case Opcode.METADATA:
                self._metadata.append((position, length))
                read_metadata(self._file, position, length, self._index.is_ours)  # so that its length is sure
            case Opcode.ATTACHMENT:
                found = attachment_at(self._file, position, length)
                self._attachments.append(found)
            case Opcode.DATA_END | Opcode.FOOTER:
                self._at_end(opcode, position)
            case _:
                pass

    def _at_end(self, opcode: int, position: int) -> None:
        self.is_at_end = True
        crc = records.read_data_end(self._file.read(position + HEAD, CRC)) if opcode == Opcode.DATA_END else 0
        if crc and self._has_runs and self._crc_until(position) != crc:
            raise damaged(self._file.path, 0, "the messages outside of chunks do not match the CRC of the data section")

    def _crc_until(self, end: int) -> int:
        crc = 0
        for at in range(0, end, _LARGE):
            crc = crc32(self._file.read(at, min(_LARGE, end - at)), crc)
        return crc

    def _add_run(self, position: int, length: int) -> None:
        self._has_runs = True
        run = Chunk(0, position, length, 0, 0, {}, "", length, length, is_run=True)
        scanned = scan_chunk(self._file, run)
        self._add(replace(run, start_ns=scanned.start_ns, end_ns=scanned.end_ns, counts=scanned.counts))

    def _close_unit(self, unit: _Unit) -> None:
        """Take the counts of the message indexes if their times agree with the chunk; else read the chunk itself."""
        self._unit = None
        path, head = self._file.path, self._file.window(unit.position, CHUNK_HEAD)
        fields = Fields(path, head[HEAD:], unit.position + HEAD, "chunk")
        chunk = replace(parse_head(unit.position, unit.length, fields), counts=unit.counts, side_position=unit.end)
        if not unit.times or (min(unit.times), max(unit.times)) != (chunk.start_ns, chunk.end_ns):
            scanned = scan_chunk(self._file, chunk)
            chunk = replace(chunk, counts=scanned.counts)
            check_facts(self._file, chunk, scanned, self._index.is_ours)
            self._index.define_from(scanned, chunk)
        self._add(chunk)

    def _add(self, chunk: Chunk) -> None:
        chunk = replace(chunk, number=len(self._index.chunks))
        self._search_definitions(chunk)
        self._index.chunks.append(chunk)

    def _search_definitions(self, chunk: Chunk) -> None:
        """Schemas and channels that lie in chunks are looked for only if a message is of them: here, or before."""
        for candidate in chain((chunk,), reversed(self._index.chunks)):
            if not self._index.lacks(chunk):
                return
            if candidate.number not in self._searched and not candidate.is_run:
                self._searched.add(candidate.number)
                self._index.define_from(scan_chunk(self._file, candidate), candidate)
        unknown = chunk.counts.keys() - self._index.channels.keys()
        if unknown:
            what = f"messages of channel {min(unknown)}, which is defined nowhere before"
            raise damaged(self._file.path, chunk.position, what)

    def _finish(self, at: int) -> None:
        """Ends a pass where the file ends for now. A last chunk without its side record is not there yet, if rtmw
        writes the file; in other files it is entered."""
        unit, self._unit = self._unit, None
        self.position = at
        if unit and self._index.is_ours:
            self.position = unit.position
        elif unit:
            unit.times.clear()  # some of its message indexes may be missing
            try:
                self._close_unit(unit)
            except RecordingDamaged as error:
                self.position, self.why_not = unit.position, str(error)

    def _drop_torn(self, since: int) -> None:
        """Drop the damaged chunks at the end: the last writes may be torn, although the file is long enough."""
        chunks = self._index.chunks
        while len(chunks) > since:
            try:
                scanned = scan_chunk(self._file, chunks[-1])
                check_facts(self._file, chunks[-1], scanned, self._index.is_ours)
                read_side(self._file, chunks[-1], len(scanned), self._index.is_ours)
            except RecordingDamaged as error:
                self.position, self.why_not = chunks.pop().position, str(error)
                self._metadata[:] = [place for place in self._metadata if place[0] < self.position]
                self._attachments[:] = [found for found in self._attachments if found.position < self.position]
            else:
                return

    def _require_zeros(self, at: int) -> None:
        """Zeros at the end are room that was never written."""
        for position in range(at, self._file.size, _LARGE):
            if any(self._file.window(position, _LARGE)):
                raise damaged(self._file.path, at, "zeros, and then something else")
