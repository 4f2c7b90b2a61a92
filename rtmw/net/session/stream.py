"""A stream as programs see it."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rtmw.errors import StreamError
from rtmw.net.session import events as e
from rtmw.net.session.errors import Code, named

if TYPE_CHECKING:
    from rtmw.net.session.session import Session


class Stream:
    """Bytes in both directions. For one event loop, and in each direction for one task at a time.

    `with` for streams: at the end this side's bytes end, and what the peer still says is read and dropped, until each
    side knows that the other one has all. After an exception the stream is reset.
    """

    def __init__(self, session: Session, number: int, purpose: str, priority: int) -> None:
        self.session = session
        self.number = number
        self.purpose = purpose
        self.acknowledged = 0
        """Up to where the peer has received."""
        self.durable = 0
        """Up to where what the peer has received is durable there."""
        self.start: int | None = None
        """Position of the peer's first byte; None before the peer has said it."""
        self.position = 0
        """Of the next byte that `read` gives."""
        self._priority = priority
        self._is_accepted = False
        self._has_ended = False
        self._inbox = deque[bytes]()
        self._ended_by_peer = self._is_gone = False
        self._error: StreamError | None = None
        self._changed = asyncio.Event()

    @property
    def priority(self) -> int:
        """0 to 7; a new one holds from the next chunk on."""
        return self._priority

    @priority.setter
    def priority(self, priority: int) -> None:
        self.session.ask(e.Prioritize(self.number, priority))
        self._priority = priority

    def accept(self, position: int = 0) -> None:
        """Of a stream that the peer has opened: the bytes of this side begin at `position`. `write` accepts at 0."""
        self._check()
        self._is_accepted = True
        self.acknowledged = self.durable = position
        self.session.ask(e.Accept(self.number, position))

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; returns when the session has a copy. Waits while the peer's credit is used up.

        Raises StreamError: the stream was reset, or the session is over.
        """
        self._accept_if_needed()
        rest = memoryview(data).cast("B")
        while len(rest):
            self._check()
            self._changed.clear()
            rest = rest[self.session.write(self.number, rest) :]
            if len(rest):
                await self._changed.wait()

    def end(self) -> None:
        """No more bytes from this side; the other direction goes on."""
        self._accept_if_needed()
        if not self._has_ended:
            self._check()
            self._has_ended = True
            self.session.ask(e.End(self.number))

    async def read(self, most: int = 1 << 20) -> bytes:
        """The next bytes, at least one and at most so many; b"" behind the last. The peer gets credit for as many.

        Raises StreamError: the stream was reset, or the session is over.
        """
        return b"".join(await self.read_parts(most))

    async def read_parts(self, most: int = 1 << 20) -> list[bytes]:
        """As `read`, in the parts in which they came, and so without a copy; none behind the last."""
        while not self._inbox:
            self._check()
            if self._ended_by_peer or self._is_gone:
                return []
            await self._changed_once()
        return self._taken(most)

    def _taken(self, most: int) -> list[bytes]:
        first = self._inbox.popleft()
        if len(first) > most:
            self._inbox.appendleft(first[most:])
            first = first[:most]
        parts, size = [first], len(first)
        while self._inbox and size + len(self._inbox[0]) <= most:
            parts.append(self._inbox.popleft())
            size += len(parts[-1])
        self.position += size
        if self._error is None:
            self.session.ask(e.Read(self.number, size))
        return parts

    def acknowledge(self, position: int) -> None:
        """All bytes of the peer before `position` are durable here. Received bytes are acknowledged without a call."""
        self._check()
        self.session.ask(e.Durable(self.number, position))

    async def reached(self, position: int, *, durable: bool = False) -> None:
        """Wait until the peer has all bytes before `position`, or has made them durable. Raises StreamError."""
        while (self.durable if durable else self.acknowledged) < position:
            self._check()
            await self._changed_once()

    async def finish(self) -> None:
        """End this direction, drop what the peer still says, and wait until each side has all of the other's.

        Raises StreamError, if the stream is reset before.
        """
        self.end()
        while await self.read():
            pass
        if not self._is_gone:
            self.session.ask(e.Finish(self.number))
        while not self._is_gone:
            self._check()
            await self._changed_once()

    def reset(self, words: str = "the program gave the stream up", code: int = Code.CLOSED) -> None:
        """End both directions at once; what is on its way is lost. The peer gets code and words."""
        if self._error is None and not self._is_gone:
            self.session.ask(e.Reset(self.number, code, words))
            self.fail(code, f"this side reset the stream: {words}")
            self.session.forget(self.number)

    def _accept_if_needed(self) -> None:
        if not self._is_accepted:
            self.accept()

    def _check(self) -> None:
        if self._error is not None:
            raise StreamError(str(self._error), self._error.code)

    async def _changed_once(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # Called by the session.

    def opened(self, purpose: str, priority: int, position: int) -> None:
        """This side has opened it: nothing is to be accepted."""
        self._is_accepted = True
        self.purpose, self._priority = purpose, priority
        self.acknowledged = self.durable = position

    def begins(self, position: int) -> None:
        self.start = self.position = position
        self._changed.set()

    def deliver(self, data: bytes) -> None:
        self._inbox.append(data)
        self._changed.set()

    def changed(self) -> None:
        self._changed.set()

    def acknowledge_mine(self, received: int, durable: int) -> None:
        self.acknowledged, self.durable = received, durable
        self._changed.set()

    def ended(self) -> None:
        self._ended_by_peer = True
        self._changed.set()

    def gone(self) -> None:
        self._is_gone = True
        self._changed.set()

    def fail(self, code: int, words: str) -> None:
        self._error = StreamError(f"stream {self.number}, {self.purpose!r}: {words} ({named(code)})", code)
        self._changed.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.finish()
        else:
            self.reset(f"the program failed: {kind.__name__ if kind else error}")
