"""A session as programs see it: streams are opened and come in; connections come and go underneath."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self
from uuid import UUID

from rtmw.errors import SessionError
from rtmw.net.session import events as e
from rtmw.net.session.core import Core
from rtmw.net.session.errors import Code, named
from rtmw.net.session.links import Up
from rtmw.net.session.stream import Stream


class Session:
    """With one node, in one event loop. It lives until one side closes it, or nothing is heard for the lease.

    `async for stream in session` gives the streams that the peer opens, and ends with the session.
    """

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
        self._opened = self._wrote = 0
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
        room = self._core.room(stream)
        self._wrote = 0
        if room and not isinstance(data.obj, bytes):
            data = memoryview(bytes(data[:room]))
        self.ask(e.Write(stream, data))
        return self._wrote

    def forget(self, stream: int) -> None:
        """A stream that this side has reset."""
        self._streams.pop(stream, None)

    def happened(self, effect: e.Effect) -> None:
        """An effect of the core."""
        if isinstance(effect, e.SetTimer):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(effect.at, self._fire)
        elif isinstance(effect, e.Opened):
            self._opened = effect.stream
            self._streams[effect.stream] = Stream(self, effect.stream, "", 0)
        elif isinstance(effect, e.Offered):
            stream = self._streams[effect.stream] = Stream(self, effect.stream, effect.purpose, effect.priority)
            stream.begins(effect.position)
            self._offered.append(stream)
            self._changed.set()
        elif isinstance(effect, e.Closed):
            self._end(effect)
        else:
            self._of_stream(effect)

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

    def _of_stream(self, effect: e.Effect) -> None:
        if isinstance(effect, e.Wrote):
            self._wrote = effect.size
            return
        stream = self._streams.get(effect.stream)  # type: ignore[union-attr]
        if stream is None:
            return
        if isinstance(effect, e.Delivered):
            stream.deliver(effect.data)
        elif isinstance(effect, e.Acknowledged):
            stream.acknowledge_mine(effect.received, effect.durable)
        elif isinstance(effect, e.Accepted):
            stream.begins(effect.position)
        elif isinstance(effect, e.Drained):
            stream.changed()
        elif isinstance(effect, e.Ended):
            stream.ended()
        elif isinstance(effect, e.Gone):
            stream.gone()
            del self._streams[effect.stream]
        elif isinstance(effect, e.WasReset):
            stream.fail(effect.code, f"it ended before its time: {effect.words}")
            del self._streams[effect.stream]
