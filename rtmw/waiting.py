"""Waiting for what another thread says, asleep or in an event loop, and in asyncio for messages and for room.

For threads: whoever notifies looks at the condition of each who waits, and wakes those whose condition is met, and
nobody else: all of one event loop by one call.

In asyncio, on the plain loop and on uvloop: who waits for a message needs one file descriptor a process, and no thread.
A publisher sends a datagram to the process when a subscriber of it is armed. A message is taken in the same step in
which it is handed to the caller, so cancelling a wait loses nothing.

Who waits for room in a full queue sleeps in a thread of the loop's executor, and publishes in the loop: so a wait that
is cancelled has published nothing, and leaves a thread that wakes within a slice of time. While all threads of the
executor are taken, as by programs that wait for messages there, the loop looks by itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.errors import ClosedError
from rtmw.matching import LongWait

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
    """Ends waits of one event loop, from any thread: at once, without a system call, in a task of that loop. Elsewhere
    the loop may be asleep, also in its own thread: a handler of a signal may run there meanwhile. RuntimeError: the
    loop was closed."""
    try:
        is_here = asyncio.current_task() is not None and asyncio.get_running_loop() is loop
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


# ---- messages and room, in asyncio ----

T = TypeVar("T")
C = TypeVar("C", contravariant=True)

LOOK_UP = shm.LOOK_UP_NS / 1e9
"""Seconds after which a waiter looks by itself: a publisher may have been stopped between appending and waking. With a
deadline it looks after a quarter of that, if it is less."""

LOOK_FOR_ROOM = 0.02
"""Seconds after which who waits for room looks by itself: a thread mostly wakes earlier, after a slice of time."""


class Awaited(Protocol[T]):
    """The part of a subscriber that waiting needs."""

    _reader: Callable[[], Reader | None]

    def take(self) -> shm.Sample[T] | None: ...

    def receive(self, timeout: float | None = None) -> shm.Sample[T]: ...

    def _arm(self) -> bool:
        """Have the next message wake this process. True: one has come meanwhile."""
        ...

    def _look_in(self) -> float | None:
        """Seconds after which to look again; None: there is nothing to look for before LOOK_UP."""
        ...

    def _deadline_left(self) -> float | None: ...

    def _log_silence(self) -> None: ...


class Reader:
    """The descriptor of one attachment in one event loop, and who waits for it there.

    The loop keeps the reader; the reader keeps neither the loop nor the attachment. It reads a duplicate of the
    descriptor, which no other file can take the number of while the loop still watches it.
    """

    def __init__(self, region: shm.Region, loop: asyncio.AbstractEventLoop, siblings: Readers) -> None:
        self.waiting: set[asyncio.Future[None]] = set()
        self._siblings = siblings
        self._looks = False
        self._loop = weakref.ref(loop)
        self._descriptor = os.dup(region.fileno())
        self._close = weakref.finalize(self, os.close, self._descriptor)
        me = weakref.ref(self)
        self._region = weakref.ref(region, lambda _: _tell(me(), Reader._leave))
        loop.add_reader(self._descriptor, self._readable)

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop() is loop

    def look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all who wait: they look when it ends, however long each has waited.

        Its handle is not kept: it would keep the loop.
        """
        if not self._looks:
            self._looks = True
            loop.call_later(LOOK_UP, self._look)

    def _look(self) -> None:
        self._looks = False
        self.wake()

    def tell(self, what: Callable[[Reader], None]) -> None:
        """Have the reader do something in its own loop, from any thread."""
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # closed by its thread meanwhile
                loop.call_soon_threadsafe(what, self)

    def _readable(self) -> None:
        """Datagrams do not say for whom: everybody looks, in every loop of the process."""
        region = self._region()
        if region is None:
            return
        region.drain()
        self.wake()
        if len(self._siblings) > 1:
            for reader in _all(self._siblings):
                if reader is not self and reader.waiting:
                    reader.tell(Reader.wake)

    def wake(self) -> None:
        for future in list(self.waiting):
            _finish(future)

    def _leave(self) -> None:
        """The attachment is gone."""
        loop = self._loop()
        if loop is not None:
            loop.remove_reader(self._descriptor)
        self._close()


def _tell(reader: Reader | None, what: Callable[[Reader], None]) -> None:
    if reader is not None:
        reader.tell(what)


Readers = weakref.WeakSet[Reader]
"""Those of one attachment. A loop that was closed keeps none, whatever waits there."""
_lock = threading.Lock()
_readers: weakref.WeakKeyDictionary[shm.Region, Readers] = weakref.WeakKeyDictionary()


