"""When a row is due: recorded time, moved to now and divided by the rate."""

from __future__ import annotations

from dataclasses import dataclass

from rtmw.clock import CLOCK, Clock


@dataclass
class Pace:
    """Times of one recording against this host's clock."""

    rate: float
    """0: everything is due at once."""
    epoch_ns: int | None = None
    """Recorded time of the first message; None: that of the first row that is waited for."""
    start_ns: int = 0
    """CLOCK_MONOTONIC at which that one is due; only with `epoch_ns`."""
    worst_late_ns: int = 0
    clock: Clock = CLOCK

    def wait(self, recorded_ns: int) -> None:
        """Sleep until a row of this recorded time is due. Late rows follow at once."""
        if not self.rate:
            return
        now = self.clock.monotonic_ns()
        if self.epoch_ns is None:
            self.epoch_ns, self.start_ns = recorded_ns, now
        left = self.start_ns + int((recorded_ns - self.epoch_ns) / self.rate) - now
        if left > 0:
            self.clock.sleep(left / 1e9)
        else:
            self.worst_late_ns = max(self.worst_late_ns, -left)
