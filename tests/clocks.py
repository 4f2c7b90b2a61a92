"""A clock that stands until the test moves it."""

from __future__ import annotations

from rtmw.clock import Clock


class Moved(Clock):
    """Both clocks begin at one time, and pass together; `set` moves the wall clock alone."""

    def __init__(self, now_s: float = 1_000_000.0) -> None:
        self._now_ns, self._set_ns = int(now_s * 1e9), 0

    def pass_by(self, seconds: float) -> None:
        self._now_ns += int(seconds * 1e9)

    def set(self, seconds: float) -> None:
        """The wall clock, so much ahead; below 0: back."""
        self._set_ns += int(seconds * 1e9)

    def sleep(self, seconds: float) -> None:
        self.pass_by(seconds)

    def monotonic(self) -> float:
        return self._now_ns / 1e9

    def monotonic_ns(self) -> int:
        return self._now_ns

    def wall(self) -> float:
        return self.wall_ns() / 1e9

    def wall_ns(self) -> int:
        return self._now_ns + self._set_ns
