"""What a core of transfers says of itself once a second, and its node of it: messages that can be read without taking
part."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.observe.queues import queue
from rtmw.patterns import OWN_PREFIX
from rtmw.strict_json import as_json

__all__ = [
    "COUNTERS_TOPIC",
    "MOST_QUEUES",
    "NODE_TOPIC",
    "STILL",
    "STILL_S",
    "TransferActivity",
    "TransferCounters",
    "TransferQueue",
    "newest",
    "pack_activity",
    "service_fault",
    "transfers",
    "why_no_core",
]

NODE_TOPIC: Final = OWN_PREFIX + "node"
"""Where a node says once a second how it is: JSON, kept for late subscribers."""

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
    and its words; ValueError, KeyError and TypeError mean that it is another program, or of another version."""
    for message in reversed(queue(domain, topic, _MOST_BYTES)):
        try:
            told: dict[str, Any] = json.loads(message.preview)
            found = make(message.publisher, max(0.0, (CLOCK.monotonic_ns() - told["told_ns"]) / 1e9), told)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if Path(f"/proc/{message.publisher}").exists():
            return found
    return None


def why_no_core(domain: Domain) -> str:
    """Why the node of this domain has no core that goes on, as it says; empty: it does not say, or there is none."""
    for message in reversed(queue(domain, NODE_TOPIC, _MOST_BYTES)):
        try:
            rows = json.loads(message.preview)["services"]
            found = next(row for row in rows if row["name"] == "transfer")
            return service_fault(found) if Path(f"/proc/{message.publisher}").exists() else ""
        except (ValueError, KeyError, TypeError, RecursionError, StopIteration):
            continue  # of another program, or of a node that serves no transfers
    return ""


def service_fault(row: dict[str, Any]) -> str:
    """Why a service of a node does not go on; empty: nothing is known against it. `row`: as its node shows it."""
    if not row["failures"]:
        return ""
    times = "once" if row["failures"] == 1 else f"{row['failures']} times in a row, soon after its start"
    return f"ended {times}: {row['why'] or 'it gave no reason'}"
