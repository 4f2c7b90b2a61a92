"""The parts of a recording, as its index knows them, and why a message is not in it. Times are wall clock nanoseconds
since 1970; positions are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final

UNSET_NS: Final = (1 << 63) - 1
"""Stands for a time from 2^63 on, which no clock shows: the writer did not set it. It is the latest time."""

Time = datetime | str | int
"""A datetime, a text such as 2026-11-22T08:30:00.5 (both of UTC, if they do not say), or nanoseconds since 1970."""

Moment = float | datetime
"""Seconds since a recording began, or date and time, which is UTC if it does not say."""

EXPECTED: Final = "a time such as 2026-11-22T08:30:00.5, or nanoseconds since 1970"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def clamped(time: int) -> int:
    """A time as it lies in a file, at most UNSET_NS."""
    return min(time, UNSET_NS)


def nanoseconds(time: datetime) -> int:
    """Since 1970; a time without a zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000


def moment_ns(moment: Moment, begin_ns: int) -> int:
    """Nanoseconds since 1970, of a recording that began then. Raises ValueError for less than no seconds."""
    if isinstance(moment, datetime):
        return nanoseconds(moment)
    if not 0 <= moment < 1e9:
        raise ValueError(f"{moment!r} is no moment of a recording: seconds since it began, from 0, or a datetime")
    return begin_ns + round(moment * 1e9)


def moment_said(moment: Moment) -> str:
    """In words: 90 s, or a date and time of UTC."""
    if not isinstance(moment, datetime):
        return f"{moment:g} s"
    utc = moment.astimezone(UTC) if moment.tzinfo else moment
    return utc.replace(tzinfo=None).isoformat(" ")


def time_ns(time: Time) -> int:
    """Nanoseconds since 1970. Raises ValueError, which says what was expected."""
    if isinstance(time, datetime):
        return nanoseconds(time)
    if isinstance(time, str) and not time.isdecimal():
        try:
            return nanoseconds(datetime.fromisoformat(time))
        except ValueError:
            raise ValueError(EXPECTED) from None
    if isinstance(time, (bool, float)):  # seconds since it began, as in a replay? They would be nanoseconds here
        raise ValueError(EXPECTED)
    return int(time)


TYPE_KEY: Final = "rtmw.type"
"""Key of a channel's metadata: its value is the description of the type as it lies in the region, as base64."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of the payloads of a channel."""

    id: int
    name: str
    encoding: str
    """`omgidl`, `rtmw` (a numpy type), and in recordings of others `ros2msg`, `ros2idl`, `jsonschema`, …"""
    data: bytes


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic of one type. A topic whose type changed has several."""

    id: int
    topic: str
    schema_id: int
    """0: no schema."""
    message_encoding: str
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the file that is read at once: a chunk of MCAP, or a run of messages outside of chunks."""

    number: int
    """0, 1, … in the order of the file."""
    position: int
    """Position in the file."""
    length: int
    """Bytes in the file of the record, with its opcode and length, or of the run."""
    start_ns: int
    """Earliest log time, 0 if there is no message. Chunks may overlap in time."""
    end_ns: int
    """Latest log time; UNSET_NS if a message has none."""
    counts: Mapping[int, int]
    """Messages by channel id."""
    compression: str
    """`lz4`, `zstd`, or "" for none."""
    size: int
    """Bytes of the records as they lie in the file."""
    uncompressed_size: int
    side_position: int = 0
    """Where its side record lies, if it has one."""
    is_run: bool = False
    """Messages outside of chunks: no CRC protects them."""

    @property
    def message_count(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside the recording; its data is read by `Recording.attachment`."""

    name: str
    media_type: str
    log_time: int
    create_time: int
    size: int
    position: int
    """Position of its record in the file."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Messages that the recorder did not get."""

    channel: int
    cause: int
    """A `Cause`."""
    count: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message, for small uses: `Recording.messages`."""

    channel: Channel
    sequence: int
    log_time: int
    """When the recorder took it."""
    publish_time: int
    """When it was published."""
    payload: bytes
    priority: int
    publisher: int
    """Identity of who published it; 0: unknown."""
    expires: int
    """When its lifetime ends; 0: never."""
    flags: int
    """1: carried over from an earlier file, or part of it, so that this one has the last value too."""


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
