"""Why a message is not in a recording."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Cause"]


class Cause(IntEnum):
    """Why a message is missing, by the numbers that side records have."""

    MISSED = 1
    """The topic's queue or the pool was full before the recorder came to it."""
    EXPIRED = 2
    """The message's lifetime was over."""
    UNKNOWN_TYPE = 3
    """The recording has as many channels as the format can tell apart."""
    OVERFLOWED = 4
    """The disk was slower than the topics, and the recorder's memory was full."""
    PAUSED = 5
    """The recorder was told to pause."""
    EARLY = 6
    """Published on a new topic before the recorder had found it."""
    UNWRITTEN = 7
    """Taken, but not in a file: the disk failed."""
