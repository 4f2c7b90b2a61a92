"""The index of a recording: where its chunks lie, and what they are about."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rtmw.recording import records
from rtmw.recording.chunk_reader import ChunkMessages
from rtmw.recording.contents import Attachment, Channel, Chunk, Schema
from rtmw.recording.fields import Fields
from rtmw.recording.records import Opcode


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
