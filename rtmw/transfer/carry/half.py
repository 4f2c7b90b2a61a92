"""Common to both halves: work in turn for each transfer, and bytes for a stream in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar

from rtmw.errors import StreamError
from rtmw.transfer.carry.desk import Work
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.records import TransferId

__all__ = ["Bytes", "Outbox", "Steps", "Turns", "log", "run_stream"]

log = logging.getLogger("rtmw.transfer")

_RULE_BROKEN: Final = 256
"""Code of a stream that was reset for frames that cannot be."""
_MOST_TOGETHER: Final = 64 << 10
"""Bytes of small frames in one write."""
E = TypeVar("E")
F = TypeVar("F")


class Bytes(Protocol):
    """A stream of a session, or what takes its place within one process. Each call raises StreamError: it is over."""

    async def read_parts(self) -> list[bytes]:
        """The next bytes, in the parts in which they came; none: the peer sends no more."""
        ...

    async def write(self, data: bytes) -> None:
        """Write the data; wait for room."""
        ...

    def reset(self, words: str, code: int) -> None: ...


class Turns:
    """Does work for one transfer one after the other, and work for different transfers at a time."""

    def __init__(self) -> None:
        self._last: dict[TransferId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failed: BaseException | None = None
        """An unexpected error; the core has to end with it."""

    def __contains__(self, id: TransferId) -> bool:
        """Is something to be done yet for this transfer?"""
        return id in self._last

    def add(self, id: TransferId, work: Work) -> None:
        self.add_run((id,), work)

    def add_run(self, ids: Collection[TransferId], work: Work) -> None:
        """Do work for several transfers at once, after what is to be done for each of them."""
        before = {self._last[id] for id in ids if id in self._last}
        task = asyncio.get_running_loop().create_task(self._do(before, work))
        self._last.update(dict.fromkeys(ids, task))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(ids, done, work))

    async def done(self, id: TransferId) -> None:
        """Wait until nothing is to be done for this transfer."""
        while (last := self._last.get(id)) is not None:
            await asyncio.wait([last])  # `_done` comes first

    async def _do(self, before: set[asyncio.Task[None]], work: Work) -> None:
        if before:
            await asyncio.wait(before)
        await work

    def _done(self, ids: Collection[TransferId], task: asyncio.Task[None], work: Work) -> None:
        work.close()  # it has not begun if the task was cancelled before
        self._tasks.discard(task)
        for id in ids:
            if self._last.get(id) is task:
                del self._last[id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed = error
            log.error("transfer %s: %r", next(iter(ids)), error, exc_info=error)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class Steps(Generic[E, F]):
    """Events go into a machine one after the other, also those that its effects cause; effects keep their order."""

    def __init__(self, step: Callable[[E, float], list[F]], carry_out: Callable[[F], None]) -> None:
        self._step, self._carry_out = step, carry_out
        self._events: deque[E] = deque()
        self._is_busy = False

    def tell(self, event: E) -> None:
        """Take an event. Raises TransfersDamaged: the peer breaks a rule."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                for effect in self._step(self._events.popleft(), asyncio.get_running_loop().time()):
                    self._carry_out(effect)
        finally:
            self._is_busy = False


class Outbox:
    """Frames for one stream. `written`: is called with those that the stream has taken."""

    def __init__(self, written: Callable[[list[bytes]], None]) -> None:
        self._written, self._frames, self._changed = written, deque[bytes](), asyncio.Event()

    def put(self, data: bytes) -> None:
        self._frames.append(data)
        self._changed.set()

    def clear(self) -> None:
        self._frames.clear()

    async def run(self, stream: Bytes) -> None:
        """Write the frames until the stream is reset. Raises StreamError."""
        while True:
            while self._frames:
                frames = self._next()
                await stream.write(b"".join(frames))
                self._written(frames)
            self._changed.clear()
            await self._changed.wait()

    def _next(self) -> list[bytes]:
        """Return the next frames; small ones go together, since each write is a step of the session."""
        frames, size = [self._frames.popleft()], 0
        while self._frames and (size := size + len(frames[-1])) + len(self._frames[0]) <= _MOST_TOGETHER:
            frames.append(self._frames.popleft())
        return frames


async def run_stream(
    stream: Bytes, outbox: Outbox, heard: Callable[[list[bytes]], Coroutine[Any, Any, None]], node: str
) -> None:
    """Writes and reads until the stream is over. A peer that breaks a rule, TransfersDamaged of `heard`, is told and
    logged; other errors of `heard` go through. StreamError does not. `node`: the peer."""

    async def read() -> None:
        while parts := await stream.read_parts():
            await heard(parts)

    tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(outbox.run(stream))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    except StreamError:
        pass
    except TransfersDamaged as error:
        log.warning("node %s breaks a rule of transfers: %s", node, error)
        stream.reset(str(error), _RULE_BROKEN)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
