"""A session as programs see it: streams are opened and come in; connections come and go underneath."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from rtmw.errors import SessionError, StreamError
from rtmw.net.session import events as e
from rtmw.net.session.core import Core
from rtmw.net.session.errors import Code, named
from rtmw.net.session.meetings import Up


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
        """Position up to which the peer has received this side's bytes."""
        self.durable = 0
        """Position up to which the peer has made them durable."""
        self.start: int | None = None
        """Position of the peer's first byte; None before the peer has said it."""
        self.position = 0
        """Position of the next byte that `read` gives."""
        self._priority = priority
        self._is_accepted = False
        self._has_ended = False
        self._inbox = deque[bytes]()
        self._ended_by_peer = self._is_gone = False
        self._error: StreamError | None = None
        self._waiting = list[asyncio.Future[None]]()
        self._behind = deque[memoryview]()
        self.on_room: Callable[[], None] = _nothing
        """Called when the stream is behind no more."""

    @property
    def priority(self) -> int:
        """0 to 7; a new one holds from the next chunk on."""
        return self._priority

    @priority.setter
    def priority(self, priority: int) -> None:
        self.session.ask(e.Prioritize(self.number, priority))
        self._priority = priority

    def accept(self, position: int = 0) -> None:
        """Accepts a stream that the peer has opened. This side's bytes begin at `position`. `write` accepts at 0."""
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
            rest = rest[self.session.write(self.number, rest) :]
            if len(rest):
                await self._changed_once()

    def put(self, data: bytes) -> None:
        """Sends bytes without waiting: those for which there is no room yet are kept here, and go by themselves. For a
        stream to which nobody writes otherwise. Raises StreamError as `write` does."""
        self._accept_if_needed()
        self._check()
        if self._has_ended:  # the end itself may wait behind bytes that were put
            raise StreamError(f"this side has ended stream {self.number}, and writes no more", Code.CLOSED)
        self._behind.append(memoryview(data))
        if len(self._behind) == 1:
            self._catch_up()

    @property
    def is_behind(self) -> bool:
        """Bytes that were put wait for room."""
        return bool(self._behind)

    def _catch_up(self) -> None:
        while self._behind:
            first = self._behind[0]
            taken = self.session.write(self.number, first)
            if taken < len(first):
                self._behind[0] = first[taken:]
                return
            self._behind.popleft()

    def end(self) -> None:
        """No more bytes from this side behind those that were put; the other direction goes on."""
        self._accept_if_needed()
        if not self._has_ended:
            self._check()
            self._has_ended = True
            if not self._behind:
                self.session.ask(e.End(self.number))

    async def read(self, most: int = 1 << 20) -> bytes:
        """The next bytes, at least one and at most so many; b"" behind the last. The peer gets credit for as many.

        Raises StreamError: the stream was reset, or the session is over.
        """
        return b"".join(await self.read_parts(most))

    async def read_parts(self, most: int = 1 << 20) -> list[bytes]:
        """The next bytes, at most so many, in the parts in which they came, and so without a copy; empty behind the
        last. The credit and the errors are those of `read`."""
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
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            with suppress(ValueError):  # it was woken at the same time
                self._waiting.remove(waiting)
            raise

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    # Called by the session.

    def opened(self, purpose: str, priority: int, position: int) -> None:
        """This side has opened it: nothing is to be accepted."""
        self._is_accepted = True
        self.purpose, self._priority = purpose, priority
        self.acknowledged = self.durable = position

    def begins(self, effect: e.Offered | e.Accepted) -> None:
        self.start = self.position = effect.position
        self._wake()

    def deliver(self, effect: e.Delivered) -> None:
        self._inbox.append(effect.data)
        self._wake()

    def drained(self, _: e.Drained) -> None:
        if self._behind:
            with suppress(SessionError):  # it is over, as the next effect says
                self._catch_up()
                if self._has_ended and not self._behind:
                    self.session.ask(e.End(self.number))
            if not self._behind and not self._has_ended:
                self.on_room()
        self._wake()

    def acknowledge_mine(self, effect: e.Acknowledged) -> None:
        self.acknowledged, self.durable = effect.received, effect.durable
        self._wake()

    def ended(self, _: e.Ended) -> None:
        self._ended_by_peer = True
        self._wake()

    def gone(self, _: e.Gone) -> None:
        self._is_gone = True
        self._wake()
        self.session.forget(self.number)

    def was_reset(self, effect: e.WasReset) -> None:
        self.fail(effect.code, f"it ended before its time: {effect.words}")
        self.session.forget(self.number)

    def fail(self, code: int, words: str) -> None:
        self._error = StreamError(f"stream {self.number}, {self.purpose!r}: {words} ({named(code)})", code)
        self._behind.clear()
        self._wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.finish()
        else:
            self.reset(f"the program failed: {kind.__name__ if kind else error}")


