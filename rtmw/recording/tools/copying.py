"""From recordings into a new one: schemas and channels under new numbers, messages in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw.recording.batch import Batch, placed
from rtmw.recording.contents import Attachment, Channel, Schema
from rtmw.recording.definitions import Definitions
from rtmw.recording.writer import RecordingWriter

if TYPE_CHECKING:
    from rtmw.recording.recording import Recording

Progress = Callable[[int, int], None]
"""Told now and then: so much is done, of so much."""


def no_progress(_done: int, _all: int) -> None:
    """A progress that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Written:
    """The messages and attachments that a new recording has of its sources."""

    messages: int
    attachments: int = 0
    attachments_left_out: int = 0
    """Logged outside of the time that was asked for."""
    carried: int = 0
    """Messages from before that time, that late subscribers would have got at its begin."""

    @property
    def is_empty(self) -> bool:
        return not self.messages + self.attachments + self.carried


class Copier:
    """Writes what others hold."""

    def __init__(self, writer: RecordingWriter) -> None:
        self.writer = writer
        self._latest_ns = 0
        """Log time of what was written."""
        self.messages = self.attachments = self.attachments_left_out = self.carried = 0

    def written(self) -> Written:
        """All until now."""
        return Written(self.messages, self.attachments, self.attachments_left_out, self.carried)

    def define(self, schemas: Mapping[int, Schema], channels: Mapping[int, Channel]) -> dict[int, int]:
        """Enters channels with their schemas; from their numbers to the new ones."""
        return {number: self._channel(schemas, channel) for number, channel in channels.items()}

    def _channel(self, schemas: Mapping[int, Schema], channel: Channel) -> int:
        schema = schemas.get(channel.schema_id)
        number = self.writer.schema(schema.name, schema.encoding, schema.data) if schema else 0
        return self.writer.channel(channel.topic, number, channel.message_encoding, channel.metadata)

    def add(self, batch: Batch, numbers: Mapping[int, int]) -> None:
        """Messages, and what the recorder missed before them, of channels that have a number."""
        if len(batch):
            rows: Any = placed(batch, self._latest_ns)
            self._latest_ns = max(self._latest_ns, int(rows.log_time.max()))
            self.writer.write_batch(rows, numbers)
            self.messages += len(batch)
        for missed in batch.missed:
            if missed.channel in numbers:
                self.writer.missed(numbers[missed.channel], missed.cause, missed.count)

    def carry(self, batches: Iterable[Batch], numbers: Mapping[int, int]) -> None:
        """Add the messages that were latched before the first message."""
        before = self.messages
        for batch in batches:
            self.add(batch, numbers)
        self.carried += self.messages - before

    def add_attachments(self, recording: Recording, start_ns: int | None = None, end_ns: int | None = None) -> None:
        """Copies attachments with start_ns <= log time < end_ns. Raises RecordingDamaged for one that does not match
        its CRC."""
        for about in recording.attachments:
            is_late = end_ns is not None and about.log_time >= end_ns
            if is_late or (start_ns is not None and about.log_time < start_ns):
                self.attachments_left_out += 1
            else:
                self.add_attachment(about, recording.attachment(about))

    def add_attachment(self, about: Attachment, data: bytes) -> None:
        times = {"log_time": about.log_time, "create_time": about.create_time}
        self.writer.attachment(about.name, data, media_type=about.media_type, **times)
        self.attachments += 1

    def add_metadata(self, recording: Recording) -> None:
        """All of its metadata records."""
        for name, values in recording.metadata:
            self.writer.metadata(name, values)


def writer_like(path: Path, recordings: Sequence[Recording], compression: str | None = None) -> RecordingWriter:
    """Returns a writer for a new recording, with the profile that all have. `compression` None: as in the first
    chunk of the first recording."""
    chunks = (chunk.compression for chunk in recordings[0].chunks if not chunk.is_run)
    (profile, *others) = {recording.header.profile for recording in recordings}
    definitions = Definitions("" if others else profile)
    return RecordingWriter(path, compression=compression or next(chunks, "lz4") or "none", definitions=definitions)
