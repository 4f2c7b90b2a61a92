"""All sessions of a node without I/O: who is at the other end of a connection, and which session it carries.

    dialler                 listener
    hello          ─►
                   ◄─       hello
    HOLD (session)          from the node with the larger uuid, the follower
    GO (attachment, session, version)   from the node with the smaller uuid, the chooser

The chooser alone decides which connection carries the session: the newest one that has come to HOLD. It counts its
choices; the follower passes over a GO with a smaller count than it has seen. So two connections that were dialled at
once end as one, and a connection that only one side believes dead is left by both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from rtmw.errors import SessionError
from rtmw.net.session import events as e
from rtmw.net.session import frames as f
from rtmw.net.session import hello as h
from rtmw.net.session.core import Core
from rtmw.net.session.errors import Code, Violation, named
from rtmw.net.session.frames import FrameReader, Kind
from rtmw.net.session.hello import Agreed, Hello, Terms


class Connected(NamedTuple):
    """A connection is there, and its TLS handshake over."""

    connection: int
    is_dialler: bool
    name: str
    """The verified name of the peer; sessions of different names never meet."""
    crc: bool
    """Without TLS: frames carry a CRC."""


class Arrived(NamedTuple):
    """Bytes came on a connection."""

    connection: int
    data: bytes | bytearray | memoryview


class Lost(NamedTuple):
    """A connection is gone."""

    connection: int


class RoomOn(NamedTuple):
    """The connection takes so many more bytes now."""

    connection: int
    size: int


class Overdue(NamedTuple):
    """The time of Deadline has come."""

    connection: int


class Refuse(NamedTuple):
    """End a connection in words; the session may go on over another one if the code lets it."""

    connection: int
    code: int
    words: str


class Ask(NamedTuple):
    """An event of one session: of its program, or its Timer."""

    session: int
    event: e.Event


class Send(NamedTuple):
    """Bytes to send on a connection."""

    connection: int
    data: bytes


class Drop(NamedTuple):
    """Close the connection, behind what was to be sent on it."""

    connection: int
    code: int
    words: str
    session: int
    """The session that there is with its peer, 0 for none: another connection may carry it."""


class Deadline(NamedTuple):
    """Give Overdue at this time."""

    connection: int
    at: float


class Up(NamedTuple):
    """A session begins."""

    session: int
    peer: Hello
    name: str
    core: Core


class Carried(NamedTuple):
    """A connection carries the session now, at its beginning and after a cut."""

    session: int
    connection: int


class Of(NamedTuple):
    """An effect of one session: Transmit, Cut apart, which are given as Send and Drop."""

    session: int
    effect: e.Effect


Event = Connected | Arrived | Lost | RoomOn | Overdue | Refuse | Ask
Effect = Send | Drop | Deadline | Up | Carried | Of


@dataclass
class Peer:
    """A node that has said hello."""

    key: tuple[str, UUID]
    hello: Hello
    """The latest one."""
    attachment: int = 0
    """Attachment of the last GO seen, if the peer is the chooser."""
    session: int = 0
    core: Core | None = None
    connection: int | None = None


class Link:
    """A connection, and how far its greeting has come."""

    def __init__(self, event: Connected) -> None:
        self.number, self.is_dialler, self.name, self.crc = event
        self.begun = bytearray()
        """The bytes of the hello that have come."""
        self.hello: Hello | None = None
        self.peer: Peer | None = None
        self.version = 0
        self.reader = FrameReader(crc=event.crc)
        self.is_up = False
        self.room = 0


PEERS_OF_A_NAME: Final = 64
"""Nodes that one certificate name may bring at a time; each has a session of its own."""
PATIENCE: Final = 3.0
"""Seconds from the connection to GO."""


class Meetings:
    """The sessions of one node with all others. `step` is the only way in."""

    def __init__(self, mine: Hello, terms: Terms, random: Callable[[], int]) -> None:
        """`random` gives numbers from 1 to 2^64 - 1 for new sessions."""
        self._mine = mine
        self._terms = terms
        self._random = random
        self._links: dict[int, Link] = {}
        self._peers: dict[tuple[str, UUID], Peer] = {}
        self._sessions: dict[int, Peer] = {}
        self._hellos = self._attachments = 0
        self._out: list[Effect] = []

    def step(self, event: Event, now: float) -> list[Effect]:
        """The effects to carry out now, in this order, and before the effects of the next step.

        Raises SessionError or ValueError for an event that a program may not ask for.
        """
        if isinstance(event, Ask):
            peer = self._sessions.get(event.session)
            if peer is None or peer.core is None:
                raise SessionError("the session is over", Code.CLOSED)
            self._of(peer, peer.core.step(event.event, now))
        elif isinstance(event, Connected):
            self._connected(event, now)
        elif (link := self._links.get(event.connection)) is not None:
            _ON_LINK[type(event)](self, link, event, now)
        effects, self._out = self._out, []
        return effects

    def _connected(self, event: Connected, now: float) -> None:
        link = self._links[event.connection] = Link(event)
        self._out.append(Deadline(event.connection, now + PATIENCE))
        if link.is_dialler:
            self._say_hello(link)

    def _say_hello(self, link: Link) -> None:
        self._hellos += 1
        hello = replace(self._mine, number=self._hellos, crc=link.crc)
        self._out.append(Send(link.number, hello.packed()))

    def _overdue(self, link: Link, _: Overdue, now: float) -> None:
        if not link.is_up:
            self._refuse(link, Code.SILENT, f"no session was begun within {PATIENCE:g} s")

    def is_carried(self, session: int) -> bool:
        """Has the session a connection?"""
        peer = self._sessions.get(session)
        return peer is not None and peer.connection is not None

    def _refused(self, link: Link, event: Refuse, now: float) -> None:
        self._refuse(link, event.code, event.words)
        self._left(link, now)

    def _left(self, link: Link, now: float) -> None:
        """The session, if the connection carried one, waits for another connection."""
        peer = link.peer
        if peer is not None and peer.connection == link.number:
            peer.connection = None
            if peer.core is not None:
                self._of(peer, peer.core.step(e.Detached(), now))

    def _lost(self, link: Link, _: Lost, now: float) -> None:
        del self._links[link.number]
        self._left(link, now)
        self._forget_if_idle(link.peer)

    def _forget_if_idle(self, peer: Peer | None) -> None:
        """A peer without a session and without a connection that greets is nobody."""
        if peer is None or peer.core is not None or self._peers.get(peer.key) is not peer:
            return
        if not any(link.peer is peer for link in self._links.values()):
            del self._peers[peer.key]

    def _has_room(self, link: Link, event: RoomOn, now: float) -> None:
        link.room = event.size
        self._to_core(link, e.Room(event.size), now)

    def _to_core(self, link: Link, event: e.Event, now: float) -> None:
        peer = link.peer
        if link.is_up and peer is not None and peer.core is not None and peer.connection == link.number:
            self._of(peer, peer.core.step(event, now))

    def _arrived(self, link: Link, event: Arrived, now: float) -> None:
        if link.is_up:
            self._to_core(link, e.Received(event.data), now)
            return
        try:
            self._greet(link, event.data, now)
        except Violation as error:
            self._refuse(link, error.code, str(error))

    def _greet(self, link: Link, data: bytes | bytearray | memoryview, now: float) -> None:
        if link.hello is None:
            link.begun += data
            if link.is_dialler and not link.begun.startswith(h.MAGIC[: len(link.begun)]):
                return self._refused_by_peer(link)
            length = h.length_of(link.begun)
            if length is None or len(link.begun) < length:
                return None
            link.hello = h.read(bytes(link.begun[:length]))
            data = bytes(link.begun[length:])
            link.begun.clear()
            self._met(link, link.hello, now)
        return self._frames(link, data, now)

    def _refused_by_peer(self, link: Link) -> None:
        """A listener that refuses says BYE in place of its hello."""
        for frame in FrameReader(crc=link.crc).feed(link.begun):
            if frame.kind == Kind.BYE:
                self._drop(link, frame.fields()[0], f"the peer refused: {frame.words()}")
                return
            raise Violation("what came first is no hello of rtmw")

    def _met(self, link: Link, hello: Hello, now: float) -> None:
        """The hello of the peer is there. Raises Violation, if it is refused."""
        link.version = h.version_of(self._mine, hello)
        if hello.crc != link.crc:
            raise Violation("one side of the connection has TLS, the other one has not", Code.REFUSED)
        link.peer = self._known(link, hello, now)
        if not link.is_dialler:
            self._say_hello(link)
        if not self._is_chooser(link.peer):
            self._out.append(Send(link.number, f.frame(Kind.HOLD, 0, f.HOLD.pack(link.peer.session), crc=link.crc)))

    def _is_chooser(self, peer: Peer) -> bool:
        return h.chooses(self._mine.node, peer.hello.node)

    def _known(self, link: Link, hello: Hello, now: float) -> Peer:
        """The peer that says this hello; one of an earlier life is over now. Raises Violation for an older hello."""
        key = (link.name, hello.node)
        peer = self._peers.get(key)
        if peer is not None and (hello.incarnation, hello.number) <= (peer.hello.incarnation, peer.hello.number):
            code = Code.REPLACED if hello.incarnation == peer.hello.incarnation else Code.SUPERSEDED
            raise Violation("a later hello of the node has come before this one", code)
        if peer is not None and hello.incarnation > peer.hello.incarnation:
            self._end(peer, Code.SUPERSEDED, "the peer began a new life", now)
            peer = None
        if peer is None:
            if sum(1 for name, _ in self._peers if name == link.name) >= PEERS_OF_A_NAME:
                raise Violation(f"{PEERS_OF_A_NAME} nodes of the name {link.name!r} are here already", Code.REFUSED)
            peer = self._peers[key] = Peer(key, hello)
        peer.hello = hello
        return peer

    def _frames(self, link: Link, data: bytes | bytearray | memoryview, now: float) -> None:
        """HOLD or GO; what follows is the core's."""
        link.begun += data
        length = f.HEAD.size
        if len(link.begun) >= length:
            length = max(length, f.HEAD.unpack_from(link.begun)[0])
        if len(link.begun) < length <= f.MOST:
            return
        for frame in link.reader.feed(bytes(link.begun[:length])):
            if frame.kind == Kind.BYE:
                self._drop(link, frame.fields()[0], f"the peer refused: {frame.words()} ({named(frame.fields()[0])})")
                return
            self._attach(link, frame, now)
        rest = bytes(link.begun[length:])
        link.begun.clear()
        if rest:
            self._arrived(link, Arrived(link.number, rest), now)

    def _attach(self, link: Link, frame: f.Frame, now: float) -> None:
        peer = link.peer
        if peer is None or self._peers.get(peer.key) is not peer:
            raise Violation("a newer incarnation of the node is here", Code.SUPERSEDED)
        if frame.kind != (Kind.HOLD if self._is_chooser(peer) else Kind.GO):
            raise Violation(f"{frame.kind.name} where HOLD or GO is due")
        if self._is_chooser(peer):
            self._choose(link, peer, frame.fields()[0], now)
        else:
            self._follow(link, peer, frame.fields(), now)

    def _choose(self, link: Link, peer: Peer, held: int, now: float) -> None:
        if link.hello is not peer.hello:
            raise Violation("a later hello of the node has come on another connection", Code.REPLACED)
        core = peer.core
        if core is None or (held != peer.session and core.has_heard):
            self._end(peer, Code.FORGOTTEN, "the peer does not know the session any more", now)
            self._begin(link, peer, self._random(), now)
        self._attachments += 1
        body = f.GO.pack(self._attachments, peer.session, link.version, held == peer.session)
        self._out.append(Send(link.number, f.frame(Kind.GO, 0, body, crc=link.crc)))
        self._carry(link, peer, now)

    def _follow(self, link: Link, peer: Peer, fields: tuple[int, ...], now: float) -> None:
        attachment, session, version, is_held = fields
        if attachment <= peer.attachment:
            raise Violation("a later GO has come on another connection", Code.REPLACED)
        if version != link.version:
            raise Violation(f"GO with version {version}; {link.version} is the highest that both speak", Code.VERSION)
        if peer.core is None or session != peer.session:
            if is_held:
                raise Violation("the session ended here while the connection was greeted", Code.FORGOTTEN)
            self._end(peer, Code.FORGOTTEN, "the peer does not know the session any more", now)
            if session == 0 or session in self._sessions:
                raise Violation(f"GO with session {session}, which cannot be one")
            self._begin(link, peer, session, now)
        peer.attachment = attachment
        self._carry(link, peer, now)

    def _begin(self, link: Link, peer: Peer, session: int, now: float) -> None:
        self._sessions[session] = peer
        peer.session = session
        peer.core = Core(Agreed.of(self._mine, peer.hello), self._terms, now)
        self._out.append(Up(session, peer.hello, link.name, peer.core))

    def _carry(self, link: Link, peer: Peer, now: float) -> None:
        """This connection carries the session from now on; the one before is left."""
        old = self._links.get(peer.connection) if peer.connection is not None else None
        peer.connection = link.number
        link.is_up = True
        if old is not None:
            self._refuse(old, Code.REPLACED, "a newer connection carries the session")
        self._out.append(Carried(peer.session, link.number))
        self._to_core(link, e.Attached(link.crc), now)
        self._to_core(link, e.Room(link.room), now)

    def _of(self, peer: Peer, effects: list[e.Effect]) -> None:
        """Effects of the core of a session."""
        session = peer.session
        for effect in effects:
            if isinstance(effect, e.Transmit):
                if peer.connection is not None:
                    self._out.append(Send(peer.connection, effect.data))
            elif isinstance(effect, e.Cut):
                self._leave(peer, effect.code, effect.words)
            else:
                if isinstance(effect, e.Closed):
                    self._closed(peer, effect)
                self._out.append(Of(session, effect))

    def _leave(self, peer: Peer, code: int, words: str) -> None:
        link = self._links.get(peer.connection) if peer.connection is not None else None
        peer.connection = None
        if link is not None:
            self._drop(link, code, words)

    def _closed(self, peer: Peer, effect: e.Closed) -> None:
        self._leave(peer, effect.code, effect.words)
        del self._sessions[peer.session]
        peer.core, peer.session = None, 0
        self._forget_if_idle(peer)

    def _end(self, peer: Peer, code: int, words: str, now: float) -> None:
        if peer.core is not None:
            self._of(peer, peer.core.step(e.Close(code, words), now))

    def _refuse(self, link: Link, code: int, words: str) -> None:
        """Refuses a connection: the peer is told in words, and the connection is dropped here."""
        self._out.append(Send(link.number, f.bye(code, words, crc=link.crc)))
        self._drop(link, code, words)

    def _drop(self, link: Link, code: int, words: str) -> None:
        if self._links.pop(link.number, None) is not None:
            self._out.append(Drop(link.number, code, words, link.peer.session if link.peer else 0))
            self._forget_if_idle(link.peer)


_ON_LINK: Final[dict[type, Callable[[Meetings, Link, Any, float], None]]] = {
    Arrived: Meetings._arrived,
    Lost: Meetings._lost,
    RoomOn: Meetings._has_room,
    Overdue: Meetings._overdue,
    Refuse: Meetings._refused,
}
