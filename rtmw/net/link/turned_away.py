"""Connections that came here and to no link: of each address the last one, for `rtmw node doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rtmw.clock import CLOCK, Clock

ADDRESSES_MOST: Final = 100
"""That are remembered; beyond, the one that came longest ago is forgotten."""
SHOWN_MOST: Final = 5
RECENT_S: Final = 60.0
"""A peer that is refused tries it again at least so often."""


@dataclass(frozen=True, slots=True)
class _Last:
    cause: str
    why: str
    at: float
    """Of the monotonic clock, in seconds."""
    count: int


class TurnedAway:
    """Not for several threads."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._last: dict[str, _Last] = {}
        """By address; the one that came last stands last."""

    def note(self, address: str, cause: str, why: str) -> None:
        before = self._last.pop(address, None)
        self._last[address] = _Last(cause, why, self._clock.monotonic(), before.count + 1 if before else 1)
        if len(self._last) > ADDRESSES_MOST:
            del self._last[next(iter(self._last))]

    def forget(self, address: str) -> None:
        """A link has come from there."""
        self._last.pop(address, None)

    def recent(self) -> list[dict[str, Any]]:
        """Those of the last minute, the newest first."""
        now = self._clock.monotonic()
        return [
            {"address": address, "cause": one.cause, "why": one.why, "count": one.count, "ago_s": now - one.at}
            for address, one in reversed(self._last.items())
            if now - one.at <= RECENT_S
        ][:SHOWN_MOST]
