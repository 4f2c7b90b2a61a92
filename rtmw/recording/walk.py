"""The index from the data section itself, for files that have no summary: still growing, cut, or written without.

A chunk is entered with the message indexes and the side record behind it, or not at all, so that whoever follows a
growing file sees only what is whole.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain
from typing import Final

from rtmw.checksum import crc32
from rtmw.errors import RecordingDamaged
from rtmw.recording import _mcap, records
from rtmw.recording.chunk_reader import check_facts, parse_head, scan_chunk
from rtmw.recording.contents import Attachment, Chunk
from rtmw.recording.damage import damaged
from rtmw.recording.extras import attachment_at, read_metadata
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.index import Index
from rtmw.recording.records import CHUNK_HEAD, CRC, HEAD, Opcode
from rtmw.recording.side import read_side
from rtmw.recording.times import clamped

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
        """Behind what has been entered."""
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
        """Of a file that has its end, although nothing leads there."""
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
        """At the end of what there is. A chunk of rtmw has its side record behind it, or is not there yet."""
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
