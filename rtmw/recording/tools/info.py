"""What is in a recording, from its index: no message is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtmw.recording.recording import Recording

if TYPE_CHECKING:
    from rtmw.recording.contents import Channel


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic of one type."""

    topic: str
    type: str
    """Name of the type or schema; `bytes` for raw bytes."""
    messages: int
    rate: float | None
    """Messages a second, over the whole recording; None: it has no length."""
    missing: dict[str, int]
    """Messages that were not recorded, by cause."""
    problem: str | None
    """Why its payloads cannot be decoded; None: they can."""


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """A recording at a glance. Times are wall clock nanoseconds."""

    path: Path
    size: int
    """Bytes of the file."""
    library: str
    """Who wrote it."""
    complete: bool
    incomplete_because: str
    messages: int
    start_ns: int
    end_ns: int
    chunks: int
    compression: str
    uncompressed: int
    """Bytes of all chunks."""
    topics: tuple[TopicInfo, ...]
    attachments: int
    host: str
    """Where it was recorded; "" if nobody says."""
    failed: str
    """How the disk failed, as its recorder says; "" if it does not."""

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def info(path: Path) -> RecordingInfo:
    """Raises RecordingError, OSError."""
    with Recording(path) as recording:
        about = _recorder(recording)
        seconds = (recording.end_ns - recording.start_ns) / 1e9
        return RecordingInfo(
            path,
            path.stat().st_size,
            recording.header.library,
            recording.complete,
            recording.incomplete_because,
            recording.message_count,
            recording.start_ns,
            recording.end_ns,
            len(recording.chunks),
            ", ".join(sorted({chunk.compression or "none" for chunk in recording.chunks})) or "none",
            sum(chunk.uncompressed_size for chunk in recording.chunks),
            tuple(_topic(recording, channel, seconds, about) for channel in _by_topic(recording)),
            len(recording.attachments),
            about.get("host", ""),
            about.get("failed", ""),
        )


def _recorder(recording: Recording) -> dict[str, str]:
    """What the recorder said of itself at the end; nothing where it could not."""
    for name, values in reversed(recording.metadata):
        if name == "rtmw.recorder":
            return values
    return {}


def _by_topic(recording: Recording) -> list[Channel]:
    return sorted(recording.channels.values(), key=lambda channel: (channel.topic, channel.id))


def _topic(recording: Recording, channel: Channel, seconds: float, about: dict[str, str]) -> TopicInfo:
    messages = sum(chunk.counts.get(channel.id, 0) for chunk in recording.chunks)
    schema, kind = recording.schemas.get(channel.schema_id), recording.message_type(channel)
    named = kind.name if kind is not None else schema.name if schema is not None else channel.message_encoding
    return TopicInfo(
        channel.topic,
        named,
        messages,
        messages / seconds if seconds else None,
        _missing(about, channel.topic),
        recording.type_problem(channel),
    )


def _missing(about: dict[str, str], topic: str) -> dict[str, int]:
    """As the recorder counted it at the end of the file."""
    try:
        counted = json.loads(about.get("topics", "{}")).get(topic, {})
        return {str(cause): int(count) for cause, count in counted.items() if cause != "messages" and count}
    except (ValueError, AttributeError, TypeError):
        return {}
