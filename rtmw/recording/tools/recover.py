"""A complete recording from one that was cut, or is damaged: all that is whole, and exactly what was lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rtmw.errors import RecordingDamaged, RecordingError
from rtmw.recording.batch import Batch, batch_of
from rtmw.recording.contents import Attachment
from rtmw.recording.damage import reason_of
from rtmw.recording.definitions import Definitions
from rtmw.recording.extras import attachment_at, read_attachment, read_metadata
from rtmw.recording.file import File
from rtmw.recording.header import read_header
from rtmw.recording.index import Index, is_finished, read_summary
from rtmw.recording.records import HEAD, MAGIC, Opcode
from rtmw.recording.remote_file import open_file
from rtmw.recording.side import Side, read_side
from rtmw.recording.tools.copying import Copier, Progress, no_progress
from rtmw.recording.tools.salvage import Definition, Found, Gap, Salvage
from rtmw.recording.tools.whole import written_whole
from rtmw.recording.writer import RecordingWriter


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
