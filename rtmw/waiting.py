"""Waiting for something that another thread says: asleep, or in an event loop.

Whoever notifies looks at the condition of each who waits, and wakes those whose condition is met, and nobody else: all
of one event loop by one call.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

__all__ = ["Asleep", "Loop", "Signal", "Waiting", "finish", "finish_in", "woken"]

Met: TypeAlias = Callable[[], bool]
Loop: TypeAlias = asyncio.AbstractEventLoop


class _Task:
    """A task that waits."""

    __slots__ = ("future", "loop", "met")

    def __init__(self, met: Met, loop: Loop) -> None:
        self.met, self.loop = met, loop
        self.future: asyncio.Future[None] = loop.create_future()


class Asleep:
    """A thread that sleeps until another one wakes it, once: it acquires a lock for the second time."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, timeout: float | None = None) -> None:
        """`timeout`: seconds; None: no limit."""
        self._lock.acquire(timeout=-1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """The second time does nothing."""
        with suppress(RuntimeError):
            self._lock.release()


class _Thread(Asleep):
    """A thread that waits."""

    __slots__ = ("met",)

    def __init__(self, met: Met) -> None:
        super().__init__()
        self.met = met


class Signal:
    """Something changes, now and then. Any thread says so; any number of threads and tasks wait for a condition.

    Conditions are called in any thread, and must neither wait nor fail. A handler of a signal, or a finalizer, may
    notify while the thread that it interrupts is in here.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: dict[_Task | _Thread, None] = {}

    def notify(self, all: bool = False) -> None:
        """Wakes the callers whose condition is met; `all`: every caller. The change that meets a condition was written
        before."""
        ready = list[_Task | _Thread]()
        with self._lock:
            for one in list(self._waiting):
                if (all or one.met()) and one in self._waiting:
                    del self._waiting[one]
                    ready.append(one)
        if ready:
            _wake(ready)

    def _begin(self, one: _Task | _Thread) -> bool:
        """Is there anything to wait for?"""
        with self._lock:
            self._waiting[one] = None  # before it looks: whoever notifies behind that finds it
            if one.met():
                self._waiting.pop(one, None)
                return False
            return True

    def _end(self, one: _Task | _Thread) -> None:
        with self._lock:
            self._waiting.pop(one, None)

    def wait(self, met: Met, timeout: float | None) -> bool:
        """Sleeps until the condition is met, or all are woken. Is it met? `timeout`: seconds; None: no limit."""
        if met():
            return True
        one = _Thread(met)
        if not self._begin(one):
            return True
        try:
            one.wait(timeout)
        finally:
            self._end(one)
        return met()

    async def reached(self, met: Met, timeout: float | None) -> bool:
        """Waits like `wait`, in a task: the event loop runs meanwhile. A wait that is cancelled leaves nothing
        behind."""
        if met():
            return True
        loop = asyncio.get_running_loop()
        one = _Task(met, loop)
        if not self._begin(one):
            return True
        timer = None if timeout is None else loop.call_later(max(timeout, 0.0), finish, [one.future])
        try:
            await one.future
        finally:
            self._end(one)
            if timer is not None:
                timer.cancel()
        return met()


async def woken(future: asyncio.Future[None], timeout: float) -> None:
    """Waits until the future is woken, or so many seconds are over."""
    timer = asyncio.get_running_loop().call_later(timeout, finish, [future])
    try:
        await future
    finally:
        timer.cancel()


def _wake(ready: list[_Task | _Thread]) -> None:
    waiting = Waiting()
    for one in ready:
        if isinstance(one, _Task):
            waiting.tasks[one.loop].append(one.future)
        else:
            waiting.threads.append(one)
    waiting.wake()


class Waiting:
    """Threads, and tasks by their event loops."""

    __slots__ = ("tasks", "threads")

    def __init__(self) -> None:
        self.threads: list[Asleep] = []
        self.tasks: defaultdict[Loop, list[asyncio.Future[None]]] = defaultdict(list)

    def wake(self) -> None:
        """Threads one by one, all tasks of one event loop by one call. Any thread; nobody is added meanwhile."""
        threads, tasks = self.threads, self.tasks
        self.threads, self.tasks = [], defaultdict(list)
        for thread in threads:
            thread.wake()
        for loop, futures in tasks.items():
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(finish, futures)


def finish_in(loop: Loop, futures: list[asyncio.Future[None]]) -> None:
    """Ends waits of one event loop, from any thread: at once in that loop itself, without a system call. RuntimeError:
    the loop was closed."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        finish(futures)
    else:
        loop.call_soon_threadsafe(finish, futures)


def finish(futures: list[asyncio.Future[None]]) -> None:
    """Ends waits, in their own event loop."""
    for future in futures:
        try:
            future.set_result(None)
        except asyncio.InvalidStateError:  # it was cancelled, or woken before
            continue
