"""Sessions over TCP, TLS 1.3 and Unix sockets, in asyncio or uvloop: Meetings with sockets, timers and a clock.

A `Pipe` carries bytes from the socket of one connection to the carrier and back. Who dials tries the first connection
once, and later ones again and again while the session lives.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections import Counter, deque
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast
from uuid import UUID

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError, SessionError
from rtmw.net.security import SecurityError
from rtmw.net.session import events as e
from rtmw.net.session import meetings as m
from rtmw.net.session.errors import Code, in_words, named
from rtmw.net.session.frames import bye
from rtmw.net.session.hello import Hello, Terms
from rtmw.net.session.meetings import PATIENCE, Meetings, Overdue
from rtmw.net.session.session import Session
from rtmw.net.session.sockets import BACKLOG, Backoff, Door, NodeGuest, carry, look, reach, tune, user_of
from rtmw.text.addresses import UNIX, bracketed, is_loopback, place_to_reach, unix_path

if TYPE_CHECKING:
    from rtmw.net.security.identity import Identity, Peer


EVERYBODY: Final = 0o666
"""Mode of a Unix socket. Rules say who may do what; the mode of its folder says who reaches the file."""
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
        self.joined: asyncio.Future[Session] = carrier.loop.create_future()
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
        """The connection comes to no session, or carries none any more."""
        self.error = error
        if not self.joined.done():
            self.joined.set_exception(error)
            self.joined.exception()  # nobody has to ask

    def carries(self, session: Session) -> None:
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
        patience = PATIENCE if context else None
        await carry(lambda: pipe, self.socket, context, is_dialler=False, patience=patience)
        await asyncio.wait([pipe.joined])

    async def refuse(self, cause: str, error: Exception) -> None:
        self._carrier.refuse(cause, error)
        self._pipe.fail(SessionError(str(error), Code.SILENT))  # it is counted
        self._carrier.tell(Overdue(self._pipe.number))


LONGEST: Final = 0.1
"""Seconds between two tries, at most, while the session lives: its lease bounds their number, and what is on its way
waits for the next one."""


class Dialling:
    """Keeps one session connected."""

    def __init__(self, carrier: Carrier, place: str) -> None:
        self._carrier, self._place = carrier, place
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def first(self) -> Session:
        """The session of the first connection. Raises SessionError."""
        session = await self._newest()
        if session.error is not None:  # it was over at once
            raise SessionError(f"{self._place}: {session.error}", Code.CLOSED) from session.error
        self._task = self._carrier.loop.create_task(self._keep(session))
        return session

    async def _newest(self) -> Session:
        """Two nodes may dial each other at once. A connection that the peer heard of after one of its own is not their
        session, and this node may not know yet that it has one; the next connection is the newest. Raises SessionError.
        """
        backoff, until = Backoff(longest=LONGEST), self._carrier.loop.time() + PATIENCE
        while True:
            await anext(backoff)
            try:
                return await self._try()
            except SessionError as error:
                if error.code != Code.REPLACED or self._carrier.loop.time() > until:
                    raise

    async def _try(self) -> Session:
        """One connection, up to the session that it carries. Raises SessionError."""
        pipe = Pipe(self._carrier, is_dialler=True)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._connect(pipe)
                return await asyncio.shield(pipe.joined)
        except TimeoutError:
            raise SessionError(f"{self._place}: no session within {PATIENCE:g} s", Code.SILENT) from None
        except SessionError as error:
            raise SessionError(f"{self._place}: {error}", error.code) from error
        except OSError as error:  # also SSLError
            raise SessionError(f"{self._place}: {in_words(error, '')[1]}", Code.REFUSED) from error
        finally:
            if not (pipe.joined.done() and not pipe.joined.exception()):
                self._carrier.abort(pipe)

    async def _connect(self, pipe: Pipe) -> None:
        identity, sock = self._carrier.identity, await reach(self._place)
        context = identity.client_context() if identity and sock.family != socket.AF_UNIX else None
        await carry(lambda: pipe, sock, context, is_dialler=True)

    async def _keep(self, session: Session) -> None:
        """Whichever connection carries the session: that of the other side, too."""
        backoff = Backoff(longest=LONGEST)
        async for _ in backoff:
            if session.error is not None:
                return
            if not session.is_connected:
                try:
                    await self._try()
                except RtmwError:
                    continue
            backoff.reset()
            await session.cut()


BUFFER: Final = 1 << 20
"""Bytes read at a time."""
LOOK: Final = 60.0
"""Seconds after which it is looked again whether the certificate of a peer is valid: clocks are set."""


class Carrier:
    """The sessions of one node, in one event loop.

    `node`: UUID of this node; `incarnation`: which life, by default the nanoseconds of now. `identity`: its keys, for
    TLS; without them connections are plain text, which is allowed on loopback, or anywhere with `insecure=True`.
    `async for session in carrier` gives sessions that began, of both sides' making; those of `connect` too.
    """

    def __init__(
        self,
        node: UUID,
        *,
        identity: Identity | None = None,
        insecure: bool = False,
        terms: Terms | None = None,
        hello: Hello | None = None,
    ) -> None:
        """`hello`: what else to say of this node: site, hops, capabilities. Its other fields are made from `terms`."""
        self.loop = asyncio.get_running_loop()
        self.identity = identity
        self.terms = terms = terms or Terms()
        self.refused: Counter[str] = Counter()
        """Connections that came to no session, by cause."""
        self.begun = 0
        """Sessions that began."""
        self.buffer = memoryview(bytearray(BUFFER))
        self._insecure = insecure
        given = hello or Hello(node, CLOCK.wall_ns())
        mine = Hello(
            *(node, given.incarnation, given.lowest, given.highest, given.site, given.hops),
            lease=terms.lease,
            stream_credit=terms.stream_credit,
            session_credit=terms.session_credit,
            streams=terms.streams,
            capabilities=given.capabilities,
        )
        mine.packed()  # raises now for a field that has no room in it
        self._meetings = Meetings(mine, terms, lambda: secrets.randbits(64) or 1)
        self._pipes: dict[int, Pipe] = {}
        self._peers: dict[int, Peer] = {}
        self._sessions: dict[int, Session] = {}
        self._begun: deque[Session] = deque()
        self._changed = asyncio.Event()
        self._doors: list[Door] = []
        self._dialling: set[Dialling] = set()
        self._effects: deque[m.Effect] = deque()
        self._is_busy = self._is_closed = False
        self._number = 0

    async def listen(self, host: str, port: int = 0) -> int:
        """Accept connections at this address. Returns the port. Raises SessionError: plain text is not allowed here."""
        self._check_plain(host)
        found = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return self._listen(listening, address)

    async def listen_unix(self, path: Path) -> None:
        """Accept connections at a Unix socket: peers are named by their user, `uid:1000`, as the kernel says."""
        self._listen(socket.socket(socket.AF_UNIX), str(path))

    def _listen(self, listening: socket.socket, address: object) -> int:
        try:
            listening.bind(address)  # type: ignore[arg-type]
            if listening.family == socket.AF_UNIX:
                os.chmod(str(address), EVERYBODY)
        except OSError as error:
            listening.close()
            raise SessionError(f"cannot listen at {address}: {error.strerror}", Code.REFUSED) from error
        listening.listen(BACKLOG)
        listening.setblocking(False)
        self._doors.append(Door(self.loop, listening, self.refused, lambda sock, _: SessionGuest(self, sock)))
        return 0 if listening.family == socket.AF_UNIX else int(listening.getsockname()[1])

    async def connect(self, host: str, port: int) -> Session:
        """A session with the node at this address; connected again after each cut, until the session is over.

        Raises SessionError: nobody is there, or one of the two refuses the other; the message says which and why.
        """
        self._check_plain(host)
        return await self._dial(Dialling(self, f"{bracketed(host)}:{port}"))

    async def connect_unix(self, path: Path) -> Session:
        """A session with the node at this Unix socket, as `connect` makes it over TCP."""
        return await self._dial(Dialling(self, f"{UNIX}{path}"))

    async def connect_to(self, place: str) -> Session:
        """A session with the node at `HOST:PORT` or `unix:PATH`. Raises ValueError, too."""
        path = unix_path(place)
        return await (self.connect(*place_to_reach(place)) if path is None else self.connect_unix(Path(path)))

    async def _dial(self, dialling: Dialling) -> Session:
        self._dialling.add(dialling)
        try:
            return await dialling.first()
        except BaseException:
            dialling.close()
            self._dialling.discard(dialling)
            raise

    def _check_plain(self, host: str) -> None:
        if self._is_closed:
            raise SessionError("the carrier is closed", Code.CLOSED)
        if self.identity is None and not self._insecure and not is_loopback(host):
            raise SessionError(
                f"{host} is not loopback: anyone on the way could read and change what is sent. Give the node keys "
                "(rtmw node keys), or set insecure = true",
                Code.REFUSED,
            )

    def recheck(self, identity: Identity) -> None:
        """Use these keys, and end connections of peers that they do not trust any more."""
        self.identity = identity
        for number in list(self._peers):
            self._look(self._pipes[number])

    async def close(self) -> None:
        """End all sessions, and stop listening and dialling."""
        if self._is_closed:
            return
        self._is_closed = True
        for door in self._doors:
            door.close()
        for dialling in self._dialling:
            dialling.close()
        for session in list(self._sessions.values()):
            session.close("the node ends")
        pipes = list(self._pipes.values())
        for pipe in pipes:
            pipe.transport.close()
        if pipes:
            _, slow = await asyncio.wait([pipe.gone for pipe in pipes], timeout=1)
            for pipe in pipes if slow else ():
                pipe.transport.abort()
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Session:
        while not self._begun:
            if self._is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._begun.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Between the pipes and the meetings.

    def tell(self, event: m.Event) -> None:
        """An event; its effects are carried out in order, those of events that they cause behind them."""
        self._effects += self._meetings.step(event, self.loop.time())
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._effects:
                self._happened(self._effects.popleft())
        finally:
            self._is_busy = False

    def made(self, pipe: Pipe) -> None:
        """A connection is there, with its TLS."""
        tune(pipe.transport.get_extra_info("socket"), self.terms.lease)
        self._number += 1
        pipe.number = self._number
        self._pipes[pipe.number] = pipe
        try:
            name, is_plain = self._name_of(pipe)
        except SecurityError as error:
            self.refuse("not trusted", error)
            pipe.fail(SessionError(f"the peer is not trusted: {error}", Code.REFUSED))
            pipe.transport.write(bye(Code.REFUSED, str(error), crc=False))
            pipe.transport.close()
            return
        self.tell(m.Connected(pipe.number, pipe.is_dialler, name, is_plain))
        self.has_room(pipe)

    def _name_of(self, pipe: Pipe) -> tuple[str, bool]:
        """The peer's name, and whether frames need a CRC. Raises SecurityError."""
        tls = pipe.transport.get_extra_info("ssl_object")
        sock = pipe.transport.get_extra_info("socket")
        if tls is None:
            return (user_of(sock) if sock.family == socket.AF_UNIX else ""), True
        assert self.identity is not None
        self._peers[pipe.number] = self.identity.peer_of(tls.getpeercert(binary_form=True))
        self._look(pipe)
        return self._peers[pipe.number].name, False

    def _look(self, pipe: Pipe) -> None:
        """Is the certificate of the peer still good? Asked again when it expires."""
        peer = self._peers[pipe.number]
        fault = self.identity.fault(peer) if self.identity else None
        if pipe.expiry is not None:
            pipe.expiry.cancel()
        if fault is not None:
            self.tell(m.Refuse(pipe.number, Code.EXPIRED, str(fault)))
        else:
            wait = min(LOOK, max(0.0, peer.expires - CLOCK.wall()) + 0.01)
            pipe.expiry = self.loop.call_later(wait, self._look, pipe)

    def arrived(self, pipe: Pipe, size: int) -> None:
        self.tell(m.Arrived(pipe.number, self.buffer[:size]))

    def has_room(self, pipe: Pipe) -> None:
        """Its transport takes bytes, and the core may have used up what it was told last."""
        if not pipe.is_paused:
            pipe.room = ROOM
            self.tell(m.RoomOn(pipe.number, ROOM))

    def lost(self, pipe: Pipe, error: Exception | None) -> None:
        if self._pipes.pop(pipe.number, None) is not None:
            self._peers.pop(pipe.number, None)
            pipe.fail(pipe.error or SessionError(self._why_closed(error), Code.REFUSED))
            self.tell(m.Lost(pipe.number))
            self._show_connected()

    def _why_closed(self, error: Exception | None) -> str:
        """In TLS 1.3 a dialler's handshake is over before the other end looks at its certificate, and hangs up."""
        words = in_words(error, "")[1] if error else "the peer closed the connection before the session began"
        if self.identity is None:
            return (
                f"{words}; a node with keys takes TLS only: give keys"
                if isinstance(error, ConnectionResetError)
                else words
            )
        try:
            self.identity.load(self.identity.folder)
        except SecurityError as fault:
            return f"{words}: {fault}"
        return words

    def abort(self, pipe: Pipe) -> None:
        if pipe.number in self._pipes:
            pipe.transport.abort()

    def refuse(self, cause: str, error: Exception) -> None:
        """Count a connection that came to no session."""
        self.refused[in_words(error, cause)[0]] += 1

    def session(self, number: int) -> Session | None:
        return self._sessions.get(number)

    def _ask(self, session: int, event: e.Event) -> None:
        self.tell(m.Ask(session, event))

    def _happened(self, effect: m.Effect) -> None:
        if isinstance(effect, m.Send):
            self._send(effect)
        elif isinstance(effect, m.Of):
            self._of(effect)
        elif isinstance(effect, m.Drop):
            self._dropped(effect)
        elif isinstance(effect, m.Up):
            session = self._sessions[effect.session] = Session(effect, self._ask, self.loop)
            self._begun.append(session)
            self.begun += 1
            self._changed.set()
        elif isinstance(effect, m.Carried):
            self._pipes[effect.connection].carries(self._sessions[effect.session])
            self._show_connected()

    def _send(self, effect: m.Send) -> None:
        pipe = self._pipes.get(effect.connection)
        if pipe is not None and not pipe.transport.is_closing():
            pipe.transport.write(effect.data)
            pipe.room -= len(effect.data)
            if pipe.room <= 0:
                self.has_room(pipe)

    def _of(self, effect: m.Of) -> None:
        session = self._sessions.get(effect.session)
        if session is not None:
            session.happened(effect.effect)
            if isinstance(effect.effect, e.Closed):
                del self._sessions[effect.session]

    def _dropped(self, effect: m.Drop) -> None:
        pipe = self._pipes.get(effect.connection)
        if pipe is not None:
            if not pipe.joined.done():
                self.refused[named(effect.code)] += 1
            if effect.code == Code.REPLACED and effect.session in self._sessions:
                pipe.carries(self._sessions[effect.session])  # another connection to the same peer does
            pipe.fail(SessionError(effect.words, effect.code))
            pipe.transport.close()
        self._show_connected()

    def _show_connected(self) -> None:
        for session in self._sessions.values():
            session.is_connected = self._meetings.is_carried(session.number)
