"""The listening side before a peer is known: everything that comes here is hostile until its hello.

A connection costs a socket and a task until its guest says that it is through. Beyond the caps the oldest one that is
not through gives way: a slow peer cannot keep others out, and a good one needs milliseconds. Each has PATIENCE.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from rtmw.errors import RtmwError, SessionError
from rtmw.net.session.errors import Code, NotGreeted, Violation
from rtmw.net.session.meetings import PATIENCE
from rtmw.net.session.sockets import user_of

PENDING: Final = 64
"""Connections that are not through, in all."""
PENDING_OF_ONE: Final = 8
"""Connections of one address or user that are not through."""
REST: Final = 0.1
"""Seconds without accepting after the process ran out of descriptors."""


class Guest(Protocol):
    """A connection that was accepted."""

    async def greet(self) -> None:
        """Greets the peer, from the first bytes until it is through or has failed. Cancelled when it has to give
        way."""
        ...

    def over(self) -> None:
        """`greet` is over, or was never begun."""
        ...


class NodeGuest(ABC):
    """A connection that should be another node's: it is through, or refused and counted, within PATIENCE."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    async def greet(self) -> None:
        """Lets the connection in within PATIENCE, or refuses it."""
        try:
            async with asyncio.timeout(PATIENCE):
                self.socket.setblocking(False)
                await self.let_in()
        except TimeoutError:
            await self.refuse("too slow", NotGreeted("too slow", "it took too long to say who it is", Code.SILENT))
        except (RtmwError, Violation) as error:  # also TlsError
            said = SessionError(str(error), error.code) if isinstance(error, Violation) else error
            await self.refuse("refused", said)
        except OSError as error:
            await self.refuse("connection lost", error)

    @abstractmethod
    async def let_in(self) -> None:
        """Returns once it is through. Raises OSError, RtmwError, Violation; then it is refused."""

    @abstractmethod
    async def refuse(self, cause: str, error: Exception) -> None:
        """Count it, once, and say why where that can be said. `cause`: of what says nothing better."""


class Accepting:
    """Accepts the connections of a listening socket, one in each turn of the loop: whoever has come before has had a
    turn by then, and may be through. No coroutine: one that is cancelled when a connection has just come loses it,
    open."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        come: Callable[[socket.socket, Any], None],
        failed: Callable[[], None],
    ) -> None:
        """`come`: told of a connection, and of the address of its other end. `failed`: there was one, and it could not
        be had."""
        self._loop, self._socket, self._come, self._failed = loop, listening, come, failed
        self._resting: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Idempotent. The listening socket stays open."""
        if self._resting is not None:
            self._resting.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())

    def _listen(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            sock, address = self._socket.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left, or the peer has gone again
            self._failed()
            self._loop.remove_reader(self._socket.fileno())
            self._resting = self._loop.call_later(REST, self._listen)
            return
        sock.setblocking(False)
        self._come(sock, address)


class Door:
    """Accepts connections of one listening socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        refused: Counter[str],
        guest: Callable[[socket.socket, str], Guest],
        of_one: int = PENDING_OF_ONE,
    ) -> None:
        """`guest`: of a connection, and of the address that it came from: that of a host, or a user, `uid:1000`.
        `of_one`: connections of one address that may be pending."""
        self._loop, self._socket, self._refused, self._guest = loop, listening, refused, guest
        self._of_one = of_one
        self._pending: dict[asyncio.Task[None], str] = {}
        self._accepting = Accepting(loop, listening, self._come, lambda: refused.update(["not accepted"]))

    def close(self) -> None:
        """Idempotent."""
        self._accepting.close()
        for task in self._pending:
            task.cancel()
        self._socket.close()

    def _come(self, sock: socket.socket, address: Any) -> None:
        self._admit(sock, user_of(sock) if sock.family == socket.AF_UNIX else address[0])

    def _admit(self, sock: socket.socket, address: str) -> None:
        same = [task for task, other in self._pending.items() if other == address]
        if len(same) >= self._of_one:
            self._give_way(same[0], "too many of one address")
        elif len(self._pending) >= PENDING:
            self._give_way(next(iter(self._pending)), "too many")
        guest = self._guest(sock, address)
        task = self._loop.create_task(guest.greet())
        self._pending[task] = address
        task.add_done_callback(lambda done: self._over(done, guest))

    def _over(self, task: asyncio.Task[None], guest: Guest) -> None:
        self._pending.pop(task, None)
        guest.over()

    def _give_way(self, task: asyncio.Task[None], cause: str) -> None:
        self._refused[cause] += 1
        del self._pending[task]
        task.cancel()
