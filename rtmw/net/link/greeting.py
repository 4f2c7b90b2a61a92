"""Two connections of two nodes, from their first byte until a line has them: who is it, may it, which line is it?

the side that dialled            the side that listens
TLS, hello             ──►       TLS: is the certificate good? hello: is any rule for it?
the same questions     ◄──       hello
join                   ──►       when both connections have joined: which line goes on, or begins?
the line has them      ◄──       joined
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rtmw.errors import RtmwError, SessionError
from rtmw.net.link.messages import PARTS, TWIN, Hello, Join, Joined, Message
from rtmw.net.link.register import PeerKey
from rtmw.net.link.talk import Talk
from rtmw.net.security.identity import Peer
from rtmw.net.session.door import NodeGuest
from rtmw.net.session.errors import Code, NotGreeted, Violation
from rtmw.net.session.meetings import PATIENCE
from rtmw.net.session.sockets import look, reach

if TYPE_CHECKING:
    from rtmw.net.link.links import Links

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
