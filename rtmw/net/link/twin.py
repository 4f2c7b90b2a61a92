"""The twin of a line: a third connection, over which small urgent messages go a second time (twin.c).

the side that dialled            the side that listens
TLS, hello             ──►       as for the two others (greeting.py)
the same questions     ◄──       hello
join                   ──►       is the line here, and of this peer with this certificate?
the line has it        ◄──       joined

It is there from the beginning, and not only once something was lost: the first alarm that is lost is the one that
matters. Where the way is short a lost message is sent again soon, so there is none.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from rtmw.errors import RtmwError
from rtmw.net.link.greeting import Greeted, check_certificate, dialling, expect, greet
from rtmw.net.link.messages import TWIN, Join, Joined
from rtmw.net.link.register import PeerKey
from rtmw.net.link.talk import Talk
from rtmw.net.link.words import in_words
from rtmw.net.session.backoff import Backoff
from rtmw.net.session.errors import Code, Violation

if TYPE_CHECKING:
    from rtmw.net.link.links import Links, Session
from rtmw.visible import visible

log = logging.getLogger("rtmw.node")


class Twins:
    """The twins of all lines of a node. Not for several threads."""

    def __init__(self, links: Links) -> None:
        self._links = links

    async def keep(self, place: str, peer: PeerKey) -> None:
        """Dial whenever the line with this peer should have a twin and has none, until this is cancelled. Nothing
        depends on it: a try that fails is told by the node's document alone."""
        async for _ in Backoff():
            session = self._links.sessions.get(peer)
            if session is None or not is_missing(session):
                continue
            try:
                await self._dial(place, session)
                session.why_no_twin = ""
            except (OSError, RtmwError, TimeoutError) as error:
                session.why_no_twin = visible(in_words(error, "connection lost")[1])
            except Exception as error:  # an error that a stranger may have caused costs one try
                session.why_no_twin = visible(f"{type(error).__name__}: {error}")
                log.warning("dialling a twin at %s failed", place, exc_info=True)

    async def _dial(self, place: str, session: Session) -> None:
        line, carried = session.linked.number, session.who
        async with dialling() as talks:
            who = await greet(self._links, talks, place)
            _check(who, session)
            talk = talks[0]
            await talk.say(Join(secrets.randbits(62), TWIN, line))
            joined = await expect(talk, Joined)
            if joined != Joined(line, True):
                raise Violation("the peer has another line")
            self._add(talk, session, carried)

    async def accept(self, who: Greeted, join: Join, talk: Talk) -> None:
        """The peer wants this connection to be the twin of a line. Raises Violation."""
        session = self._links.sessions.get(who.key)
        if session is None or session.linked.number != join.line:
            raise Violation("a twin of a line that has ended here", Code.FORGOTTEN)
        _check(who, session)
        carried = session.who
        await talk.say(Joined(join.line, True))
        self._add(talk, session, carried)

    def _add(self, talk: Talk, session: Session, carried: Greeted) -> None:
        """Unless the line has ended meanwhile, or other connections than those of `carried` are there: with them may
        be another certificate, and the twin may have copies of what is sent again over them."""
        if self._links.sessions.get(carried.key) is session and session.who is carried:
            session.linked.line.twin(talk.for_line())


def is_missing(session: Session) -> bool:
    """Should this node dial a twin for the line?"""
    linked, who = session.linked, session.who
    wants = who.is_dialler and who.hello.twin and linked.is_up and linked.is_far
    return wants and not linked.line.info()["twin"]


def _check(who: Greeted, session: Session) -> None:
    """Raises Violation unless this is the peer of the line, with the certificate that it has shown there."""
    mine, said = session.who, who
    if (said.key, said.hello.incarnation) != (mine.key, mine.hello.incarnation):
        raise Violation("another node than that of the line", Code.REFUSED)
    check_certificate(mine, said)
