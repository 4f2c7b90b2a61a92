"""How long messages took from publish to take: percentiles of all of them, none left out, from a histogram.

The histogram lies in the region, one a subscriber (`rtmw/shm/histogram.h`); this is a copy of what it said at one time.
A time is known to 1/32 of itself, or to 4 ns; what is given is the upper end, so that it is never too good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
"""The percentiles that summaries show, beside the longest time."""


@dataclass(frozen=True)
class Latency:
    """Times from publish to take, counted."""

    buckets: tuple[tuple[int, int, int], ...] = ()
    """(shortest, longest, count): so many messages took between these nanoseconds; the quickest first."""

    @classmethod
    def of(cls, buckets: Iterable[tuple[int, int, int]]) -> Self:
        """The buckets that are not empty, in order."""
        return cls(tuple(sorted(bucket for bucket in buckets if bucket[2] > 0)))

    @property
    def count(self) -> int:
        """Messages."""
        return sum(count for _, _, count in self.buckets)

    @property
    def shortest(self) -> float | None:
        """Seconds of the quickest, rounded down; None without messages."""
        return self.buckets[0][0] / 1e9 if self.buckets else None

    @property
    def longest(self) -> float | None:
        """Seconds of the slowest; None without messages."""
        return self.percentile(100.0)

    @property
    def mean(self) -> float | None:
        """Seconds on average; None without messages."""
        total = sum((low + high) / 2 * count for low, high, count in self.buckets)
        return total / self.count / 1e9 if self.buckets else None

    def percentile(self, percent: float) -> float | None:
        """Seconds within which so many of a hundred messages were taken; None without messages."""
        if not 0 <= percent <= 100:
            raise ValueError(f"there is no percentile {percent!r}; they go from 0 to 100")
        wanted, seen = self.count * percent / 100, 0
        for _, high, count in self.buckets:
            seen += count
            if seen >= wanted:
                return high / 1e9
        return None

    def since(self, earlier: Latency) -> Latency:
        """The messages after an earlier reading of the same subscriber."""
        before = {low: count for low, _, count in earlier.buckets}
        return Latency.of((low, high, count - before.get(low, 0)) for low, high, count in self.buckets)

    def __add__(self, other: Latency) -> Latency:
        """Returns the distribution of the messages of both."""
        counts = Counter[tuple[int, int]]()
        for low, high, count in (*self.buckets, *other.buckets):
            counts[low, high] += count
        return Latency.of((low, high, count) for (low, high), count in counts.items())

    def summary(self) -> dict[str, int | float | None]:
        """Count, percentiles and longest in seconds, for tables and JSON."""
        names = {f"p{percent:g}": self.percentile(percent) for percent in PERCENTILES}
        return {"count": self.count, **names, "max": self.longest}
