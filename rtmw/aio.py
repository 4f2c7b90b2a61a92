"""Waiting in asyncio: one file descriptor a process, no thread, on the plain loop and on uvloop.

A publisher sends a datagram to the process when a subscriber of it is armed. A message is taken in the same step in
which it is handed to the caller, so cancelling a wait loses nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, TypeVar

from rtmw import shm
from rtmw.errors import ClosedError

if TYPE_CHECKING:
    from rtmw.subscriber import Subscriber

T = TypeVar("T")

LOOK_UP = 0.5
"""Seconds after which a waiter looks by itself: a publisher may have been stopped between appending and waking."""


class _Reader:
    """The descriptor of one attachment in one event loop, and who waits for it there."""

    def __init__(self, region: shm.Region, loop: asyncio.AbstractEventLoop) -> None:
        self._region = region
        self.loop = loop
        self.waiting: set[asyncio.Future[None]] = set()
        loop.add_reader(region.fileno(), self._readable)

    def _readable(self) -> None:
        """Datagrams do not say for whom: everybody looks, in every loop of the process."""
        self._region.drain()
        for reader in list(_readers[self._region].values()):
            if reader is self:
                reader.wake()
            elif not reader.loop.is_closed():
                reader.loop.call_soon_threadsafe(reader.wake)

    def wake(self) -> None:
        for future in list(self.waiting):
            if not future.done():
                future.set_result(None)


_readers: weakref.WeakKeyDictionary[shm.Region, weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Reader]] = (
    weakref.WeakKeyDictionary()
)


def _reader(region: shm.Region) -> _Reader:
    loop = asyncio.get_running_loop()
    loops = _readers.setdefault(region, weakref.WeakKeyDictionary())
    if loop not in loops:
        loops[loop] = _Reader(region, loop)
    return loops[loop]


async def _wakeup(subscriber: Subscriber[T], region: shm.Region) -> None:
    reader = _reader(region)
    future = reader.loop.create_future()
    reader.waiting.add(future)
    try:
        if subscriber._arm():  # something came meanwhile
            return
        left = subscriber._deadline_left()
        timer = reader.loop.call_later(LOOK_UP if left is None else min(left, LOOK_UP), _finish, future)
        try:
            await future
        finally:
            timer.cancel()
    finally:
        reader.waiting.discard(future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def next_sample(subscriber: Subscriber[T], region: shm.Region) -> shm.Sample[T]:
    """The next message. StopAsyncIteration when the subscriber is closed, DeadlineMissed when its deadline passes."""
    while True:
        try:
            sample = subscriber.take()
            if sample is not None:
                return sample
            if subscriber._deadline_left() == 0:
                return subscriber.receive(timeout=0)
            await _wakeup(subscriber, region)
        except TimeoutError:
            continue
        except ClosedError:
            raise StopAsyncIteration from None
