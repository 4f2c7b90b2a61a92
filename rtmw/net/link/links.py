"""The links of a node: it listens and dials, asks who a peer is and if a rule is for it; each peer has one line.

Connections that came here and to no link are counted by address and cause (`TurnedAway`), for `rtmw node doctor`.

Publishers of a peer are told apart by what it calls the region of its domain, and DDS samples of a node that is linked
are passed over (`Regions`).

The twin of a line is a third connection, over which small urgent messages go a second time (out.c). It joins as the
two others do (handshake.py), if the line is here, and of this peer with this certificate. It is there from the
beginning, and not only once something was lost: the first alarm that is lost is the one that matters. Where the way is
short a lost message is sent again soon, so there is none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary
from zlib import crc32

from rtmw.clock import CLOCK, Clock
from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.net.dds.discovery import Program
from rtmw.net.link.found import NOWHERE, FoundNodes, Neighbourhood
from rtmw.net.link.handshake import (
    PEERS_MOST,
    Greeted,
    Joins,
    LinkGuest,
    Pair,
    PeerKey,
    Register,
    Talk,
    check_certificate,
    dial,
    dialling,
    expect,
    greet,
)
from rtmw.net.link.library import Bus, Context, Line, TlsError, openssl
from rtmw.net.link.linked import Linked
from rtmw.net.link.messages import TWIN, VERSION, Hello, Join, Joined, Using
from rtmw.net.link.places import Listening
from rtmw.net.link.routes import Account, Budget
from rtmw.net.neighbours import LocalTopic, on_bus, origin
from rtmw.net.process import NodeError
from rtmw.net.security.identity import Identity, Peer
from rtmw.net.security.names import is_user
from rtmw.net.security.rules import Rights
from rtmw.net.session import errors
from rtmw.net.session.errors import Code, Violation
from rtmw.net.session.sockets import Backoff, Door
from rtmw.net.settings import Settings
from rtmw.net.topics import Ended
from rtmw.observe.node_status import TurnedAwayAddress, Undelivered
from rtmw.shm import beside
from rtmw.text.addresses import bracketed, unix_path
from rtmw.text.units import duration
from rtmw.text.visible import visible


def in_words(error: Exception, cause: str) -> tuple[str, str]:
    """A cause and a sentence. `cause`: of what says nothing better."""
    return errors.in_words(ssl_error(error) if isinstance(error, TlsError) else error, cause)


def ssl_error(error: TlsError) -> ssl.SSLError:
    """What OpenSSL has reported to C, as the exception that Python's ssl has for it."""
    reason, code, words = error.args
    if reason == "UNEXPECTED_EOF_WHILE_READING":
        return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, reason)
    if reason != "CERTIFICATE_VERIFY_FAILED":
        found = ssl.SSLError(ssl.SSL_ERROR_SSL, reason)
        found.reason = reason
        return found
    refused = ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, reason)
    refused.reason, refused.verify_code, refused.verify_message = reason, code, words
    return refused


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


