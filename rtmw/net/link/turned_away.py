"""Connections that came here and to no link, by address and cause, for `rtmw node doctor`."""

from __future__ import annotations

from collections import Counter
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
    counts: Counter[str]
    """Connections from there since it had a link, by cause."""


class TurnedAway:
    """Not for several threads."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._last: dict[str, _Last] = {}
        """By address; the one that came last stands last."""

    def note(self, address: str, cause: str, why: str) -> None:
        before = self._last.pop(address, None)
        counts = before.counts if before else Counter[str]()
        counts[cause] += 1
        self._last[address] = _Last(cause, why, self._clock.monotonic(), counts)
        if len(self._last) > ADDRESSES_MOST:
            del self._last[next(iter(self._last))]

    def forget(self, address: str) -> None:
        """A link has come from there."""
        self._last.pop(address, None)

    def recent(self) -> list[dict[str, Any]]:
        """Those of the last minute, the newest first."""
        now = self._clock.monotonic()
        return [
            {
                "address": address,
                "cause": one.cause,
                "why": one.why,
                "count": one.counts.total(),
                "causes": dict(one.counts),
                "ago_s": now - one.at,
            }
            for address, one in reversed(self._last.items())
            if now - one.at <= RECENT_S
        ][:SHOWN_MOST]
