"""Nanoseconds in Spark's columns, as SQL: whole numbers, so that no result depends on the order of rows."""

from __future__ import annotations

from typing import Final

NS: Final = 1_000_000_000
LOGGED: Final = "log_time_ns"
PUBLISHED: Final = "publish_time_ns"


def nanoseconds(seconds: float) -> int:
    """Raises ValueError for what is no length of time."""
    found = round(seconds * NS)
    if found <= 0:
        raise ValueError(f"{seconds!r} s is no length of time")
    return found


def timestamp(ns: str) -> str:
    """The time of nanoseconds since 1970, cut to microseconds, which is what Spark's times have."""
    return f"timestamp_micros(({ns}) div 1000)"


def interval(ns: str, every: float) -> str:
    """Where the interval of so many seconds begins that a time falls into; intervals are counted from 1970."""
    length = nanoseconds(every)
    return f"(({ns}) - pmod({ns}, {length}L))"


def quantile(column: str, share: float, unit_ns: float = 1.0) -> str:
    """The nearest-rank quantile of a group: the smallest value that the share of all values does not exceed."""
    return f"percentile_disc({share}) WITHIN GROUP (ORDER BY {column}) / {unit_ns!r}D"
