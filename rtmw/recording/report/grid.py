"""The span of a report, and the even intervals of its plots. Nanoseconds are whole numbers since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NS: Final = 1_000_000_000
POINTS: Final = 120
"""Intervals that a plot has about, if nobody says how long one is."""
MOST_POINTS: Final = 5000
STEPS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
                1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)  # fmt: skip
"""Seconds of an interval that people find even."""


@dataclass(frozen=True)
class Grid:
    """From when to when was recorded, and how long an interval is. Intervals are counted from 1970."""

    since_ns: int
    until_ns: int
    """The last moment of the recording; the interval that has it is the last one."""
    every_ns: int
    deadline_ns: int | None = None
    """How long after a message the next one is expected; None: nobody said."""

    @property
    def first(self) -> int:
        """Number of the first interval."""
        return self.since_ns // self.every_ns

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return self.until_ns // self.every_ns - self.first + 1

    @property
    def seconds(self) -> float:
        return (self.until_ns - self.since_ns) / NS

    def begin_ns(self, number: int) -> int:
        """When the interval of this number, from 0, begins."""
        return (self.first + number) * self.every_ns

    def is_partial(self, number: int) -> bool:
        """Did the recording begin or end within the interval?"""
        begin = self.begin_ns(number)
        return begin < self.since_ns or begin + self.every_ns > self.until_ns


@dataclass(frozen=True)
class Run:
    """From when to when one recorder recorded, into one file or several."""

    since_ns: int
    until_ns: int
    known: frozenset[str] = frozenset()
    """Topics that were there, or were named, when it began: silence before their first message counts."""
    topics: frozenset[str] = frozenset()
    """Topics that it knew at its end: silence behind their last message counts."""


def grid_of(since_ns: int, until_ns: int, every: float | None, deadline: float | None) -> Grid:
    """`every` and `deadline` in seconds. Raises ValueError for intervals so short that there would be too many."""
    seconds = max(until_ns - since_ns, 0) / NS
    if every is not None and seconds / every > MOST_POINTS:
        raise ValueError(
            f"{seconds:.3f} s in intervals of {every:g} s are too many for a plot; "
            f"take {even(seconds / MOST_POINTS):g} s or more"
        )
    chosen = even(seconds / POINTS) if every is None else every
    return Grid(
        since_ns, max(until_ns, since_ns), round(chosen * NS), None if deadline is None else round(deadline * NS)
    )


def even(seconds: float) -> float:
    """The interval that people find even, of at least so many seconds."""
    return next((float(step) for step in STEPS if step >= seconds), float(STEPS[-1]))
