"""The routes of a link, as this end has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rtmw.net.link.library import Route
from rtmw.net.link.matching import Lane
from rtmw.net.link.messages import Open
from rtmw.net.security.rules import Verdict
from rtmw.qos import Reliability

DROPPED: Final = ("lost", "expired", "malformed", "no_memory", "old", "priority", "size", "rate")
"""The ways in which a message of an inbound route ends, beside `received`."""


@dataclass
class Out:
    """A route by which this node sends."""

    lane: Lane
    type_name: str
    route: Route
    verdict: Verdict
    """Its ceilings hold for what is sent."""
    kept: tuple[int, int]
    """Depth and minimum interval."""
    leave_by: float = 0.0
    """CLOCK_MONOTONIC, when it is closed at the latest; 0: it is to stay."""
    unsent: tuple[int, int] = (0, 0)
    """Messages that had expired or were thinned, as the peer was told last."""
    park_ns: int = 0
    """Messages that it has not taken from the bus by then are kept for the next route, for so long."""

    def unsent_since(self) -> tuple[int, int]:
        """How many more there are than when this was asked last."""
        before, self.unsent = self.unsent, self.route.passed()
        return self.unsent[0] - before[0], self.unsent[1] - before[1]

    @property
    def topic(self) -> str:
        return self.lane.topic

    @property
    def reliability(self) -> Reliability:
        return self.lane.reliability


@dataclass
class In:
    """A route by which the peer sends."""

    open: Open
    lane: Lane
    type_name: str
    route: Route
    sent: int | None = None
    """How many messages the peer has sent by it, once it sends no more."""
    close_by: float = 0.0

    @property
    def topic(self) -> str:
        return self.open.topic

    @property
    def reliability(self) -> Reliability:
        return self.open.reliability

    def is_drained(self) -> bool:
        """All that was sent has come, or is known not to."""
        counted = self.route.counters()
        come = counted["received"] + sum(counted.get(cause, 0) for cause in DROPPED)
        return self.sent is not None and come >= self.sent and self.route.delivered()
