"""What a relay says of itself once a second, and at each alarm: messages that can be read without taking part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from heapq import nsmallest
from typing import Any, Final

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.observe.transfers import STILL_S, newest
from rtmw.patterns import OWN_PREFIX
from rtmw.strict_json import as_json

__all__ = ["RELAY_EVENTS", "RELAY_TOPIC", "RelayActivity", "RelayAgent", "pack_relay", "relay"]

RELAY_TOPIC: Final = OWN_PREFIX + "relay/counters"
"""Where a relay says once a second that it is at work, and what waits; kept for late subscribers."""
RELAY_EVENTS: Final = OWN_PREFIX + "relay/events"
"""Its alarms: JSON with agent, cause, and time in nanoseconds since 1970."""
MOST_AGENTS: Final = 256
"""In one message: those whose oldest order is the oldest."""


@dataclass(frozen=True)
class RelayAgent:
    """The orders for one agent that have not ended."""

    name: str
    connected: bool
    waiting: int
    in_flight: int
    """How many of those that wait were sent and not confirmed."""
    since_ns: int
    """When the oldest was stored: nanoseconds since 1970; 0: none waits."""
    skew: float | None = None
    """Seconds by which the last stamp that it made was ahead of the clock of the relay, in its time zone; None: it has
    made none, or not as a date."""

    @property
    def oldest(self) -> float:
        """The age of the oldest one, in seconds."""
        return max(0.0, (CLOCK.wall_ns() - self.since_ns) / 1e9) if self.since_ns else 0.0


@dataclass(frozen=True)
class RelayActivity:
    """What a relay has said last, and how long ago."""

    pid: int
    silent: float
    """Seconds since it has said so."""
    full: str = ""
    """Why it stores no more orders; empty: it does."""
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    """Rows that its process has written to the record, by kind."""
    agents: tuple[RelayAgent, ...] = ()
    """At most MOST_AGENTS."""

    @property
    def stands_still(self) -> bool:
        """It says once a second that it is at work, and has not for STILL_S."""
        return self.silent > STILL_S


def pack_relay(agents: Iterable[RelayAgent], rows: Mapping[str, int], full: str) -> bytes:
    """The message of a relay. Its time is that of a clock that nobody sets."""
    eldest = nsmallest(MOST_AGENTS, agents, key=_since)
    told = {"told_ns": CLOCK.monotonic_ns(), "full": full, "rows": dict(rows)}
    return as_json({**told, "agents": [asdict(one) for one in eldest]}).encode()


def _since(agent: RelayAgent) -> int:
    """The sort key of an agent: the agent of the oldest order comes first, and agents for which nothing waits come
    last."""
    return agent.since_ns or 1 << 63


def relay(domain: Domain) -> RelayActivity | None:
    """None: no relay runs in this domain. For a domain that is only observed, too."""
    return newest(domain, RELAY_TOPIC, _activity)


def _activity(pid: int, silent: float, told: dict[str, Any]) -> RelayActivity:
    agents = tuple(RelayAgent(**one) for one in told["agents"])
    return RelayActivity(pid, silent, str(told["full"]), {**told["rows"]}, agents)
