"""The statistics of a recorder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rtmw.notebook import ShownByFields
from rtmw.recorder.uploads import UploadStats
from rtmw.recording.causes import Cause

__all__ = ["RecordedTopic", "RecorderStats"]


@dataclass(frozen=True)
class RecordedTopic:
    """A topic that is recorded."""

    name: str
    messages: int
    """Taken from it, also those that are not in the file yet; without those that the disk will not take any more."""
    bytes: int
    """Of all that were taken, without what the file adds."""
    missing: Mapping[Cause, int]
    """Messages that are not recorded, by cause; only causes that there were."""


@dataclass(frozen=True)
class RecorderStats(ShownByFields):
    """A recorder, since it began."""

    topics: int
    messages: int
    """Taken from them; when the disk has failed, those that are written."""
    bytes: int
    """Payload bytes of all that were taken."""
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
    written_messages: int = 0
    """In its files. Fewer than were taken while some are on their way, and for good of what no snapshot has kept."""
    uploads: UploadStats | None = None
    """None: no place was named to which files go."""


def recorded_topic(name: str, row: tuple[int, ...], unwritten: int) -> RecordedTopic:
    """Of a row of the collector's counters; `unwritten`: how many of the messages the disk did not take."""
    messages, volume, *missing = row
    causes = zip(Cause, (*missing, unwritten), strict=True)
    return RecordedTopic(name, messages - unwritten, volume, {cause: count for cause, count in causes if count})
