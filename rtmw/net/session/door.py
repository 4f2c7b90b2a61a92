"""The listening side before a peer is known: everything that comes here is hostile until its hello.

A connection costs a socket and a task until its first bytes are those of TLS (or, without, of a hello). Beyond the caps
the oldest one that is not through gives way: a slow peer cannot keep others out, and a good one needs milliseconds.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rtmw.net.session.links import Overdue
from rtmw.net.session.meetings import PATIENCE
from rtmw.net.session.pipe import Pipe
from rtmw.net.session.sockets import FIRST, first_bytes, is_plausible, tune

if TYPE_CHECKING:
    from rtmw.net.session.carrier import Carrier

PENDING: Final = 64
"""Connections that are not through, in all."""
PENDING_OF_ONE: Final = 8
"""The same of one address."""
REST: Final = 0.1
"""Seconds without accepting after the process ran out of descriptors."""


class Door:
    """Accepts connections of one listening socket."""

    def __init__(
        self, carrier: Carrier, listening: socket.socket, context: Callable[[], ssl.SSLContext | None]
    ) -> None:
        self._carrier = carrier
        self._socket = listening
        self._context = context
        self._pending: dict[asyncio.Task[None], str] = {}
        self._accepting = carrier.loop.create_task(self._accept())

    @property
    def refused(self) -> Counter[str]:
        return self._carrier.refused

    def close(self) -> None:
        self._accepting.cancel()
        for task in self._pending:
            task.cancel()
        self._carrier.loop.remove_reader(self._socket.fileno())
        self._socket.close()

    async def _accept(self) -> None:
        while True:
            try:
                sock, address = await self._carrier.loop.sock_accept(self._socket)
            except OSError:  # no descriptor is left, or the peer has gone again
                self.refused["not accepted"] += 1
                await asyncio.sleep(REST)
                continue
            self._admit(sock, address[0] if address else "")

    def _admit(self, sock: socket.socket, address: str) -> None:
        same = [task for task, other in self._pending.items() if other == address]
        if len(same) >= PENDING_OF_ONE:
            self._give_way(same[0], "too many of one address")
        elif len(self._pending) >= PENDING:
            self._give_way(next(iter(self._pending)), "too many")
        pipe = Pipe(self._carrier, is_dialler=False)
        task = self._carrier.loop.create_task(self._greet(sock, pipe))
        self._pending[task] = address
        task.add_done_callback(lambda done: self._over(done, sock, pipe))

    def _over(self, task: asyncio.Task[None], sock: socket.socket, pipe: Pipe) -> None:
        """Also of a task that gave way before its first step."""
        self._pending.pop(task, None)
        if pipe.number == 0:
            sock.close()

    def _give_way(self, task: asyncio.Task[None], cause: str) -> None:
        self.refused[cause] += 1
        del self._pending[task]
        task.cancel()

    async def _greet(self, sock: socket.socket, pipe: Pipe) -> None:
        """From the first bytes to the session, or to the end."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._let_in(sock, pipe)
                await asyncio.wait([pipe.settled])
        except TimeoutError:
            self.refused["too slow"] += 1
            self._carrier.tell(Overdue(pipe.number))
        except (OSError, ssl.SSLError) as error:
            self._carrier.refuse("TLS" if isinstance(error, ssl.SSLError) else "connection lost", error)
        except asyncio.CancelledError:
            self._carrier.abort(pipe)

    async def _let_in(self, sock: socket.socket, pipe: Pipe) -> None:
        sock.setblocking(False)
        first = await first_bytes(sock)
        context = self._context()
        if len(first) < FIRST or not is_plausible(first, tls=context is not None):
            self.refused["no node" if first else "nothing said"] += 1
            raise ConnectionAbortedError("what came first is neither TLS nor a hello")
        tune(sock, self._carrier.terms.lease)
        await self._carrier.loop.connect_accepted_socket(
            lambda: pipe, sock, ssl=context, ssl_handshake_timeout=PATIENCE if context else None
        )