def _all(readers: Readers) -> list[Reader]:
    with _lock:
        return list(readers)


def _new_reader(region: shm.Region, loop: asyncio.AbstractEventLoop) -> Reader:
    with _lock:
        siblings = _readers.setdefault(region, weakref.WeakSet())
        for reader in list(siblings):
            if reader.serves(loop):
                return reader
        reader = Reader(region, loop, siblings)
        siblings.add(reader)
        return reader


def _reader(subscriber: Awaited[T], region: shm.Region, loop: asyncio.AbstractEventLoop) -> Reader:
    """The subscriber remembers the last one, and does not keep it: the loop does."""
    reader = subscriber._reader()
    if reader is None or not reader.serves(loop):
        reader = _new_reader(region, loop)
        subscriber._reader = weakref.ref(reader)
    return reader


async def wakeup(
    subscriber: Awaited[T],
    region: shm.Region,
    most: float | None = None,
    woken: asyncio.Future[None] | None = None,
) -> None:
    """Return when there may be a message, `most` seconds are over, or the future is done; the caller looks."""
    loop = asyncio.get_running_loop()
    reader = _reader(subscriber, region, loop)
    future: asyncio.Future[None] = loop.create_future() if woken is None else woken
    reader.waiting.add(future)
    timer: asyncio.TimerHandle | None = None
    try:
        if subscriber._arm():  # something came meanwhile
            return
        reader.look_later(loop)
        look_in = min((one for one in (subscriber._look_in(), most) if one is not None), default=None)
        if look_in is not None:
            timer = loop.call_later(look_in, _finish, future)
        await future
    finally:
        reader.waiting.discard(future)
        if timer is not None:
            timer.cancel()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def next_sample(subscriber: Awaited[T], region: shm.Region) -> shm.Sample[T]:
    """The next message. StopAsyncIteration when the subscriber is closed, DeadlineMissed when its deadline passes."""
    waiting: LongWait | None = None
    while True:
        try:
            sample = subscriber.take()
            if sample is not None:
                return sample
            if subscriber._deadline_left() == 0:
                return subscriber.receive(timeout=0)
            if waiting is not None:
                waiting.look()
            await wakeup(subscriber, region)
            waiting = waiting or LongWait(subscriber._log_silence)
        except TimeoutError:
            continue
        except ClosedError:
            raise StopAsyncIteration from None


class Full(Protocol[C]):
    """The part of a publisher that waiting for room needs."""

    _priority: int
    _turns: Turns | None

    def _try(self, seconds: float | None, value: C, /, **options: Any) -> bool | None: ...

    def _sleep(self, seconds: float | None, /) -> None: ...

    def _has_room(self, priority: int, /) -> bool: ...


Turns = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Lock]]
"""For one publisher: the locks that order the tasks waiting for room, by event loop and priority."""


async def published_in_turn(publisher: Full[C], seconds: float | None, value: C, options: dict[str, Any]) -> bool:
    """Publish once there is room, after those of the same loop and priority that wait already. False: there was none
    within these seconds, which the publisher counts; None: no limit.
    """
    end = None if seconds is None else CLOCK.monotonic() + seconds
    loop = asyncio.get_running_loop()
    if publisher._turns is None:
        publisher._turns = weakref.WeakKeyDictionary()
    turns = publisher._turns.setdefault(loop, {})
    priority = options.get("priority")
    if priority is None:
        priority = publisher._priority
    async with turns.setdefault(priority, asyncio.Lock()):
        while (published := publisher._try(_left(end), value, **options)) is None:
            await _room(publisher, priority, end)
        return published


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - CLOCK.monotonic())


async def _room(publisher: Full[C], priority: int, end: float | None) -> None:
    """Return when there may be room, or the time is up: a try encodes the value, and so has to be worth it."""
    loop = asyncio.get_running_loop()
    sleep = loop.run_in_executor(None, publisher._sleep, _left(end))
    try:
        while True:
            left = _left(end)
            await asyncio.wait([sleep], timeout=LOOK_FOR_ROOM if left is None else min(left, LOOK_FOR_ROOM))
            if sleep.done():
                sleep.result()
            if _left(end) == 0 or publisher._has_room(priority):
                return
            if sleep.done():
                sleep = loop.run_in_executor(None, publisher._sleep, _left(end))
    finally:
        sleep.cancel()
