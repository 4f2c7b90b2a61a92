"""What both halves of a peer share: the core that they work for (`Desk`), work in turn for each transfer, and bytes for
a stream in order.

A core answers its peers in its event loop, and nothing of a `Desk` blocks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from rtmw.errors import StreamError
from rtmw.transfer.address import Address
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.header import Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferId, TransferState
from rtmw.transfer.wire.frames import Offer

__all__ = ["Bytes", "Desk", "End", "Outbox", "Steps", "Turns", "Work", "log", "run_stream"]


Work: TypeAlias = Coroutine[Any, Any, None]
"""Work that the caller awaits."""

End = tuple[TransferState, str]
"""A state and its cause."""


class Desk(Protocol):
    """What a peer asks of its core; see the head of this file."""

    def waiting(self, node: str) -> Iterable[Item]:
        """Return the durable transfers for this node that have not ended, in the order in which they are sent."""
        ...

    def newest_of(self, node: str) -> Sequence[tuple[int, int]]:
        """Return each incarnation of the node of which something has come, and its largest sequence that has."""
        ...

    def has_had(self, node: str, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> None:
        """Take what the node has had of this one: each incarnation, and its largest sequence. `sent`: what was offered
        to it, likewise. Raises TransferError: ids were used before that this store does not know; no report of the node
        counts."""
        ...

    def report(self, id: TransferId, state: TransferState, cause: str) -> Work:
        """Log the state that the receiver's node reports, durably. Nothing happens to a transfer that has ended."""
        ...

    def report_run(self, states: Mapping[TransferId, TransferState]) -> bool:
        """Log reports without causes in one batch; `durable` waits for it. False: not all of them can be logged now;
        report them one by one."""
        ...

    def durable(self) -> Work:
        """Wait until all that was reported, or arrived, before this call is durable."""
        ...

    def delayed(self, id: TransferId) -> None:
        """Note that the receiver cannot take a transfer now: what was sent after it does not wait for it."""
        ...

    def spool(self, body: Spooled) -> Path:
        """Return the file of a body."""
        ...

    async def folder(self, to: Address) -> Path | None:
        """Return the folder of an inbox that the address means and that takes files; None: there is none now. Programs
        of a core before this one are given some time to come back."""
        ...

    def check(self, node: str, header: Header, size: int) -> None:
        """Check a transfer of this node before any byte comes, and before its files become visible. `size`: bytes of
        all parts. Raises TransferRefused: the node has no right to send it, or nobody is meant."""
        ...

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        """Enqueue a whole transfer of another node; `durable` waits for it. An id that has come is not enqueued again.

        Bytes are enqueued before this waits for anything. A `Path` is a durable file, to which the core makes another
        name: remove this one when all is durable. TransferRefused: see `check`. OSError, LogFull: there is no room; try
        it again.
        """
        ...

    def arrive_run(self, node: str, header: Header, sender: str, letters: dict[TransferId, bytes]) -> int:
        """Enqueue as many letters of this node as go together, from the first one on, and return how many; the peer's
        half is told when they are durable (`Inbound.moved`). Raises what `arrive` does, of the first one."""
        ...

    def look(self, id: TransferId) -> End | None:
        """Return the state of a transfer that has come from another node, or how it has ended. None: it never came."""
        ...

    def withdraw(self, id: TransferId) -> Work:
        """Cancel a transfer for its sender. Nothing happens, if somebody has taken it."""
        ...

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        """Return the transfers of this node that have ended, and of which it has not said that it knows."""
        ...

    def settled(self, ids: Collection[TransferId]) -> None:
        """Note that their node knows how these transfers have ended. Each id comes once."""
        ...

    def freed(self, offer: Offer, cause: str) -> None:
        """Note that the part of a transfer that had come was removed, because the sending node has left it."""
        ...

    def take_raw(self, node: str, header: Header, body: bytes, sender: str) -> None:
        """Take a SMALL_RAW that has come from this node. TransferRefused: see `check`; nobody is told."""
        ...


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
