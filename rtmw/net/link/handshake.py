"""Two connections of two nodes, from their first byte until a line has them: who is it, may it, which line is it?

    the side that dialled            the side that listens
    TLS, hello             ──►       TLS: is the certificate good? hello: is any rule for it?
    the same questions     ◄──       hello
    join                   ──►       when both connections have joined: which line goes on, or begins?
    the line has them      ◄──       joined

`Talk` is a connection in asyncio until a line has it. Where neither end sees the connection leave the host, and both
run on one kernel, its bytes are copied from memory to memory, as on a bus: a line then sends them without a CRC. With
only one of the two, they may pass a tunnel.

`Register` says which line this node has with which other one. Both nodes may dial at the same time, and either may have
lost its state. So: (1) a newer pair of connections takes the place of an older one; (2) where both dial each other at
once, the pair of the smaller UUID stays; (3) a line goes on if and only if both hold it; else both forget what they
held, and another line begins.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from rtmw.errors import RtmwError, SessionError
from rtmw.net.link.library import Connection, Context
from rtmw.net.link.messages import PARTS, TWIN, Bye, Hello, Join, Joined, Message, pack, read
from rtmw.net.security.identity import Peer
from rtmw.net.session.errors import Code, NotGreeted, Violation
from rtmw.net.session.hello import chooses, version_of
from rtmw.net.session.meetings import PATIENCE, PEERS_OF_A_NAME
from rtmw.net.session.sockets import NodeGuest, look, reach, ready, user_of

if TYPE_CHECKING:
    from rtmw.net.link.links import Links


PEERS_MOST: Final = 1000

PeerKey = tuple[str, UUID]
"""The identity of a peer: the name in its certificate (empty: it has none), and the UUID that it says. A UUID alone is
nobody's: a peer with any certificate may say that of another node."""


@dataclass(frozen=True)
class Held:
    """A line."""

    number: int
    peer: Hello


class Register:
    """The lines of a node, by the peer."""

    def __init__(self, mine: Hello, random: Callable[[], int]) -> None:
        """`random`: a number from 1 to 2^63 - 1."""
        self.mine, self._random = mine, random
        self.held: dict[PeerKey, Held] = {}
        self._greeted: dict[PeerKey, int] = {}
        """Peers that this node is dialling, and how often."""

    def check(self, peer: Hello, name: str) -> None:
        """May this peer have a line, by what its hello says? Raises Violation."""
        version_of(self.mine, peer)
        held = self.held.get((name, peer.node))
        if held is not None and peer.incarnation < held.peer.incarnation:
            raise Violation("a later life of the node is here already", Code.SUPERSEDED)
        if held is None and len(self.held) >= PEERS_MOST:
            raise Violation(f"{PEERS_MOST} nodes are here already", Code.REFUSED)
        if held is None and name and sum(other == name for other, _ in self.held) >= PEERS_OF_A_NAME:
            raise Violation(f"{PEERS_OF_A_NAME} nodes with the name {name} are here already", Code.REFUSED)

    def begin(self, peer: PeerKey) -> int:
        """This node dials the peer, which has said hello. The line that both may hold; 0: none. Raises Violation when
        the two have connections already that this node has dialled. To be ended with `over`."""
        self._greeted[peer] = self._greeted.get(peer, 0) + 1
        held = self.held.get(peer)
        return held.number if held else 0

    def over(self, peer: PeerKey) -> None:
        """The attempt that `begin` began has ended, with or without a link."""
        self._greeted[peer] -= 1
        if not self._greeted[peer]:
            del self._greeted[peer]

    def join(self, peer: Hello, name: str, join: Join) -> Joined:
        """The peer has dialled, and both its connections are here. Raises Violation."""
        self.check(peer, name)
        key = (name, peer.node)
        if key in self._greeted and chooses(self.mine.node, peer.node):
            raise Violation("both nodes have dialled; the connections of the other one are used", Code.REPLACED)
        held = self.held.get(key)
        if held is not None and held.number == join.line and held.peer.incarnation == peer.incarnation:
            return Joined(held.number, True)
        self.held[key] = Held(self._random(), peer)
        return Joined(self.held[key].number, False)

    def joined(self, peer: Hello, name: str, joined: Joined) -> None:
        """The peer has answered. Raises Violation if it goes on with what is not held here."""
        self.check(peer, name)
        held = self.held.get((name, peer.node))
        if not joined.is_held:
            self.held[(name, peer.node)] = Held(joined.line, peer)
        elif held is None or held.number != joined.line or held.peer.incarnation != peer.incarnation:
            raise Violation("the peer goes on with a line that has ended here", Code.FORGOTTEN)

    def forget(self, peer: PeerKey, number: int) -> None:
        """A line is over, unless another one has taken its place."""
        held = self.held.get(peer)
        if held is not None and held.number == number:
            del self.held[peer]


