"""A complete recording from one that was cut, or is damaged: all that is whole, and exactly what was lost.

A damaged file is read record by record, and behind a damage on from the next chunk that is whole.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from rtmw.errors import RecordingDamaged, RecordingError
from rtmw.recording.batch import Batch, ChunkMessages, Side, batch_of, parse_head, read_side, scan_chunk
from rtmw.recording.contents import Attachment, Chunk
from rtmw.recording.files import File, open_file, read_header
from rtmw.recording.index import Index, attachment_at, is_finished, read_attachment, read_metadata, read_summary
from rtmw.recording.places import written_whole
from rtmw.recording.records import CHUNK_HEAD, HEAD, MAGIC, Fields, Opcode, read_head, reason_of
from rtmw.recording.tools.copying import Copier, Progress, no_progress
from rtmw.recording.writer import Definitions, RecordingWriter

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


@dataclass(frozen=True, slots=True)
class Lost:
    """A part of the file that could not be saved."""

    position: int
    size: int
    """Bytes."""
    reason: str
    messages: Mapping[str, int] | None
    """Messages by topic; None: nobody knows, for no index tells."""


@dataclass(slots=True)
class Recovered:
    """The outcome of a recovery."""

    source: Path
    target: Path
    messages: int = 0
    chunks: int = 0
    attachments: int = 0
    lost: list[Lost] = field(default_factory=list[Lost])
    without_side: int = 0
    """Messages without their priority, publisher and lifetime: their side record was damaged."""
    was_complete: bool = False
    """Nothing was missing, and nothing had to be done."""


def recover(source: Path, target: Path | None, progress: Progress = no_progress) -> Recovered:
    """Writes what is whole as a complete recording; the source is not touched, unless `target` is None.

    Raises FileExistsError, RecordingError for what is no recording, OSError.
    """
    recovered = Recovered(source, target or source)
    with ExitStack() as opened:
        file = opened.enter_context(closing(open_file(source)))
        opened.enter_context(suppress(_NothingToDo))
        temporary = opened.enter_context(written_whole(recovered.target, replace=target is None))
        _Recovery(file, recovered, progress).write(temporary)
        if target is None and recovered.was_complete:
            raise _NothingToDo
        shutil.copymode(source, temporary)
    return recovered


class _NothingToDo(Exception):
    """A whole recording stays as it is."""


class _Recovery:
    def __init__(self, file: File, recovered: Recovered, progress: Progress) -> None:
        self._file, self._recovered, self._progress = file, recovered, progress
        self._begin, self._is_ours, self._profile = _beginning(file)
        self._index = Index(file.path, self._is_ours)
        self._told: dict[int, Mapping[int, int]] = {}
        """The counts by channel of the chunk at each position, from the summary."""
        self._metadata: list[tuple[str, dict[str, str]]] = []
        self._attachments: list[Attachment] = []
        self._copier: Copier | None = None

    def write(self, path: Path) -> None:
        try:
            self._write(path)
        finally:
            if self._copier is not None:
                self._copier.writer.close()

    def _write(self, path: Path) -> None:
        has_summary = self._read_summary()
        salvage = Salvage(self._file, self._begin)
        for part in salvage:
            match part:
                case Found():
                    self._keep(part, path)
                case Definition():
                    self._define(part)
                case Gap():
                    self._lose(part)
            self._progress(part.chunk.position if isinstance(part, Found) else part.position, self._file.size)
        self._recovered.was_complete = has_summary and salvage.is_at_end and not self._recovered.lost
        copier = self._writer(path, "lz4")
        for about in self._attachments:
            copier.add_attachment(about, read_attachment(self._file, about))
        self._recovered.attachments = copier.attachments
        writer = copier.writer
        for name, values in self._metadata:
            writer.metadata(name, values)
        lost = [{"position": lost.position, "size": lost.size, "reason": lost.reason} for lost in self._recovered.lost]
        writer.metadata("rtmw.recovered", {"from": self._file.path.name, "lost": json.dumps(lost)})

    def _writer(self, path: Path, compression: str) -> Copier:
        if self._copier is None:
            definitions = Definitions(self._profile)
            self._copier = Copier(RecordingWriter(path, compression=compression or "none", definitions=definitions))
        return self._copier

    def _read_summary(self) -> bool:
        """Reads the summary, which repeats schemas and channels, and says what the chunks had that cannot be read
        any more. False: there is none that can be read."""
        try:
            summary = read_summary(self._file) if is_finished(self._file) else None
        except RecordingDamaged:
            return False
        if summary is None:
            return False
        self._index.schemas.update(summary.index.schemas)
        self._index.channels.update(summary.index.channels)
        self._told = {chunk.position: chunk.counts for chunk in summary.index.chunks}
        return True

    def _keep(self, found: Found, path: Path) -> None:
        try:
            self._index.define_from(found.scanned, found.chunk)
        except RecordingDamaged as error:
            self._lose(Gap(found.chunk.position, found.chunk.length, reason_of(error)))
            return
        batch = self._known(self._batch(found))
        copier = self._writer(path, found.chunk.compression)
        numbers = copier.define(self._index.schemas, self._index.channels)
        copier.add(batch, numbers)
        copier.writer.flush()
        self._recovered.chunks += 1
        self._recovered.messages += len(batch)

    def _batch(self, found: Found) -> Batch:
        rows = len(found.scanned)
        try:
            side = read_side(self._file, found.chunk, rows, self._is_ours and not found.chunk.is_run)
        except RecordingDamaged as error:
            self._recovered.without_side += rows
            self._recovered.lost.append(Lost(found.chunk.side_position, 0, reason_of(error), {}))
            side = Side(rows, None)
        return batch_of(found.chunk, found.scanned, side)

    def _known(self, batch: Batch) -> Batch:
        """Returns the batch without messages of channels whose definition was lost."""
        unknown = {n: count for n, count in batch.chunk.counts.items() if n not in self._index.channels}
        if not unknown:
            return batch
        reason = "the definition of their channel is lost"
        self._recovered.lost.append(
            Lost(batch.chunk.position, 0, reason, {f"channel {n}": count for n, count in unknown.items()})
        )
        return batch.where(~np.isin(batch.channel, list(unknown)))

    def _define(self, part: Definition) -> None:
        try:
            if part.opcode == Opcode.METADATA:
                self._metadata.append(read_metadata(self._file, part.position, part.length, self._is_ours))
            elif part.opcode == Opcode.ATTACHMENT:
                found = attachment_at(self._file, part.position, part.length)
                read_attachment(self._file, found)  # so that it is lost here, if it is damaged
                self._attachments.append(found)
            else:
                content = self._file.read(part.position + HEAD, part.length - HEAD)
                self._index.define(part.opcode, content, part.position + HEAD)
        except RecordingDamaged as error:
            self._recovered.lost.append(Lost(part.position, part.length, reason_of(error), {}))

    def _lose(self, gap: Gap) -> None:
        if gap.size <= 0:
            return
        counts = [c for at, c in self._told.items() if gap.position <= at < gap.position + gap.size]
        told: dict[str, int] | None = {} if self._told else None
        for count in counts:
            for number, messages in count.items():
                channel = self._index.channels.get(number)
                topic = channel.topic if channel else f"channel {number}"
                told = told or {}
                told[topic] = told.get(topic, 0) + messages
        self._recovered.lost.append(Lost(gap.position, gap.size, gap.reason, told))


def _beginning(file: File) -> tuple[int, bool, str]:
    """Where the data begins, whether rtmw wrote it, and its profile. Raises RecordingError for what is no recording."""
    try:
        header = read_header(file)
        return header.end, header.is_ours, header.profile
    except RecordingDamaged:
        return len(MAGIC), True, ""
    except RecordingError:
        if file.size > len(MAGIC) and file.window(file.size - len(MAGIC), len(MAGIC)) == MAGIC:
            return len(MAGIC), True, ""  # only its beginning is damaged
        raise
