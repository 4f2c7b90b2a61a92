"""A connection in asyncio: bytes from the socket to the carrier and back; and how one that was accepted begins."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final, cast

from rtmw.errors import SessionError
from rtmw.net.session.door import NodeGuest
from rtmw.net.session.errors import Code
from rtmw.net.session.links import Overdue
from rtmw.net.session.meetings import PATIENCE
from rtmw.net.session.sockets import look

if TYPE_CHECKING:
    from rtmw.net.session.carrier import Carrier

ROOM: Final = 65536
"""Bytes that are asked of the core at a time, and that may lie in the transport."""


class Pipe(asyncio.BufferedProtocol):
    """One connection. The carrier numbers it; all its bytes are read into one buffer of the carrier."""

    def __init__(self, carrier: Carrier, *, is_dialler: bool) -> None:
        self.number = 0
        self.is_dialler = is_dialler
        self.is_paused = False
        self.room = 0
        """What is left of the bytes that the core was told to send; it may have more left itself."""
        self.expiry: asyncio.TimerHandle | None = None
        self.error: SessionError | None = None
        self.joined: asyncio.Future[int] = carrier.loop.create_future()
        """The session that this connection carries; or SessionError, if it came to none."""
        self.gone: asyncio.Future[None] = carrier.loop.create_future()
        self._carrier = carrier
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=ROOM)
        self._carrier.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._carrier.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._carrier.arrived(self, nbytes)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self._carrier.has_room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.expiry is not None:
            self.expiry.cancel()
        self._carrier.lost(self, exc)
        if not self.gone.done():
            self.gone.set_result(None)

    def fail(self, error: SessionError) -> None:
        """It comes to no session, or carries none any more."""
        self.error = error
        if not self.joined.done():
            self.joined.set_exception(error)
            self.joined.exception()  # nobody has to ask

    def carries(self, session: int) -> None:
        if not self.joined.done():
            self.joined.set_result(session)


class SessionGuest(NodeGuest):
    """No TLS state is made before the first bytes are those of TLS (or, without, of a hello)."""

    def __init__(self, carrier: Carrier, sock: socket.socket) -> None:
        super().__init__(sock)
        self._carrier, self._pipe = carrier, Pipe(carrier, is_dialler=False)

    def over(self) -> None:
        if self._pipe.number == 0:
            self.socket.close()
        elif not self._pipe.joined.done():  # it has given way
            self._carrier.abort(self._pipe)

    async def let_in(self) -> None:
        carrier, pipe = self._carrier, self._pipe
        identity = None if self.socket.family == socket.AF_UNIX else carrier.identity
        await look(self.socket, tls=identity is not None)
        context = identity.server_context() if identity else None
        await carrier.loop.connect_accepted_socket(
            lambda: pipe, self.socket, ssl=context, ssl_handshake_timeout=PATIENCE if context else None
        )
        await asyncio.wait([pipe.joined])

    async def refuse(self, cause: str, error: Exception) -> None:
        self._carrier.refuse(cause, error)
        self._pipe.fail(SessionError(str(error), Code.SILENT))  # it is counted
        self._carrier.tell(Overdue(self._pipe.number))
