"""From recordings into a new one: schemas and channels under new numbers, messages in bulk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw.recording.batch import Batch
from rtmw.recording.contents import Channel, Schema
from rtmw.recording.definitions import Definitions
from rtmw.recording.writer import RecordingWriter

if TYPE_CHECKING:
    from rtmw.recording.recording import Recording

Progress = Callable[[int, int], None]
"""Told now and then: so much is done, of so much."""


def no_progress(_done: int, _all: int) -> None:
    """Where nobody looks."""


class Copier:
    """Writes what others hold."""

    def __init__(self, writer: RecordingWriter) -> None:
        self.writer = writer
        self.messages = 0

    def define(self, schemas: Mapping[int, Schema], channels: Mapping[int, Channel]) -> dict[int, int]:
        """Enters channels with their schemas; from their numbers to the new ones."""
        return {number: self._channel(schemas, channel) for number, channel in channels.items()}

    def _channel(self, schemas: Mapping[int, Schema], channel: Channel) -> int:
        schema = schemas.get(channel.schema_id)
        number = self.writer.schema(schema.name, schema.encoding, schema.data) if schema else 0
        return self.writer.channel(channel.topic, number, channel.message_encoding, channel.metadata)

    def add(self, batch: Batch, numbers: Mapping[int, int]) -> None:
        """Messages, and what the recorder missed before them, of channels that have a number."""
        rows: Any = batch
        if len(batch):
            self.writer.write_batch(rows, numbers)
            self.messages += len(batch)
        for missed in batch.missed:
            if missed.channel in numbers:
                self.writer.missed(numbers[missed.channel], missed.cause, missed.count)

    def add_metadata(self, recording: Recording) -> None:
        """All of its metadata records."""
        for name, values in recording.metadata:
            self.writer.metadata(name, values)


def writer_like(path: Path, recordings: Sequence[Recording]) -> RecordingWriter:
    """For a new recording: compressed as the first chunk of the first one, and of the profile that all have."""
    chunks = (chunk.compression for chunk in recordings[0].chunks if not chunk.is_run)
    (profile, *others) = {recording.header.profile for recording in recordings}
    definitions = Definitions("" if others else profile)
    return RecordingWriter(path, compression=next(chunks, "lz4") or "none", definitions=definitions)