class Regions:
    """A region is the peer's if and only if: (1) it is not that of this node; (2) no peer with another name has said it
    before; (3) no DDS participant that has it is another one. Not for several threads."""

    def __init__(self, own: str) -> None:
        """`own`: the region of this node (neighbours.origin)."""
        self._own = own
        self._met: dict[str, tuple[str, UUID]] = {}
        """By region: the name of the peer that said it first since this node runs, and its UUID."""
        self._elsewhere: dict[str, set[tuple[str, str, str]]] = {}
        """Regions of DDS participants: UUID of the links, name and user that each says, empty without links."""

    def meet(self, region: str, name: str, node: UUID) -> str:
        """A peer has said that its region is this one. How its publishers are told apart from others."""
        owner = self._met.get(region, (name, node))
        if region == self._own or owner[0] != name or not self._fits(region, (name, node)):
            return f"{region} of {name}"
        self._met.pop(region, None)
        self._met[region] = (name, node)
        while len(self._met) > PEERS_MOST:
            del self._met[next(iter(self._met))]
        return region

    def hear(self, programs: Iterable[Program]) -> bool:
        """DDS participants, as they are now. Has something changed for `linked`?"""
        before = self.linked()
        self._elsewhere = {}
        for one in programs:
            if one.region:
                self._elsewhere.setdefault(one.region, set()).add((one.link or "", one.link_name, one.link_user))
        return self.linked() != before

    def forget(self, is_over: Callable[[str], bool]) -> None:
        """Peers whose names mean nothing any more."""
        self._met = {region: owner for region, owner in self._met.items() if not is_over(owner[0])}

    def linked(self) -> list[str]:
        """The regions of peers: what comes from there over DDS is not for this node."""
        return [region for region, owner in self._met.items() if self._fits(region, owner)]

    def _fits(self, region: str, owner: tuple[str, UUID]) -> bool:
        name, node = owner
        said = self._elsewhere.get(region, ())
        return all(link == node.hex and name in (named, user or named) for link, named, user in said)


ADDRESSES_MOST: Final = 100
"""Addresses that are remembered; beyond them, the one that came longest ago is forgotten."""
SHOWN_MOST: Final = 5
RECENT_S: Final = 60.0
"""A peer that is refused tries it again at least so often."""


@dataclass(frozen=True, slots=True)
class _Last:
    cause: str
    why: str
    at: float
    """When the last connection came, in seconds of the monotonic clock."""
    counts: Counter[str]
    """Connections from there since it had a link, by cause."""


