"""One connection of a relay: who is at its other end, and the frames that come and go, in either format.

The first bytes say which it is. An agent that has a place of its own may be silent for ever; then HUSH_S decides.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from rtmw.net.session.errors import in_words
from rtmw.net.session.sockets import ready, tune, user_of
from rtmw.relay.events import Arrived
from rtmw.relay.frame import (
    ADDRESS,
    ANSWERED,
    LEASE_S,
    LINGER_S,
    LONGEST_DATA,
    MAGIC,
    SIZE_OF_HELLO,
    STAMP,
    SUM,
    Form,
    Frame,
    FrameError,
    Hello,
    Kind,
    OwnSplitter,
    Packet,
    Splitter,
    Welcome,
    encode,
    readable,
)
from rtmw.relay.settings import TLS_BEGINS

if TYPE_CHECKING:
    from rtmw.net.security.identity import Peer
    from rtmw.relay.server import Server

BAD_MOST: Final = 16
"""Places with no frame, after which a connection is closed."""
SILENT_S: Final = 30.0
"""A connection that has not said whose it is, where that is not known by its place, is closed."""
HUSH_S: Final = 0.25
"""Who speaks first does so by then; an agent that has a place of its own and says nothing takes frames of the paper."""
HANDSHAKE_S: Final = 3.0
UNSENT_MOST: Final = 1 << 20
"""Bytes that wait, beside one order, for an agent which does not read; it is closed beyond them."""
BEHIND: Final = 768 << 10
"""Bytes that wait, from which on no order is sent once more."""
STRANGE: Final = "no agent of the settings connects from there"
TURN: Final = 64
"""Frames that are heard before other connections, timers and signals have their turn."""
_NUMBERS: Final = count(1)


class Connection(asyncio.Protocol):
    """Not for several threads."""

    def __init__(self, server: Server, address: str, *, dialled: str = "", first: bytes | None = None) -> None:
        """`address`: of the host, or the user. `dialled`: the agent it was made for. `first`: the byte that it begins
        with; empty: nothing has come; None: TLS hides it."""
        self.number = next(_NUMBERS)
        self.address, self.dialled = address, dialled
        self.peer: Peer | None = None
        """As its certificate says; None: it has no TLS."""
        self.agent = ""
        """Empty: nobody knows yet."""
        self.splitter = Splitter()
        self.is_over = False
        """It is closed, or about to be: nothing more is heard."""
        self._server, self._is_silent = server, first == b""
        self._may_be_own = not dialled and first in (None, MAGIC[:1])
        """So its hello is heard before it is refused: what is sent before is lost where unread bytes are left."""
        self._own: OwnSplitter | None = None
        """None: it speaks the frame of the paper, or is not known to do otherwise."""
        self._crc = self._is_own = False
        self._begun: bytes | None = b""
        """What has come, while it may be the beginning of a hello; None: it is none."""
        self._heard: list[Arrived] = []
        """Frames that have come, and were not heard."""
        self._unwritten = bytearray()
        """What one turn of the loop has for it, which is written at once."""
        self._transport: asyncio.Transport | None = None

    @property
    def place(self) -> str:
        """Where it comes from, for people."""
        return self.peer.name if self.peer is not None else self.address

    @property
    def unsent(self) -> int:
        """Bytes that its other end has not taken."""
        return len(self._unwritten) + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    @property
    def _form(self) -> Form:
        return self._server.policy.relay.form

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.made(self)
        self.splitter = Splitter(self._server.policy.relay.checksum, self._form)
        if not self._server.certified(self, transport.get_extra_info("ssl_object")):
            return
        agents = self._server.candidates(self)
        if not agents and self._may_be_own:
            asyncio.get_running_loop().call_later(HUSH_S, self._be_strange)
        elif not agents:
            self._be_strange()
        elif self._is_silent and len(agents) == 1:
            self._server.is_of(self, next(iter(agents.values())).name)

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        try:
            self._heard += self._divided(data)
        except FrameError as error:
            self._server.refuse(self, str(error))
            return
        self._hear()
        if sum(self.splitter.bad.values()) > BAD_MOST:
            causes = ", ".join(f"{number} × {cause}" for cause, number in self.splitter.bad.items())
            self._server.refuse(self, f"what comes is no frames: {causes}")

    def _divided(self, data: bytes) -> list[Arrived]:
        """The frames that are whole by now. Raises FrameError for what no agent of this package says."""
        if self._begun is not None:
            data, self._begun = self._begun + data, None
            if MAGIC.startswith(data[: len(MAGIC)]):
                self._is_own = len(data) >= len(MAGIC)
                if len(data) < SIZE_OF_HELLO:
                    self._begun = data
                    return []
                self._welcome(Hello.decode(data[:SIZE_OF_HELLO]))
                data = data[SIZE_OF_HELLO:]
        if self._own is not None:
            return [arrived for packet in self._own.feed(data) if (arrived := self._arrived(packet)) is not None]
        return [Arrived(self.number, frame) for frame in self.splitter.feed(data)]

    def _welcome(self, hello: Hello) -> None:
        agents = self._server.candidates(self)
        if not agents:
            raise FrameError(STRANGE)
        agent = agents.get(hello.address)
        if agent is None:
            raise FrameError(f"its hello is of {readable(hello.address)}, who is not there")
        if self.agent:
            raise FrameError("its hello came too late: it was taken for an agent with frames of the paper")
        self._crc = hello.crc or self._server.is_exposed(self)
        self._own = OwnSplitter(self._crc)
        relay, highest = self._server.policy.relay, self._server.store.state.highest.get(agent.name, b"")
        self._write(Welcome(relay.t2, relay.n2, LONGEST_DATA, highest, self._crc).encode())
        self._server.is_of(self, agent.name, hello)

    def _arrived(self, packet: Packet) -> Arrived | None:
        """The frame as the paper has it, in the letters of this relay; None: it was answered here."""
        kind, frame, form = packet.kind, packet.frame, self._form
        if kind is Kind.PING:
            self._write(encode(packet._replace(kind=Kind.PONG), self._crc))
        if kind in (Kind.PING, Kind.PONG):
            return None
        is_answer = kind in (Kind.RECEIPT, Kind.ANSWER, Kind.ALERT)
        if is_answer and len(frame.data) < ANSWERED:
            raise FrameError(f"an answer of {len(frame.data)} bytes; it begins with the {ANSWERED} of what it answers")
        letters = form.answer if is_answer else form.order, form.alert if kind is Kind.ALERT else frame.command
        if (frame.type, frame.command) != letters:
            frame = replace(frame, type=letters[0], command=letters[1])
        return Arrived(self.number, frame, None if is_answer else kind, packet.priority, packet.lifetime)

    def _hear(self) -> None:
        """What has come, at the rate that the rules give its agent: TCP slows who sends more."""
        while self._heard and not self.is_over and (self.agent or self._introduced(self._heard[0].frame)):
            wait = self._server.wait(self)
            if wait:
                self._pause(wait)
                return
            heard = self._heard[: 1 if wait is not None else TURN]
            del self._heard[: len(heard)]
            self._server.arrived(heard)
            if wait is not None:  # its rate counts them
                self._server.step()
            if len(heard) == TURN:  # the loop would go on to read while there is more
                self._pause(0)
                return

    def _introduced(self, frame: Frame) -> bool:
        """Where several agents may be at the other end, the source of the first frame says which."""
        agents = self._server.candidates(self)
        named = next(iter(agents.values())) if len(agents) == 1 else agents.get(frame.source)
        if named is None:
            whose = f"its first frame is of {readable(frame.source)}, who is not there"
            self._server.refuse(self, whose if agents else STRANGE)
            return False
        self._server.is_of(self, named.name)
        return True

    def _be_strange(self) -> None:
        if self._transport is not None:
            self._server.refuse(self, STRANGE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.lost(self)

    def send(self, packet: Packet, checksum: str) -> None:
        """`checksum`: its form, where nothing has come yet that says it. Raises FrameError for what does not fit."""
        if self._own is not None:
            self._write(encode(packet, self._crc))
            return
        kind = self.splitter.checksum if self.splitter.checksum != "auto" else checksum
        self._write(packet.frame.encode(kind, self._form))

    def _write(self, raw: bytes) -> None:
        if self._transport is None or self.is_over:
            return
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unwritten += raw

    def _flush(self) -> None:
        if self._transport is not None and self._unwritten:
            self._transport.write(bytes(self._unwritten))
        self._unwritten.clear()
        if self.unsent > UNSENT_MOST + (self._form.longest if self._own is None else LONGEST_DATA):
            self._server.refuse(self, "it does not read what is sent to it")

    def _pause(self, seconds: float) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if self._transport is not None and not self.is_over:
            self._transport.resume_reading()
            self._hear()

    def close(self, words: str = "") -> None:
        """What was to be sent is sent first, if the other end reads it soon. An agent of this package is told why."""
        if words and self._is_own:
            form, none = self._form, bytes(ADDRESS)
            nothing = Frame(none, none, bytes(STAMP), form.answer, form.alert, b"", bytes(SUM))
            self._write(encode(Packet(Kind.ALERT, nothing.alert(bytes(STAMP), words, form)), self._crc))
        self.is_over = True
        if self._transport is not None:
            self._flush()
            self._transport.close()
            asyncio.get_running_loop().call_later(LINGER_S, self._abort)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class RelayGuest:
    """A connection that was accepted, or dialled, until it is known whose it is, and how it speaks."""

    def __init__(self, server: Server, sock: socket.socket, address: str, dialled: str = "") -> None:
        """`address`: of the host that it comes from, or the user, `uid:1000`. `dialled`: the agent it was made for."""
        self._server, self._socket, self._dialled = server, sock, dialled
        self._address = user_of(sock) if sock.family == socket.AF_UNIX else address
        self._is_taken = False

    async def greet(self) -> None:
        """The door closes those that say nothing, if others come; but for those whose place says who they are."""
        self._socket.setblocking(False)
        tune(self._socket, LEASE_S, is_asked=True)
        if self._is_of_one:
            self._server.keep(self.enter())
        else:
            await self.enter()

    @property
    def _is_of_one(self) -> bool:
        return bool(self._dialled) or self._server.is_place_of_one(self._address)

    async def enter(self) -> None:
        """Until it is known whose it is, or was refused."""
        try:
            connection = await self._connected()
        except OSError as error:
            self._server.turn_away(self._address, in_words(error, "")[1])
        else:
            if connection is not None:
                await self._server.known(connection)
        finally:
            self._close()

    async def _connected(self) -> Connection | None:
        server, is_open = self._server, self._server.takes_plain(self._address)
        first = await _first_byte(self._socket, HUSH_S if self._is_of_one and is_open else SILENT_S)
        tls = server.tls[0] if server.tls is not None and first == bytes((TLS_BEGINS,)) else None
        if tls is None and not is_open:
            server.turn_away(self._address, "from beyond this host TLS alone is taken, or insecure = true")
            return None
        made = partial(Connection, server, self._address, dialled=self._dialled, first=None if tls else first)
        loop, patience = asyncio.get_running_loop(), HANDSHAKE_S if tls else None
        self._is_taken = True
        found = await loop.connect_accepted_socket(made, self._socket, ssl=tls, ssl_handshake_timeout=patience)
        return found[1]

    def over(self) -> None:
        """Where it was handed on, the task that has it closes it."""
        if not self._is_of_one:
            self._close()

    def _close(self) -> None:
        """Unless a transport has the socket by now."""
        if not self._is_taken:
            self._socket.close()


async def _first_byte(sock: socket.socket, patience: float) -> bytes:
    """What it begins with stays in the socket. Empty: nothing has come by then, or it is closed. OSError."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await ready(sock.fileno(), "read")
            return sock.recv(1, socket.MSG_PEEK)
    return b""
