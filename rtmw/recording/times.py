"""Times of recordings: nanoseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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