class TurnedAway:
    """Connections that came to no link, counted by address and cause. Not for several threads."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._last: dict[str, _Last] = {}
        """By address; the one that came last stands last."""

    def note(self, address: str, cause: str, why: str) -> None:
        before = self._last.pop(address, None)
        counts = before.counts if before else Counter[str]()
        counts[cause] += 1
        self._last[address] = _Last(cause, why, self._clock.monotonic(), counts)
        if len(self._last) > ADDRESSES_MOST:
            del self._last[next(iter(self._last))]

    def forget(self, address: str) -> None:
        """A link has come from there."""
        self._last.pop(address, None)

    def recent(self) -> tuple[TurnedAwayAddress, ...]:
        """Up to SHOWN_MOST addresses that connected within the last minute, the newest first."""
        now = self._clock.monotonic()
        lately = ((address, one) for address, one in reversed(self._last.items()) if now - one.at <= RECENT_S)
        return tuple(
            TurnedAwayAddress(address, one.cause, one.why, one.counts.total(), dict(one.counts), now - one.at)
            for address, one in islice(lately, SHOWN_MOST)
        )


WINDOW: Final = 4 << 20
"""Bytes of a route that may be on their way: what a line of 1 Gbit/s has under way in 32 ms."""
POOL_PART: Final = 16
"""Neither that, nor what a line may send without a copy, is more than such a part of the pool."""
HELD_PART: Final = 4
"""Nor is what a peer is given room for on all routes together more than this part, should all of it have to wait."""
LOOK_S: Final = 0.1


def _ms(seconds: float) -> int:
    return round(seconds * 1e3)


@dataclass
class Session:
    """A line, and through whom it came to be."""

    linked: Linked
    who: Greeted
    dialled: int = field(default=0)
    why_no_twin: str = ""
    """Why the last try to have one has failed; empty: it has not."""


class Links:
    """Made without any link; `open` begins. Not for several threads."""

    def __init__(
        self, node: UUID, domain: Domain, settings: Settings, identity: Identity | None, ended: Mapping[str, Ended],
        keep_from_dds: Callable[[list[str]], None],
    ) -> None:  # fmt: skip
        """`identity`: the keys; None: there are none. `ended`: where counters go of routes that are closed.
        `keep_from_dds`: told the regions that nothing may come from over DDS any more (Engine.link)."""
        self._loop = asyncio.get_running_loop()
        self._domain, self._settings = domain, settings
        self.rights = Rights(settings.allow)
        self.refused: Counter[str] = Counter()
        """Connections that came to no link, by cause."""
        self.turned_away = TurnedAway()
        self._ended, self._keep_from_dds = ended, keep_from_dds
        self._accounts = WeakValueDictionary[str | PeerKey, Account]()
        """By the name of a peer, which may have many nodes; of a node without a certificate, by its key."""
        self._regions = Regions(origin(domain))
        self.sessions: dict[PeerKey, Session] = {}
        self.explained: set[str] = set()
        """Topics of links that are over, until `LinkService.explained` takes them."""
        self._elders: dict[PeerKey, tuple[Linked, float]] = {}
        """Lines that are over and whose last messages wait for room on the bus, each with the CLOCK_MONOTONIC second at
        which the wait ends."""
        self.why: dict[str, str] = {}
        """By a place of `connect`: why there is no link with it."""
        hello = Hello(
            node, CLOCK.wall_ns(), VERSION, VERSION, socket.gethostname(), os.getpid(),
            settings.domain, origin(domain), 0, 1, twin=True, lease_ms=_ms(settings.link.lease),
        )  # fmt: skip
        self.register = Register(hello, lambda: secrets.randbits(62) + 1)
        self.joins, self.twins = Joins(self), Twins(self)
        self._bus = Bus(domain.id, beside(domain.id, domain.region.nonce, "carried"), settings.wire_domain)
        self._topics: Mapping[str, LocalTopic] = {}
        self._programs: Mapping[str, tuple[Using, ...]] = {}
        self._doors: dict[str, tuple[Door, Listening]] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._near, self.found = NOWHERE, FoundNodes(self)
        self._said: dict[str, str] = {}
        """The last warning in the log about an address."""
        self._cut = asyncio.Event()
        """Set for a moment whenever a link is cut or over."""
        self.ports: dict[str, int] = {}
        """By a place of `listen`; 0: it is a Unix socket."""
        self._use(identity)

    def _use(self, identity: Identity | None) -> None:
        self.identity = identity
        self.client_context = self.server_context = None
        self.openssl: str | None = None
        """The version of the OpenSSL that new connections have; None: they have no TLS."""
        if identity is not None:
            pem, authorities = identity.material()
            library = self._settings.link.openssl
            self.openssl = openssl(library)
            self.client_context = Context(pem, authorities, False, library)
            self.server_context = Context(pem, authorities, True, library)

    def open(self) -> None:
        """Listen and dial. Raises NodeError where that cannot be listened."""
        places = self._places()
        for place in [place for place in self._doors if place not in places]:
            self._shut(place)
        for place in places:
            if place not in self._doors:
                self._listen(place)
        self._dial_all()

    def _places(self) -> list[str]:
        """Where to listen. A node that is to be found, and for which no port is named, has the kernel choose one
        at each address that DDS uses."""
        link = self._settings.link
        if not link.is_found or not all(map(unix_path, link.listen)):
            return [*link.listen]
        return [*link.listen, *(f"{bracketed(address)}:0" for address in self._near.addresses)]

    def settle(self, near: Neighbourhood) -> None:
        """DDS has joined its network: there, other nodes may find this one, and be found."""
        self._near = near
        try:
            self.open()
        except NodeError as error:  # topics go on over the links that there are
            log.error("%s", error)

    def see(self, participants: Mapping[str, Program]) -> None:
        """DDS participants, by their GUIDs, as they are now."""
        self.meet_over_dds(participants.values())
        if self._settings.link.is_found:
            self.found.see(participants, self._near)

    @property
    def reached_at(self) -> list[str]:
        """The places that this node tells others that find it."""
        return self._near.reached_at(self.ports) if self._settings.link.is_found else []

    def _dial_all(self) -> None:
        connect = self._settings.link.connect
        for place in [place for place in self._dialling if place not in connect]:
            self._dialling.pop(place).cancel()
            self.why.pop(place, None)
        for place in connect:
            if place not in self._dialling:
                self._dialling[place] = self._loop.create_task(self._keep(place))

    def _listen(self, place: str) -> None:
        listening = Listening(place)
        self.ports[place] = listening.port
        door = Door(self._loop, listening.socket, self.refused, partial(LinkGuest, self, place))
        self._doors[place] = (door, listening)
        if not listening.port:
            log.info("links of users of this host are accepted at %s", place)
            return
        how = "with TLS" if self.identity else "without TLS: anybody who reaches it may read, change and send"
        log.info("links are accepted at %s (port %d), %s", place, listening.port, how)

    def _shut(self, place: str) -> None:
        for one in self._doors.pop(place):
            one.close()
        del self.ports[place]

    # ---- what a greeting asks ----

    def who_is(self, talk: Talk) -> tuple[str, Peer | None]:
        """The peer's name, and its certificate: none at a Unix socket, and neither in plain TCP. Raises NotTrusted."""
        if talk.user or self.identity is None:
            return talk.user, None
        certificate = self.identity.peer_of(talk.connection.peer)
        return certificate.name, certificate

    def check(self, who: Greeted) -> None:
        """May the peer have a link at all? Raises Violation."""
        self.register.check(who.hello, who.name)
        if not self.rights.table.knows(who.name):
            self.rights.verdict(who.name, "subscribe", "a link")
            named = who.name or "a peer without a certificate"
            raise Violation(f"no rule is for {named}: its name must fit `peer` of an [[allow]]", Code.REFUSED)

    def is_up(self, peer: PeerKey) -> bool:
        session = self.sessions.get(peer)
        return session is not None and session.linked.is_up

    def refuse(self, address: str, cause: str, error: Exception) -> None:
        """Count a connection that came to no link, and say why, once for each reason."""
        cause, words = in_words(error, cause)
        self.refused[cause] += 1
        self.turned_away.note(address, cause, visible(words))
        if self._is_news(address, words):
            log.warning("no link with %s: %s", address, words)

    def _is_news(self, about: str, words: str) -> bool:
        """Has the log said something else about this address last?"""
        if self._said.get(about) == words:
            return False
        self._said[about] = words
        while len(self._said) > 1000:
            del self._said[next(iter(self._said))]
        return True

    def carry(self, pair: Pair) -> None:
        """Both nodes mean these connections, and this line."""
        who, joined = pair.who, pair.joined
        session = self.sessions.get(who.key)
        if session is not None and session.linked.number != joined.line:
            self._end(session, "another line has begun with the peer", drains=True)
            session = None
        if session is None:
            session = self._begin(who, joined.line)
        session.who = who
        session.linked.carry(who.hello, pair.urgent.for_line(), pair.bulk.for_line())
        self._said.pop(who.address, None)
        self.turned_away.forget(who.address)

    def _begin(self, who: Greeted, number: int) -> Session:
        most, held_most = self._domain.pool // POOL_PART, self._domain.pool // HELD_PART
        line = Line(self._bus, most, 0, 1, _park_key(who), held_most)
        called = self._regions.meet(who.hello.region, who.name, who.hello.node)
        linked = Linked(
            number, line, who.hello, who.name, self.rights, self._settings, min(WINDOW, most), self._ended,
            partial(on_bus, self._domain), called, self._elders.pop(who.key, (None, 0.0))[0], self._account(who),
        )  # fmt: skip
        if called != who.hello.region:
            log.warning("%s says that its domain is one that another node has: what it publishes is told apart", linked)
        self._tell_dds()  # before any route is opened
        session = self.sessions[who.key] = Session(linked, who)
        self._loop.add_reader(line.fileno(), self._happened, session)
        linked.see(self._topics, [*self._topics])
        linked.tell(self._programs)
        return session

    def _account(self, who: Greeted) -> Account:
        called = visible(who.name or f"the node on {who.hello.host}")
        return self._accounts.setdefault(who.name or who.key, Account(called, self._budget()))

    def _budget(self) -> Budget:
        link, slots = self._settings.link, self._domain.region.capacity
        publishers, subscribers = (slots[what] // 2 for what in ("publishers", "subscribers"))
        return Budget(
            link.max_topics, link.max_types, link.max_publishers or publishers, link.max_subscribers or subscribers,
            link.max_names,
        )  # fmt: skip

    def _tell_dds(self) -> None:
        self._regions.forget(lambda name: not self.rights.table.knows(name))
        self._keep_from_dds(self._regions.linked())

    def meet_over_dds(self, programs: Iterable[Program]) -> None:
        """DDS participants, as they are now: a region of one that is no peer of a link is not that peer's."""
        if self._regions.hear(programs):
            self._tell_dds()

    def _happened(self, session: Session) -> None:
        linked = session.linked
        linked.happened()
        if linked.over is not None:
            self._end(session, linked.over)
        elif not linked.is_up:
            self._wake_diallers()

    def _wake_diallers(self) -> None:
        self._cut.set()
        self._cut.clear()

    def _end(self, session: Session, words: str, park_ns: int = 0, drains: bool = False) -> None:
        """`drains`: what has come and waits for room still goes to the bus, before what the next line brings."""
        linked, key = session.linked, session.who.key
        if self.sessions.get(key) is not session:
            return
        self._loop.remove_reader(linked.line.fileno())
        del self.sessions[key]
        self._wake_diallers()
        self.register.forget(key, linked.number)
        self.explained |= {*linked.control.outgoing.topics(), *linked.control.incoming.topics()}
        if drains and linked.retire(words, park_ns):
            self._elders[key] = (linked, CLOCK.monotonic() + linked.lease)
        else:
            linked.close(words, park_ns)
        log.warning("the link with %s is over: %s", linked, words)

    # ---- ten times a second ----

    def step(self, topics: Mapping[str, LocalTopic], changed: Collection[str]) -> None:
        """`topics`: as the bus of this host shows them, and which have changed."""
        self._topics = topics
        self._drain_elders()
        for session in [*self.sessions.values()]:
            linked, certificate = session.linked, session.who.certificate
            fault = self.identity.fault(certificate) if self.identity and certificate else None
            if fault is not None:
                self._end(session, str(fault))
            elif linked.is_lost():
                whose = "the peer's" if linked.lease < self._settings.link.lease else "the"
                words = f"it was cut for longer than {whose} lease of {duration(linked.lease)}"
                self._end(session, words, drains=True)
            else:
                linked.see(topics, changed)
                linked.step()
                if linked.over is not None:
                    self._end(session, linked.over)

    def tell(self, programs: Mapping[str, tuple[Using, ...]]) -> None:
        """Tells each peer the programs here, by topic. Call it when they or the rules have changed."""
        self._programs = programs
        for session in self.sessions.values():
            session.linked.tell(programs)

    def _drain_elders(self) -> None:
        now = CLOCK.monotonic()
        for key, (linked, until) in [*self._elders.items()]:
            if now >= until or not linked.drain():
                linked.close("the lease is over")
                del self._elders[key]

    async def _keep(self, place: str) -> None:
        """Dial whenever no link is there with the node at that place."""
        backoff = Backoff()
        async for _ in backoff:
            who = await self.attempt(place, self.why)
            if who is not None:
                backoff.reset()
                await self.while_linked(place, who.key)

    async def attempt(self, place: str, why: dict[str, str]) -> Greeted | None:
        """Dial once. None: there is no link; `why` says why not, by the place, and so does the log."""
        try:
            who = await dial(self, place)
        except (OSError, RtmwError, TimeoutError) as error:
            cause, words = in_words(error, "connection lost")
            why[place] = visible(words)
            self.refused[cause] += 1
            if self._is_news(place, words):
                log.warning("no link with %s: %s; it is tried again and again", place, words)
        except Exception as error:  # an error that a stranger may have caused costs one try
            why[place] = visible(f"{type(error).__name__}: {error}")
            self.refused["unexpected"] += 1
            log.warning("dialling %s failed", place, exc_info=True)
        else:
            why.pop(place, None)
            self._said.pop(place, None)
            return who
        return None

    async def while_linked(self, place: str | None, peer: PeerKey) -> None:
        """Waits until there is no connection with the peer. A line that has just been given its own is not up yet.
        `place`: where a twin is dialled; None: the peer does that."""
        begun, twin = CLOCK.monotonic(), self._loop.create_task(self.twins.keep(place, peer)) if place else None
        try:
            while peer in self.sessions and (self.is_up(peer) or CLOCK.monotonic() - begun < 1.0):
                if self.is_up(peer):
                    await self._cut.wait()
                else:
                    await asyncio.sleep(LOOK_S)
        finally:
            if twin is not None:
                twin.cancel()

    # ---- when the settings change, and at the end ----

    def obey(self, settings: Settings, identity: Identity | None) -> None:
        """Take other settings, with the keys that belong to them: all of it, at once."""
        has_other_lease, self._settings = settings.link.lease != self._settings.link.lease, settings
        self.register.mine = replace(self.register.mine, lease_ms=_ms(settings.link.lease))
        has_other_keys = identity is not None and identity.is_other(self.identity)
        self.rights.swap(settings.allow)
        for account in self._accounts.values():
            account.budget = self._budget()
        self._use(identity)
        self._tell_dds()
        if settings.link.is_found:
            self.found.begin_anew()
        else:
            self.found.close()
        for session in [*self.sessions.values()]:
            linked, certificate = session.linked, session.who.certificate
            fault = identity.fault(certificate) if identity and certificate else None
            if fault is not None:
                self._end(session, str(fault))
            elif not settings.allow.knows(linked.name):
                self._end(session, f"no rule is for {linked} any more")
            else:
                linked.obey(settings)
                if has_other_keys and not is_user(linked.name):  # who both are is asked again, and the line goes on
                    linked.line.cut("the keys of the node are others now; it connects again")
                elif has_other_lease:  # the peer hears of it
                    linked.line.cut("the lease of the node is another one now; it connects again")
        try:
            self.open()
        except NodeError as error:
            log.error("%s", error)
            self._dial_all()

    def leave(self, for_s: float) -> None:
        """The node ends: RELIABLE topics are to be kept for the next one, here and at the peers, for so long."""
        for session in self.sessions.values():
            session.linked.leave(for_s)

    def finish(self) -> None:
        """Take nothing more from the bus."""
        for session in self.sessions.values():
            session.linked.finish()

    def is_delivered(self) -> bool:
        """Once the node leaves: has all come to its end that was on its way over links?"""
        self._drain_elders()
        for session in self.sessions.values():
            session.linked.step()
        return not self._elders and all(session.linked.is_delivered() for session in self.sessions.values())

    def undelivered(self) -> Iterator[Undelivered]:
        """Messages that are still on their way."""
        for session in self.sessions.values():
            yield from session.linked.undelivered()
        for elder, _ in self._elders.values():
            yield from elder.undelivered()

    def close(self, park_ns: int = 0) -> None:
        """`park_ns`: for so long RELIABLE topics are kept for the next node."""
        for place in [*self._doors]:
            self._shut(place)
        for task in self._dialling.values():
            task.cancel()
        self.found.close()
        for session in [*self.sessions.values()]:
            self._end(session, "the node ends", park_ns)
        for linked, _ in self._elders.values():
            linked.close("the node ends")
        self._bus.close()


def _park_key(who: Greeted) -> int:
    """The key under which RELIABLE topics are kept for the next line with the peer. It is made of the peer's name, so
    that no other peer takes them; a user may have many nodes."""
    if who.certificate is None:
        return crc32(who.name.encode(), who.hello.node.int & 0xFFFFFFFF) & 0x7FFF
    return crc32(who.name.encode()) & 0x7FFF
