"""Statements of a core on topics: that it is there, for programs; its errors and its counters, for tools (T11)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeAlias

import rtmw
from rtmw.clock import CLOCK
from rtmw.observe.transfers import COUNTERS_TOPIC, TransferCounters, TransferQueue, pack_activity
from rtmw.publisher import OwnPublisher
from rtmw.strict_json import as_json
from rtmw.transfer.address import Life
from rtmw.transfer.core.watching import Happening
from rtmw.transfer.frames import CORE_TOPIC, EVENTS_TOPIC, Frame, pack_frame
from rtmw.transfer.messages import Core

__all__ = ["Board", "Counted"]

Counted: TypeAlias = tuple[TransferCounters, list[TransferQueue]]

EVERY_S: Final = 1.0
SHARE: Final = 20
"""Counting may take so small a share of the core's time."""


class Board:
    """Never waits. Close it."""

    def __init__(self, domain: rtmw.Domain, node: str) -> None:
        self._core = OwnPublisher(CORE_TOPIC, domain=domain, history=1)
        self._cores = rtmw.Subscriber(CORE_TOPIC, domain=domain)
        me, start_ns = Life.of_process(), CLOCK.monotonic_ns()
        assert me is not None, "this process runs"
        self._announcement = pack_frame(Frame(me, 0, 0, Core(start_ns, node)))
        """Its start is larger than that of each core of the domain before: the memory of a domain does not outlive the
        system, and this clock does not either."""
        self._events = OwnPublisher(EVENTS_TOPIC, domain=domain, history=64)
        self._counters = OwnPublisher(COUNTERS_TOPIC, domain=domain, history=1, depth=1)
        self._next = self._next_count = 0.0
        self._counted: Counted

    def announce(self) -> None:
        """This core is there, for programs that run, and for those that come later."""
        self._core.publish(self._announcement)

    def announce_again(self) -> None:
        """If another message covers the announcement: programs that come later read the last one alone."""
        if any(sample._pid != os.getpid() for sample in self._cores.take_many(64)):
            self.announce()

    def tell(self, happening: Happening) -> None:
        """One JSON object."""
        self._events.publish(as_json(happening.row()).encode())

    def is_due(self) -> bool:
        """It is time to say that this core is at work."""
        return CLOCK.monotonic() >= self._next

    def say(self, count: Callable[[], Counted], full: Callable[[TransferCounters], str]) -> None:
        """The core is at work. The numbers are those of before while counting anew takes too much of its time. `full`:
        what to say of the disk."""
        begun = CLOCK.monotonic()
        self._next = begun + EVERY_S
        if begun >= self._next_count:
            self._counted = count()
            self._next_count = begun + SHARE * (CLOCK.monotonic() - begun)
        counters, queues = self._counted
        self._counters.publish(pack_activity(counters, queues, full(counters)))

    def close(self) -> None:
        self._core.close()
        self._cores.close()
        self._events.close()
        self._counters.close()
