"""Times of recordings: nanoseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

UNSET_NS: Final = (1 << 63) - 1
"""Stands for a time from 2^63 on, which no clock shows: the writer did not set it. It is the latest time."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def known(time: int) -> int:
    """A time as it lies in a file, or UNSET_NS."""
    return min(time, UNSET_NS)


def nanoseconds(time: datetime) -> int:
    """Since 1970; a time without a zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
