"""The durable log in asyncio: one eventfd a log and loop tells that something became durable; no thread waits.

The flusher writes to the eventfd, and the loop wakes all whose records are on the disk by then. Commits of a cursor
have no flusher, because a process that only reads has no writer: a thread of the loop's executor writes them.
"""

from __future__ import annotations

import asyncio
import bisect
import os
from collections import deque
from contextlib import suppress
from operator import itemgetter
from typing import Any, Final

from rtmw.errors import LimitReached
from rtmw.log import BATCH_S, HELD, STARTED, SYNCED, HeldCursor, Watch, Writer

__all__ = ["Commits", "Flushes", "until_readable"]


LOOK_AGAIN_S: Final = 0.01
"""An appender that waits for room looks by itself after so long."""


class Flushes:
    """The appends to one writer that one event loop waits for. Of the loop's thread, but for `end`."""

    def __init__(self, writer: Writer, loop: asyncio.AbstractEventLoop) -> None:
        self._writer = writer
        self._loop = loop
        self._durable: deque[tuple[int, asyncio.Future[None]]] = deque()
        """The ends of records that tasks wait for, in order: records are appended in this order."""
        self._room: list[asyncio.Future[None]] = []
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        if not writer.add_eventfd(self._descriptor):
            os.close(self._descriptor)
            raise LimitReached("eight event loops append to this log already; append from fewer at a time")
        loop.add_reader(self._descriptor, self._look)

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop is loop

    def leave_if_closed(self) -> bool:
        """Gives the eventfd back if its loop is closed: nobody waits then. False: the loop is open."""
        if not self._loop.is_closed():
            return False
        self._writer.remove_eventfd(self._descriptor)
        os.close(self._descriptor)
        return True

    async def append(self, data: Any, labels: bytes | None, how: int) -> tuple[int, int]:
        """Position and end of the record; `how`: as of Writer.append. Cancelled: it may be on the disk, or not."""
        while True:
            try:
                position, end = self._writer.append(data, labels, HELD, 0.0)
                break
            except TimeoutError:
                await self._until_room()
        if how == SYNCED:
            await self.until(end)
        elif how == STARTED:
            self._writer.start()
        return position, end

    async def _until_room(self) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._room.append(future)
        timer = self._loop.call_later(LOOK_AGAIN_S, _finish, future, None)  # room may have come just before
        try:
            await future
        finally:
            timer.cancel()

    async def until(self, end: int) -> None:
        """All below this position is on the disk. LogFailed: it may be, or not."""
        if self._writer.durable >= end:
            return
        self._writer.start(end)
        future: asyncio.Future[None] = self._loop.create_future()
        if self._durable and self._durable[-1][0] > end:  # the answer of a record that was appended before
            bisect.insort(self._durable, (end, future), key=itemgetter(0))
        else:
            self._durable.append((end, future))
        if self._writer.failed or self._writer.durable >= end:  # meanwhile
            self._look()
        await future

    def _look(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)
        room, self._room = self._room, []
        for future in room:
            _finish(future, None)
        durable = self._writer.durable
        while self._durable and self._durable[0][0] <= durable:
            _finish(self._durable.popleft()[1], None)
        if self._writer.failed:
            while self._durable:
                end, future = self._durable.popleft()
                _finish(future, self._failure(end))

    def _failure(self, end: int) -> Exception | None:
        try:
            self._writer.wait(end, 0.0)
        except Exception as error:
            return error
        return None

    def end(self) -> None:
        """The writer is closed: all is durable, or has failed. From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._leave)
        except RuntimeError:  # the loop is closed
            os.close(self._descriptor)

    def _leave(self) -> None:
        self._look()
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)


class Commits:
    """Writes the commits of a cursor whose records a task reads, so that the loop does not wait for the disk.

    One write at a time, a tenth of a second after the one before. The cursor's next call raises an error of a write.
    """

    def __init__(self, cursor: HeldCursor, loop: asyncio.AbstractEventLoop) -> None:
        self._cursor = cursor
        self._loop = loop
        self._is_due = False
        self._write: asyncio.Future[None] | None = None
        cursor.write_later(self.later)

    def later(self, seconds: float) -> bool:
        """Has the loop write the cursor in so many seconds. Any thread may call it. False: the loop is closed."""
        if self._is_due:
            return not self._loop.is_closed()
        try:
            self._loop.call_soon_threadsafe(self._wait, seconds)
        except RuntimeError:
            return False
        return True

    def _wait(self, seconds: float) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._is_due = False  # what is committed from now on is not surely in it
        if self._write is None:
            self._write = self._loop.run_in_executor(None, self._cursor.write)
            self._write.add_done_callback(self._end)

    def _end(self, _: object) -> None:
        self._write = None
        if not self._cursor.is_flushed:
            self._wait(BATCH_S)

    async def finish(self) -> None:
        """Waits until what was committed is on the disk, or its write has failed."""
        while not self._cursor.is_flushed:
            self._begin()
            if self._write is not None:
                await asyncio.wait([self._write])


async def until_readable(watch: Watch) -> None:
    """Waits until a watch may have something to tell."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(watch.seconds, _finish, future, None)
    for descriptor in watch.descriptors:
        loop.add_reader(descriptor, _finish, future, None)
    try:
        await future
    finally:
        timer.cancel()
        for descriptor in watch.descriptors:
            loop.remove_reader(descriptor)
    watch.drain()


def _finish(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
