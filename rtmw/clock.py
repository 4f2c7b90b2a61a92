"""The clocks of this host. Whatever decides by time is given a `Clock`, and tests give it one that they move.

C reads clocks in one header, too (rtmw/shm/clock.h).
"""

from __future__ import annotations

import time
from typing import Final

__all__ = ["CLOCK", "Clock"]


class Clock:
    """Any thread; only `sleep` blocks."""

    def monotonic(self) -> float:
        """Seconds, to measure and to wait by: nobody sets this clock."""
        return time.monotonic()

    def monotonic_ns(self) -> int:
        """Returns the time of `monotonic` in nanoseconds, as the bus and its files have it."""
        return time.monotonic_ns()

    def wall(self) -> float:
        """Seconds since 1970, as people and other hosts read them. May go back."""
        return time.time()

    def wall_ns(self) -> int:
        """Returns the time of `wall` in nanoseconds."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Blocks for so long, by the monotonic clock."""
        time.sleep(seconds)


CLOCK: Final = Clock()
"""This host's."""
