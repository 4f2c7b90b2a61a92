"""Statements of a core for tools that watch (T11): its errors as events on a topic, and its counters on another."""

from __future__ import annotations

from typing import Final

import rtmw
from rtmw.clock import CLOCK
from rtmw.observe.transfers import COUNTERS_TOPIC, TransferCounters
from rtmw.strict_json import as_json
from rtmw.transfer.core.watching import Happening
from rtmw.transfer.frames import EVENTS_TOPIC

__all__ = ["Board"]

EVERY_S: Final = 1.0
SHARE: Final = 20
"""Counting may take so small a share of the core's time."""


class Board:
    """Never waits. Close it."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self._events = rtmw.Publisher(EVENTS_TOPIC, domain=domain, history=64)
        self._counters = rtmw.Publisher(COUNTERS_TOPIC, domain=domain, history=1, depth=1)
        self._next = 0.0

    def tell(self, happening: Happening) -> None:
        """One JSON object."""
        self._events.publish(as_json(happening.row()).encode())

    def is_due(self, now: float) -> bool:
        """It is time for the counters. `now`: monotonic."""
        return now >= self._next

    def count(self, counters: TransferCounters, begun: float) -> None:
        """`begun`: when the core began to count."""
        now = CLOCK.monotonic()
        self._next = begun + max(EVERY_S, SHARE * (now - begun))
        self._counters.publish(counters.pack())

    def close(self) -> None:
        self._events.close()
        self._counters.close()
