"""One connection of a relay: who is at its other end, and the frames that come and go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from rtmw.net.session.sockets import tune, user_of
from rtmw.relay.frame import Form, Frame, Splitter, readable
from rtmw.relay.settings import Agent

if TYPE_CHECKING:
    from rtmw.relay.server import Server

BAD_MOST: Final = 16
"""Places with no frame, after which a connection is closed."""
LEASE_S: Final = 30.0
"""After half of it, a connection is ended whose other end acknowledges nothing."""
LINGER_S: Final = 1.0
"""So long a connection that is closed may take to send what it has."""
UNSENT_MOST: Final = 1 << 20
"""Bytes that wait for an agent which does not read; it is closed beyond them."""
TURN: Final = 64
"""Frames that are heard before other connections, timers and signals have their turn."""
_NUMBERS: Final = count(1)


class Connection(asyncio.Protocol):
    """Not for several threads."""

    def __init__(self, server: Server, candidates: Callable[[], list[Agent]], place: str) -> None:
        """`candidates`: the agents that it may be of. `place`: where it comes from, or the user."""
        self.number = next(_NUMBERS)
        self.place = place
        self.agent = ""
        """Empty: nobody knows yet."""
        self.splitter = Splitter()
        self._server, self._candidates = server, candidates
        self.is_over = False
        """It is closed, or about to be: nothing more is heard."""
        self._frames: list[Frame] = []
        """That have come and were not heard."""
        self._transport: asyncio.Transport | None = None

    @property
    def _form(self) -> Form:
        return self._server.policy.relay.form

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        found = transport.get_extra_info("socket")
        if found.family != socket.AF_UNIX:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, round(LEASE_S / 2))
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, round(LEASE_S / 6))
        self._server.made(self)
        self.splitter = Splitter(self._server.policy.relay.checksum, self._form)
        agents = self._candidates()
        if len(agents) == 1:
            self._server.is_of(self, agents[0].name)
        elif not agents:
            self._server.refuse(self, "no agent of the settings connects from there")

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        self._frames += self.splitter.feed(data)
        self._hear()
        if sum(self.splitter.bad.values()) > BAD_MOST:
            causes = ", ".join(f"{number} × {cause}" for cause, number in self.splitter.bad.items())
            self._server.refuse(self, f"what comes is no frames: {causes}")

    def _hear(self) -> None:
        """What has come, at the rate that the rules give its agent: TCP slows who sends more."""
        while self._frames and not self.is_over and (self.agent or self._introduced(self._frames[0])):
            wait = self._server.wait(self)
            if wait:
                self._pause(wait)
                return
            heard = self._frames[: 1 if wait is not None else TURN]
            del self._frames[: len(heard)]
            self._server.arrived(self, heard)
            if len(heard) == TURN:  # the loop would go on to read while there is more
                self._pause(0)
                return

    def _introduced(self, frame: Frame) -> bool:
        """Where several agents may be at the other end, the source of the first frame says which."""
        named = next((one for one in self._candidates() if one.address == frame.source), None)
        if named is None:
            self._server.refuse(self, f"its first frame is of {readable(frame.source)}, who is not there")
            return False
        self._server.is_of(self, named.name)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.lost(self)

    def send(self, frame: Frame, checksum: str) -> None:
        """`checksum`: its form, where nothing has come yet that says it."""
        if self._transport is None or self.is_over:
            return
        kind = self.splitter.checksum if self.splitter.checksum != "auto" else checksum
        self._transport.write(frame.encode(kind, self._form))
        if self._transport.get_write_buffer_size() > UNSENT_MOST:
            self._server.refuse(self, "it does not read what is sent to it")

    def _pause(self, seconds: float) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if self._transport is not None and not self.is_over:
            self._transport.resume_reading()
            self._hear()

    def close(self) -> None:
        """What was to be sent is sent first, if the other end reads it soon."""
        self.is_over = True
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(LINGER_S, self._abort)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class RelayGuest:
    """A connection that was accepted, until it is known whose it is."""

    def __init__(self, server: Server, sock: socket.socket, address: str) -> None:
        """`address`: of the host that it comes from, or the user, `uid:1000`."""
        self._server, self._socket, self._address = server, sock, address

    async def greet(self) -> None:
        """Until its agent is known; the door closes those that say nothing, if others come."""
        sock = self._socket
        sock.setblocking(False)
        tune(sock, LEASE_S)
        place = user_of(sock) if sock.family == socket.AF_UNIX else self._address
        loop = asyncio.get_running_loop()
        _, connection = await loop.connect_accepted_socket(
            lambda: Connection(self._server, lambda: self._server.candidates(place), place), sock
        )
        await self._server.known(connection)

    def over(self) -> None:
        """The transport has the socket by now, or nobody."""
