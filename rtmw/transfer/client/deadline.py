"""Until when a call waits: one deadline for all of its waits, one after the other."""

from __future__ import annotations

from rtmw.clock import CLOCK

__all__ = ["Deadline"]


class Deadline:
    """`timeout`: seconds from now on; None: no limit."""

    __slots__ = ("_end", "timeout")

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self._end = None if timeout is None else CLOCK.monotonic() + timeout

    @property
    def left(self) -> float | None:
        """Seconds, from 0 on; None: no limit."""
        return None if self._end is None else max(0.0, self._end - CLOCK.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left == 0.0