class Session:
    """A session with one node, in one event loop. It lives until one side closes it, or nothing is heard for the lease.

    `async for stream in session` gives the streams that the peer opens, and ends with the session."""

    def __init__(self, up: Up, step: Callable[[int, e.Event], None], loop: asyncio.AbstractEventLoop) -> None:
        self.number = up.session
        self.name = up.name
        """The peer's name in its certificate; empty without TLS."""
        self.peer = up.peer
        """The peer's hello: node, incarnation, site, capabilities."""
        self.error: SessionError | None = None
        """Why it is over; None while it is not."""
        self._core: Core = up.core
        self._step = step
        self._loop = loop
        self._streams: dict[int, Stream] = {}
        self._offered: deque[Stream] = deque()
        self._opened = 0
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._cut = asyncio.Event()
        self._cut.set()

    @property
    def node(self) -> UUID:
        """The peer."""
        return self.peer.node

    @property
    def round_trip(self) -> float | None:
        """Seconds of the last PING and its answer; None before the first."""
        return self._core.timing.round_trip

    @property
    def is_connected(self) -> bool:
        """A connection carries it now; else it waits for one, within the lease."""
        return not self._cut.is_set()

    @is_connected.setter
    def is_connected(self, is_connected: bool) -> None:
        if is_connected:
            self._cut.clear()
        else:
            self._cut.set()

    def open(self, purpose: str, *, priority: int = 0, position: int = 0) -> Stream:
        """Open a stream; bytes may be written at once. `position`: of the first byte, 0 to 2^64 - 1.

        Raises SessionError: the session is over, or as many streams are open as the peer allows; ValueError for a
        purpose of more than 255 bytes, and for a priority that is not 0 to 7.
        """
        self.ask(e.Open(purpose, priority, position))
        stream = self._streams[self._opened]
        stream.opened(purpose, priority, position)
        return stream

    def close(self, words: str = "the program closed the session") -> None:
        """End the session and its streams at once; finish first what has to arrive. A second call does nothing."""
        if self.error is None:
            self.ask(e.Close(Code.CLOSED, words))

    async def over(self) -> None:
        """Wait for the end of the session."""
        await self._over.wait()

    async def cut(self) -> None:
        """Wait until no connection carries it: it waits for another one, or is over."""
        await self._cut.wait()

    async def closed(self) -> SessionError:
        """Wait for the end of the session. Returns why it ended."""
        await self.over()
        assert self.error is not None
        return self.error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Stream:
        while not self._offered:
            if self.error is not None:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._offered.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Between the streams and the core.

    def ask(self, event: e.Event) -> None:
        """An event of a program. Raises SessionError."""
        if self.error is not None:
            raise SessionError(str(self.error), self.error.code)
        self._step(self.number, event)

    def write(self, stream: int, data: memoryview) -> int:
        """How many of these bytes were taken; they are copied, if their program may change them."""
        taken = min(self._core.room(stream), len(data))
        if taken and not isinstance(data.obj, bytes):
            data = memoryview(bytes(data[:taken]))
        self.ask(e.Write(stream, data))
        return taken

    def forget(self, stream: int) -> None:
        """A stream that is over."""
        self._streams.pop(stream, None)

    def happened(self, effect: e.Effect) -> None:
        """An effect of the core."""
        kind = type(effect)
        if kind in _OF_STREAM:
            stream = self._streams.get(effect.stream)  # type: ignore[union-attr]
            if stream is not None:
                _OF_STREAM[kind](stream, effect)
        elif kind in _OF_SESSION:
            _OF_SESSION[kind](self, effect)

    def _set_timer(self, effect: e.SetTimer) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(effect.at, self._fire)

    def _was_opened(self, effect: e.Opened) -> None:
        self._opened = effect.stream
        self._streams[effect.stream] = Stream(self, effect.stream, "", 0)

    def _was_offered(self, effect: e.Offered) -> None:
        stream = self._streams[effect.stream] = Stream(self, effect.stream, effect.purpose, effect.priority)
        stream.begins(effect)
        self._offered.append(stream)
        self._changed.set()

    def _fire(self) -> None:
        self._timer = None
        self._step(self.number, e.Timer())

    def _end(self, effect: e.Closed) -> None:
        self.error = SessionError(f"{effect.words} ({named(effect.code)})", effect.code)
        self.is_connected = False
        if self._timer is not None:
            self._timer.cancel()
        self._streams.clear()
        self._changed.set()
        self._over.set()


def _nothing() -> None:
    pass


_OF_SESSION: Final[dict[type, Callable[[Session, Any], None]]] = {
    e.SetTimer: Session._set_timer,
    e.Opened: Session._was_opened,
    e.Offered: Session._was_offered,
    e.Closed: Session._end,
}
_OF_STREAM: Final[dict[type, Callable[[Stream, Any], None]]] = {
    e.Delivered: Stream.deliver,
    e.Acknowledged: Stream.acknowledge_mine,
    e.Accepted: Stream.begins,
    e.Drained: Stream.drained,
    e.Ended: Stream.ended,
    e.Gone: Stream.gone,
    e.WasReset: Stream.was_reset,
}
