"""Quality of service: the words publishers and subscribers share. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

PRIORITIES = 8
"""Priority bands, 0 (lowest) to 7 (highest); strict (requirement P3)."""


class Reliability(IntEnum):
    """What gives way when a queue is full or the pool is empty (P5). The weaker of offer and request governs a pair."""

    TIMELY = 0
    """Never waits: the oldest of the lowest band goes, and each subscriber counts what it missed."""
    ADAPTIVE = 1
    """Keeps unread messages beyond the depth while the pool has room, then as TIMELY."""
    RELIABLE = 2
    """Nothing goes unread: `publish` waits up to `max_blocking` seconds, then returns False."""


@dataclass(frozen=True)
class Profile:
    """QoS of one kind of real-time information, as keyword sets for `Publisher` and `Subscriber`."""

    publisher: dict[str, Any]
    subscriber: dict[str, Any]
