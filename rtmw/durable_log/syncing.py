"""How far the log of a service is on the disk, and what waits for that: group commit for an event loop.

While the disk is fast, and only programs of this host wait for it, the service syncs in the thread of its loop: to wake
the log's own thread for a sync, and to be woken by it, takes longer than the sync itself. Else the log's thread syncs,
and the loop goes on: what it carries for other nodes is work that it can do meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from rtmw.clock import CLOCK
from rtmw.durable_log.log import Appended, Durability, Log

__all__ = ["Syncing"]

FAST_S: Final = 0.002
"""Seconds that a sync takes on average, at most, on a disk that counts as fast."""
SYNCS: Final = 16
"""Number of latest syncs over which the average runs, about."""


def _finish(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)


class Syncing:
    """Syncs a service's log, for many steps at once. Only the thread of the service's loop may use it."""

    def __init__(self, log: Log[Any]) -> None:
        self._log = log
        self.durable = self.logged = 0
        """Positions: all records up to `durable` are durable; `logged` is that of the last record."""
        self._last: Appended | None = None
        self._is_due = asyncio.Event()
        self._after: deque[tuple[int, Callable[[], object]]] = deque()
        """Actions to run when a position is durable: those of other nodes, and of files."""
        self._average_s = 0.0
        """Seconds that a sync takes, averaged over the latest SYNCS."""

    def note(self, last: Appended, waits: bool = False) -> None:
        """Takes down the last record of a step: when it is durable, so is all that the step has logged or seen.
        `waits`: an answer waits for it. Then a fast disk begins at once, and works while the loop makes the answer
        and comes to the sync."""
        is_new = last.position > self.logged
        self._last, self.logged = last, last.position
        if waits and is_new and self._is_fast:
            self._write_ahead()

    def start(self) -> None:
        """Has what was logged go to the disk together, in the next turn of the loop."""
        if self.logged > self.durable:
            self._is_due.set()

    def later(self, work: Callable[[], object]) -> None:
        """Calls `work` when all that was logged before this call is durable; at once, if it is."""
        if self.logged > self.durable:
            self._after.append((self.logged, work))
        else:
            work()

    async def wait(self) -> None:
        """All that was logged before this call is durable when it returns."""
        if self.logged > self.durable:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.later(lambda: _finish(reached))
            self.start()
            await reached

    async def run(self, tell: Callable[[], None]) -> None:
        """Syncs for ever what has to be synced. It calls `tell` when more is durable. Raises LogFailed."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            if self.try_sync() or await self._sync():
                tell()

    def try_sync(self) -> bool:
        """All that was logged is durable when this returns, if that may be done in this thread. False: it may not, or
        was durable before."""
        begun, last = CLOCK.monotonic(), self._last
        if last is None or last.position <= self.durable or not (self._is_fast and self._syncs_here(last)):
            return False
        self._is_durable(last, begun)
        return True

    async def _sync(self) -> bool:
        """Makes all that was logged durable in the log's thread. False: it was durable before."""
        begun, last = CLOCK.monotonic(), self._last
        if last is None or last.position <= self.durable:
            return False
        await last.resolve_async()
        self._is_durable(last, begun)
        return True

    def _is_durable(self, last: Appended, begun: float) -> None:
        self._average_s += (CLOCK.monotonic() - begun - self._average_s) / SYNCS
        self.durable = max(self.durable, last.position)
        while self._after and self._after[0][0] <= self.durable:
            self._after.popleft()[1]()

    def _write_ahead(self) -> None:
        self._log._begin_to_write().write_ahead()

    @property
    def _is_fast(self) -> bool:
        """The disk is, and the loop has nothing to do meanwhile."""
        return not self._after and self._average_s <= FAST_S

    def _syncs_here(self, last: Appended) -> bool:
        """False: the log's thread is at it, or the log has failed, as who waits for the record is told."""
        return self._log._begin_to_write().try_flush() and last.state is Durability.WRITTEN
