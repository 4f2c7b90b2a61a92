"""What a recorder says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rtmw.recording.causes import Cause

__all__ = ["RecordedTopic", "RecorderStats"]


@dataclass(frozen=True)
class RecordedTopic:
    """A topic that is recorded."""

    name: str
    messages: int
    """Taken from it, also those that are not in the file yet."""
    bytes: int
    """Of these, without what the file adds."""
    missing: Mapping[Cause, int]
    """Messages that are not recorded, by cause; only causes that there were."""


@dataclass(frozen=True)
class RecorderStats:
    """A recorder, since it began."""

    topics: int
    messages: int
    """Taken from them."""
    bytes: int
    """Payload bytes of these."""
    written: int
    """Bytes in its files."""
    files: int
    missing: Mapping[Cause, int]
    """Messages that are not recorded, by cause; only causes that there were."""
    backlog: float
    """How much of its memory waits for the disk: 0 to 1, where messages are dropped."""
    clock_jumps: int
    """Times that the wall clock was set back."""
    is_paused: bool


def recorded_topic(name: str, row: tuple[int, ...]) -> RecordedTopic:
    """Of a row of the collector's counters."""
    messages, volume, *missing = row
    return RecordedTopic(name, messages, volume, {cause: n for cause, n in zip(Cause, missing, strict=True) if n})
