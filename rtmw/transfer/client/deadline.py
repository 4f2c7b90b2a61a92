"""Until when a call waits: one deadline for all of its waits, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rtmw.clock import CLOCK
from rtmw.qos import limited

if TYPE_CHECKING:
    from rtmw.transfer.client.transfer import Transfer
    from rtmw.transfer.header import Level

__all__ = ["NEVER", "Deadline"]


class Deadline:
    """`timeout`: seconds from now on; None or math.inf: no limit."""

    __slots__ = ("_end", "timeout")

    def __init__(self, timeout: float | None) -> None:
        self.timeout = limited(timeout)
        self._end = None if self.timeout is None else CLOCK.monotonic() + self.timeout

    @property
    def left(self) -> float | None:
        """Seconds, from 0 on; None: no limit."""
        return None if self._end is None else max(0.0, self._end - CLOCK.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left == 0.0

    def ends_before(self, other: Deadline) -> bool:
        return self._end is not None and (other._end is None or self._end < other._end)

    # ---- what a call raises when it is over ----

    def no_room(self) -> TimeoutError:
        return TimeoutError(f"the core has not answered what was sent before within {self.timeout} s; nothing was sent")

    def goes_on(self, transfer: Transfer, level: Level) -> TimeoutError:
        return TimeoutError(f"{transfer!r} has not become {level.name} within {self.timeout} s; it goes on")


NEVER: Final = Deadline(None)