LEAVE_S: Final = 1.0
UNREAD_MOST: Final = 1 << 16
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Talk:
    """Errors of `shake`, `say` and `hear`: OSError, TlsError, SessionError for what the peer said or broke."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, context: Context | None) -> None:
        """`sock` is closed; the connection has its own descriptor. `context`: for TLS; a Unix socket needs none."""
        self._loop = loop
        is_unix = sock.family == socket.AF_UNIX
        try:
            self.user = user_of(sock) if is_unix else ""
            """The user at the other end, as the kernel says; empty: it does not."""
            self.connection = Connection(sock.fileno(), None if is_unix else context)
        finally:
            sock.close()
        self._heard: deque[bytes] = deque()
        self._kernel = _kernel() if self.connection.is_within_host else ""
        self._is_from_memory = False

    def introduced(self, mine: Hello) -> Hello:
        """The hello of this node, as it is said here."""
        return replace(mine, kernel=self._kernel)

    def meet(self, peer: Hello) -> None:
        """The peer has said hello."""
        self._is_from_memory = bool(self._kernel) and peer.kernel == self._kernel

    def for_line(self) -> Connection:
        """The connection, when the last message was said and heard."""
        if self._is_from_memory:
            self.connection.omit_crc()
        return self.connection

    async def shake(self) -> None:
        """TLS; without, nothing."""
        while (what := self.connection.handshake()) != "done":
            await ready(self.connection.fileno(), what)

    async def say(self, message: Message) -> None:
        """Give it to the kernel."""
        self.connection.say(pack(message))
        while (what := self.connection.flush()) != "done":
            await ready(self.connection.fileno(), what)

    async def hear(self) -> Message:
        """The next message that is known here. Raises SessionError for Bye, and for what is no message."""
        while True:
            while not self._heard:
                found = self.connection.heard()
                if found is None:
                    raise ConnectionResetError("the peer closed the connection")
                self._heard += found
                if not found:
                    await ready(self.connection.fileno(), "read")
            try:
                message = read(self._heard.popleft())
            except Violation as error:
                raise SessionError(f"the peer broke the protocol: {error}", error.code) from None
            if isinstance(message, Bye):
                raise SessionError(f"the peer refuses: {message.why}", message.code)
            if message is not None:
                return message

    async def bye(self, code: int, why: str) -> None:
        """Say why, as far as the socket takes it, and leave."""
        with suppress(OSError, RtmwError):
            self.connection.say(pack(Bye(code, why)))
            self.connection.flush()
        await self.leave()

    async def leave(self) -> None:
        """Close, so that the peer hears what was said last: a BYE, or an alert of TLS.

        The kernel resets a connection that is closed with unread bytes, and the peer may lose what it has not read yet.
        So those of the peer are read until it closes, too, UNREAD_MOST bytes and LEAVE_S at most.
        """
        left = UNREAD_MOST
        with suppress(OSError, RtmwError), socket.socket(fileno=os.dup(self.connection.fileno())) as sock:
            sock.setblocking(False)
            self.close()
            sock.shutdown(socket.SHUT_WR)
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    while left > 0 and (got := len(await self._loop.sock_recv(sock, left))):
                        left -= got

    def close(self) -> None:
        """Idempotent; does nothing to a connection that a line has."""
        self.connection.close()


@cache
def _kernel() -> str:
    """Which kernel this is since it was started; empty: it does not say."""
    try:
        return sha256(_BOOT_ID.read_bytes()).hexdigest()
    except OSError:
        return ""


_Message = TypeVar("_Message", Hello, Join, Joined)


@dataclass(frozen=True)
class Greeted:
    """A peer that has said hello."""

    hello: Hello
    name: str
    """The name in its certificate, or of its user; empty: nobody says who it is."""
    certificate: Peer | None
    address: str
    is_dialler: bool
    """This node has dialled."""

    @property
    def key(self) -> PeerKey:
        return self.name, self.hello.node


@dataclass(frozen=True)
class Pair:
    """Connections that are to carry a line."""

    who: Greeted
    joined: Joined
    urgent: Talk
    bulk: Talk


async def expect(talk: Talk, kind: type[_Message]) -> _Message:
    message: Message = await talk.hear()
    if not isinstance(message, kind):
        said = type(message).__name__.lower()
        raise SessionError(f"the peer says {said} where {kind.__name__.lower()} is due", Code.PROTOCOL)
    return message


async def dial(links: Links, place: str) -> Greeted:
    """Connect twice, and hand both to a line. The peer; it may be one that has a link already, which stays.

    The second connection is made once the first one was let in: one that is closed without a word is counted there.

    Raises OSError, TlsError and RtmwError, each of which says why there is no link.
    """
    async with dialling() as talks:
        who, other = [await greet(links, talks, place) for _ in PARTS]
        if (who.key, who.hello.incarnation) != (other.key, other.hello.incarnation):
            raise SessionError("two connections to this address have reached two nodes", Code.REFUSED)
        check_certificate(who, other)
        if links.is_up(who.key):
            return who
        line = links.register.begin(who.key)
        try:
            await _join(links, who, talks, line)
        finally:
            links.register.over(who.key)
        return who


@asynccontextmanager
async def dialling() -> AsyncGenerator[list[Talk], None]:
    """Connections that `greet` makes, for PATIENCE at most: a line has them, or the peer hears why not and they close.
    Raises SessionError for a Violation."""
    talks = list[Talk]()
    try:
        async with asyncio.timeout(PATIENCE):
            yield talks
    except Violation as error:
        for talk in talks:
            await talk.bye(error.code, str(error))
        raise SessionError(str(error), error.code) from None
    except RtmwError:  # also TlsError
        for talk in talks:
            await talk.leave()
        raise
    finally:
        for talk in talks:
            talk.close()


async def greet(links: Links, talks: list[Talk], place: str) -> Greeted:
    """Connect once; the connection is added to `talks`."""
    talk = Talk(asyncio.get_running_loop(), await reach(place), links.client_context)
    talks.append(talk)
    await talk.shake()
    name, certificate = links.who_is(talk)
    await talk.say(talk.introduced(links.register.mine))
    hello = await expect(talk, Hello)
    talk.meet(hello)
    who = Greeted(hello, name, certificate, place, True)
    links.check(who)
    return who


async def _join(links: Links, who: Greeted, talks: list[Talk], line: int) -> None:
    attempt = secrets.randbits(62)
    for part, talk in zip(PARTS, talks, strict=True):
        await talk.say(Join(attempt, part, line))
    joined = await _answers(talks)
    if joined[0] != joined[1]:
        raise Violation("two answers to one join")
    links.register.joined(who.hello, who.name, joined[0])
    links.carry(Pair(who, joined[0], *talks))


async def _answers(talks: list[Talk]) -> list[Joined]:
    """Waits for the answers to the joins of both connections. If one is cut, nothing comes over the other one
    either."""
    waiting = [asyncio.create_task(expect(talk, Joined)) for talk in talks]
    try:
        return await asyncio.gather(*waiting)
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


class LinkGuest(NodeGuest):
    """A connection that was accepted, until a line has it: as one of two, or as a twin."""

    def __init__(self, links: Links, place: str, sock: socket.socket, address: str) -> None:
        """`address`: where it comes from, or the user who has connected at the Unix socket `place`."""
        super().__init__(sock)
        self._links, self._address = links, address
        self._is_unix = sock.family == socket.AF_UNIX
        self._place = place if self._is_unix else address
        self._talk: Talk | None = None

    def over(self) -> None:
        self.socket.close()
        if self._talk is not None:
            self._talk.close()

    async def refuse(self, cause: str, error: Exception) -> None:
        self._links.refuse(self._address, cause, error)
        if self._talk is not None and isinstance(error, RtmwError) and not isinstance(error, NotGreeted):
            await self._talk.bye(error.code if isinstance(error, SessionError) else Code.REFUSED, str(error))

    async def let_in(self) -> None:
        links, sock = self._links, self.socket
        if links.server_context is not None and not self._is_unix:  # no TLS state before a plausible record header
            await look(sock, tls=True)
        self._talk = talk = Talk(asyncio.get_running_loop(), sock, links.server_context)
        await talk.shake()
        name, certificate = links.who_is(talk)
        hello = await expect(talk, Hello)
        talk.meet(hello)
        who = Greeted(hello, name, certificate, self._place, False)
        links.check(who)
        await talk.say(talk.introduced(links.register.mine))
        join = await expect(talk, Join)
        if join.part == TWIN:
            await links.twins.accept(who, join, talk)
        else:
            await links.joins.meet(who, join, talk)


def check_certificate(one: Greeted, other: Greeted) -> None:
    """Raises Violation: a line is looked at by one certificate as long as it is there, so all of its connections have
    to show that one."""
    if one.certificate != other.certificate:
        raise Violation("two connections of one line have shown two certificates", Code.REFUSED)


class Joins:
    """Joins of one attempt, until both are here."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._waiting: dict[tuple[object, ...], tuple[Greeted, Join, Talk, asyncio.Future[None]]] = {}

    async def meet(self, who: Greeted, join: Join, talk: Talk) -> None:
        """Wait for the other one; the later of the two has the line carry both. Raises Violation."""
        key = (who.hello.node, who.hello.incarnation, who.name, join.attempt, join.line)
        other = self._waiting.pop(key, None)
        if other is None:
            await self._wait(key, who, join, talk)
            return
        greeted, first, waiting, done = other
        try:
            check_certificate(greeted, who)
            if first.part == join.part:
                raise Violation(f"two connections want to be {join.part}")
            joined = self._links.register.join(who.hello, who.name, join)
            await waiting.say(joined)
            await talk.say(joined)
            urgent, bulk = (waiting, talk) if first.part == PARTS[0] else (talk, waiting)
            self._links.carry(Pair(who, joined, urgent, bulk))
        except Violation as error:
            if not done.done():
                done.set_exception(error)
            raise
        if not done.done():
            done.set_result(None)

    async def _wait(self, key: tuple[object, ...], who: Greeted, join: Join, talk: Talk) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting[key] = mine = (who, join, talk, done)
        try:
            await done
        finally:
            if self._waiting.get(key) is mine:
                del self._waiting[key]
