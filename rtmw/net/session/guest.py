"""A connection that was accepted, until it carries a session."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from rtmw.net.session.links import Overdue
from rtmw.net.session.meetings import PATIENCE
from rtmw.net.session.pipe import Pipe
from rtmw.net.session.sockets import FIRST, first_bytes, is_plausible

if TYPE_CHECKING:
    from rtmw.net.session.carrier import Carrier


class SessionGuest:
    """No TLS state is made before the first bytes are those of TLS (or, without, of a hello)."""

    def __init__(self, carrier: Carrier, sock: socket.socket, context: Callable[[], ssl.SSLContext | None]) -> None:
        self._carrier, self._socket, self._context = carrier, sock, context
        self._pipe = Pipe(carrier, is_dialler=False)

    def over(self) -> None:
        if self._pipe.number == 0:
            self._socket.close()

    async def greet(self) -> None:
        """From the first bytes to the session, or to the end."""
        pipe, refused = self._pipe, self._carrier.refused
        try:
            async with asyncio.timeout(PATIENCE):
                await self._let_in()
                await asyncio.wait([pipe.joined])
        except TimeoutError:
            refused["too slow"] += 1
            self._carrier.tell(Overdue(pipe.number))
        except (OSError, ssl.SSLError) as error:
            self._carrier.refuse("TLS" if isinstance(error, ssl.SSLError) else "connection lost", error)
        except asyncio.CancelledError:
            self._carrier.abort(pipe)

    async def _let_in(self) -> None:
        sock = self._socket
        sock.setblocking(False)
        first = await first_bytes(sock)
        context = self._context()
        if len(first) < FIRST or not is_plausible(first, tls=context is not None):
            self._carrier.refused["no node" if first else "nothing said"] += 1
            raise ConnectionAbortedError("what came first is neither TLS nor a hello")
        await self._carrier.loop.connect_accepted_socket(
            lambda: self._pipe, sock, ssl=context, ssl_handshake_timeout=PATIENCE if context else None
        )
