"""The whole records of a damaged file: record by record, and behind a damage on from the next chunk that is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from rtmw.errors import RecordingDamaged
from rtmw.recording.chunk_reader import ChunkMessages, parse_head, scan_chunk
from rtmw.recording.contents import Chunk
from rtmw.recording.damage import reason_of
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import CHUNK_HEAD, HEAD, MAGIC, Opcode, read_head

_CHUNK: Final = re.compile(
    rb"\x06.{6}\x00\x00.{28}(?:\x00\x00\x00\x00|\x03\x00\x00\x00lz4|\x04\x00\x00\x00zstd)", re.DOTALL
)
"""How a chunk begins, of less than 2^48 bytes."""
_WINDOW: Final = 4 << 20
_OVERLAP: Final = 64
_DEFINITIONS: Final = (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.METADATA, Opcode.ATTACHMENT)
_LATEST: Final = Opcode.DATA_END


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that is whole, or a run of messages outside of chunks."""

    chunk: Chunk
    scanned: ChunkMessages


@dataclass(frozen=True, slots=True)
class Definition:
    """A schema, channel, metadata record or attachment, outside of chunks."""

    opcode: int
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of which nothing can be made."""

    position: int
    size: int
    reason: str


class Salvage:
    """Goes through a file once; `is_at_end`: and met the end of its data."""

    def __init__(self, file: File, begin: int) -> None:
        self._file, self._at = file, begin
        self.is_at_end = False

    def __iter__(self) -> Iterator[Found | Definition | Gap]:
        while self._at < self._file.size and not self.is_at_end:
            yield from self._next()

    def _next(self) -> Iterator[Found | Definition | Gap]:
        at = self._at
        opcode, end, reason = self._frame(at)
        if reason:
            yield self._skip(at, reason)
        elif opcode != Opcode.CHUNK and self._swallows(at, end):
            yield self._skip(at, "a record whose length is wrong")
        elif opcode == Opcode.CHUNK:
            yield self._chunk(at, end)
        elif opcode == Opcode.MESSAGE:
            yield self._run(at)
        else:
            self._at = end
            if opcode in _DEFINITIONS:
                yield Definition(opcode, at, end - at)
            self.is_at_end = opcode in (Opcode.DATA_END, Opcode.FOOTER)

    def _frame(self, at: int) -> tuple[int, int, str]:
        """Opcode and end of the record that begins here, or why none does."""
        head = self._file.window(at, HEAD)
        if len(head) < HEAD:
            return 0, 0, "the file ends within a record"
        opcode, size = read_head(head)
        if not (Opcode.HEADER < opcode <= _LATEST or opcode == Opcode.SIDE):
            return 0, 0, f"here begins no record, but with {opcode:#04x}"
        if size > self._file.size - at - HEAD:
            return 0, 0, f"a record of {size} bytes, and the file ends after {self._file.size - at - HEAD}"
        return opcode, at + HEAD + size, ""

    def _chunk(self, at: int, end: int) -> Found | Gap:
        try:
            found = self._scan(at, end - at)
        except RecordingDamaged as error:
            if self._frame(end)[2] and end != self._file.size:
                return self._skip(at, reason_of(error))  # its length is wrong, too
            self._at = end
            return Gap(at, end - at, reason_of(error))
        self._at = found.chunk.side_position
        return found

    def _scan(self, at: int, length: int) -> Found:
        fields = Fields(self._file.path, self._file.window(at, CHUNK_HEAD)[HEAD:], at + HEAD, "chunk")
        chunk = parse_head(at, length, fields)
        scanned = scan_chunk(self._file, chunk)
        side = at + length
        while (frame := self._frame(side))[0] == Opcode.MESSAGE_INDEX:
            side = frame[1]
        return Found(replace(chunk, counts=scanned.counts, side_position=side), scanned)

    def _run(self, at: int) -> Found | Gap:
        """Messages one behind the other."""
        end = at
        while (frame := self._frame(end))[0] == Opcode.MESSAGE and end - at < _WINDOW:
            end = frame[1]
        run = Chunk(0, at, end - at, 0, 0, {}, "", end - at, end - at, is_run=True)
        self._at = end
        try:
            scanned = scan_chunk(self._file, run)
        except RecordingDamaged as error:
            return Gap(at, end - at, reason_of(error))
        return Found(replace(run, start_ns=scanned.start_ns, end_ns=scanned.end_ns, counts=scanned.counts), scanned)

    def _skip(self, at: int, reason: str) -> Gap:
        """Goes to the next chunk that is whole, or to the end of the file. Returns the gap."""
        self._at = next(self._whole_chunks(at + 1), self._file.size)
        tail = len(MAGIC) if self._at == self._file.size and self._ends_with_magic() else 0
        return Gap(at, self._at - at - tail, reason)

    def _swallows(self, at: int, end: int) -> bool:
        """Whether no record begins behind this one, and a whole chunk begins within it: its length is wrong then."""
        if end == self._file.size or not self._frame(end)[2]:
            return False
        return next(self._whole_chunks(at + 1), end) < end

    def _ends_with_magic(self) -> bool:
        return self._file.window(self._file.size - len(MAGIC), len(MAGIC)) == MAGIC

    def _whole_chunks(self, begin: int) -> Iterator[int]:
        for base in range(begin, self._file.size, _WINDOW - _OVERLAP):
            for match in _CHUNK.finditer(self._file.window(base, _WINDOW)):
                at = base + match.start()
                opcode, end, reason = self._frame(at)
                try:
                    if not reason and opcode == Opcode.CHUNK and self._scan(at, end - at):
                        yield at
                except RecordingDamaged:
                    continue
