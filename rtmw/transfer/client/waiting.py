"""Waiting for something that another thread says: asleep, or in an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Signal"]


class Signal:
    """Something changes, now and then. Any thread says so; any number of threads and tasks wait for a condition."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._futures: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def notify(self) -> None:
        """Who waits looks again. What has changed was written before."""
        with self._condition:
            self._condition.notify_all()
            futures, self._futures = self._futures, []
        for loop, future in futures:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_finish, future)

    def wait(self, met: Callable[[], bool], timeout: float | None) -> bool:
        """Sleeps until the condition is met. False: not within `timeout` seconds (None: no limit)."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while not met():
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._condition.wait(left)
        return True

    async def reached(self, met: Callable[[], bool], timeout: float | None) -> bool:
        """The same for a task. A wait that is cancelled leaves nothing behind."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while True:
            future: asyncio.Future[None] = loop.create_future()
            with self._condition:
                if met():
                    return True
                self._futures.append((loop, future))
            try:
                left = None if end is None else end - loop.time()
                if left is not None and left <= 0:
                    return False
                await asyncio.wait_for(future, left)
            except TimeoutError:
                return met()
            finally:
                with self._condition:
                    self._futures = [entry for entry in self._futures if entry[1] is not future]


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
