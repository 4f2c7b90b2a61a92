"""What services say of themselves once a second, and a node of them: messages that can be read without taking part.

They are the core of transfers, a relay, also at each alarm, and the service of replicated logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final, TypeVar

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.observe.views import queue
from rtmw.text.patterns import OWN_PREFIX
from rtmw.text.strict_json import JsonError, as_json, read

__all__ = [
    "COUNTERS_TOPIC",
    "LOGS_TOPIC",
    "MOST_LOGS",
    "MOST_QUEUES",
    "RELAY_EVENTS",
    "RELAY_TOPIC",
    "STILL",
    "STILL_S",
    "LogsActivity",
    "RelayActivity",
    "RelayAgent",
    "TransferActivity",
    "TransferCounters",
    "TransferQueue",
    "logs",
    "newest",
    "pack_activity",
    "pack_logs",
    "pack_relay",
    "relay",
    "service_fault",
    "transfers",
    "why_no_core",
]


COUNTERS_TOPIC: Final = OWN_PREFIX + "transfer/counters"
"""Where a core says once a second that it is at work, and what it has counted; kept for late subscribers."""
STILL_S: Final = 3.0
"""A core that has said nothing for so long stands still. Its node, tools and metrics go by this one number."""
STILL: Final = "it was stopped, or the disk of its data does not answer"
MOST_QUEUES: Final = 256
"""In one message: those whose oldest transfer is the oldest."""
_MOST_BYTES: Final = 1 << 20
A = TypeVar("A")


@dataclass(frozen=True)
class TransferCounters:
    """What one core counts."""

    parked: int
    """Transfers that have not ended."""
    body_bytes: int
    """Bytes of the bodies of these transfers."""
    dead: int
    """How many of the parked transfers are dead letters."""
    transactions: int
    """Open transactions."""
    accepted: int
    """Transfers since the store was made; those that no log keeps, since the core was started."""
    consumed: int
    failed: int
    """Expired, refused or cancelled."""
    redelivered: int
    """Letters that were handed over once more, since the core was started."""


@dataclass(frozen=True)
class TransferQueue:
    """The transfers to one service that have not ended, without dead letters."""

    service: str
    node: str
    """Name of the node that has the service; empty: the core's own."""
    transfers: int
    since_ns: int
    """When the oldest of them was accepted: nanoseconds since 1970."""

    @property
    def oldest(self) -> float:
        """The age of the oldest one, in seconds."""
        return max(0.0, (CLOCK.wall_ns() - self.since_ns) / 1e9)


@dataclass(frozen=True)
class TransferActivity:
    """What a core has said last, and how long ago."""

    pid: int
    silent: float
    """Seconds since it has said so."""
    counters: TransferCounters
    queues: tuple[TransferQueue, ...] = ()
    """At most MOST_QUEUES."""
    full: str = ""
    """Its disk is full: what is kept, and what makes room. Empty: there is room."""

    @property
    def stands_still(self) -> bool:
        """It says once a second that it is at work, and has not for STILL_S."""
        return self.silent > STILL_S


def pack_activity(counters: TransferCounters, queues: Sequence[TransferQueue], full: str) -> bytes:
    """The message of a core. Its time is that of a clock that nobody sets."""
    told = {"told_ns": CLOCK.monotonic_ns(), "counters": asdict(counters), "full": full}
    return as_json({**told, "queues": [asdict(one) for one in queues[:MOST_QUEUES]]}).encode()


def transfers(domain: Domain) -> TransferActivity | None:
    """None: no core runs in this domain. For a domain that is only observed, too."""
    return newest(domain, COUNTERS_TOPIC, _activity)


def _activity(pid: int, silent: float, told: dict[str, Any]) -> TransferActivity:
    queues = tuple(TransferQueue(**one) for one in told["queues"])
    return TransferActivity(pid, silent, TransferCounters(**told["counters"]), queues, str(told["full"]))


def newest(domain: Domain, topic: str, make: Callable[[int, float, dict[str, Any]], A]) -> A | None:
    """What a living service has said last on its own topic; None: nothing. `make`: of its process, the seconds since,
    and its words; ValueError, KeyError, TypeError and OverflowError mean that it is another program, or of another
    version."""
    for message in reversed(queue(domain, topic, _MOST_BYTES)):
        try:
            told: dict[str, Any] = json.loads(message.preview)
            found = make(message.publisher, max(0.0, (CLOCK.monotonic_ns() - told["told_ns"]) / 1e9), told)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
        if Path(f"/proc/{message.publisher}").exists():
            return found
    return None


def why_no_core(domain: Domain) -> str:
    """Why the node of this domain has no core that goes on, as it says; empty: it does not say, or there is none."""
    from rtmw.observe.node_status import node_seen

    try:
        status = node_seen(domain)
    except JsonError:
        return ""
    services = status.services if status else ()
    return next((one.fault for one in services if one.name == "transfer"), "")


def service_fault(row: dict[str, Any]) -> str:
    """Why a service of a node does not go on; empty: nothing is known against it. `row`: as its node shows it. Raises
    JsonError."""
    from rtmw.observe.node_status import HostedService

    return read(HostedService, row, "the row of a service").fault


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
    return newest(domain, RELAY_TOPIC, _relay_activity)


def _relay_activity(pid: int, silent: float, told: dict[str, Any]) -> RelayActivity:
    agents = tuple(RelayAgent(**one) for one in told["agents"])
    return RelayActivity(pid, silent, str(told["full"]), {**told["rows"]}, agents)


LOGS_TOPIC: Final = OWN_PREFIX + "log/status"
"""Where a node that has replicated logs and a domain says how they are; kept for late subscribers."""
MOST_LOGS: Final = 256
"""In one message: the first by name."""


@dataclass(frozen=True)
class LogsActivity:
    """What the service has said last, and how long ago."""

    pid: int
    silent: float
    """Seconds since it has said so."""
    told: Mapping[str, Any]
    """`node`; `logs`: each as `rtmw log status --json` has it, as this node sees it; `troubles`: why others are not
    served, by name; `full`."""

    @property
    def full(self) -> str:
        """Logs whose disk is full, and what to do; empty: there is room."""
        return str(self.told["full"])


def pack_logs(told: Mapping[str, Any]) -> bytes:
    """The message of a service. Its time is that of a clock that nobody sets."""
    return as_json({**told, "told_ns": CLOCK.monotonic_ns()}).encode()


def logs(domain: Domain) -> LogsActivity | None:
    """None: no node of this domain has replicated logs. For a domain that is only observed, too."""
    return newest(domain, LOGS_TOPIC, _logs_activity)


def _logs_activity(pid: int, silent: float, told: dict[str, Any]) -> LogsActivity:
    return LogsActivity(pid, silent, {key: told[key] for key in ("node", "logs", "troubles", "full")})
