"""The links of a node as the node sees them: there may be none, and none are needed."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.net.dds.discovery import Discovery, Program
from rtmw.net.link.linked import Said
from rtmw.net.link.messages import Using
from rtmw.net.link.routes import Refusal
from rtmw.net.neighbours import LocalTopic, origin
from rtmw.net.security.names import is_user, user_name
from rtmw.net.security.tables import Link
from rtmw.net.settings import Settings
from rtmw.net.topics import Ended
from rtmw.observe import Edge, program
from rtmw.observe.node_status import Crossing, DeniedTopics, LinkPeer, NotCrossing, Undelivered
from rtmw.observe.node_status import Links as LinksTold
from rtmw.text.patterns import is_own
from rtmw.text.visible import visible

if TYPE_CHECKING:
    from rtmw.net.link.linked import Linked
    from rtmw.net.link.links import Links, Session
    from rtmw.net.security.identity import Identity

log = logging.getLogger("rtmw.node")

NODE_PROGRAM: Final = "rtmw node"
"""The name that stands for the programs of a host of which a link tells none."""
FAILING_MOST: Final = 16
"""Places of found nodes of which the document says why there is no link: somebody may make them up."""

RowKey = tuple[str, str, int]
"""The key of a row of the node's document: direction, peer and route."""


class Peer(NamedTuple):
    """The other node of a link."""

    name: str
    """In its certificate, or of its user; that of its host where it has none."""
    host: str
    domain: int


class Way(StrEnum):
    """How this node meets another one."""

    DDS = "DDS"
    CLEAR = "DDS in clear"
    """Though one of the two has keys: it has `insecure = true` beside them."""
    LINK = "link"
    REFUSED = "refused"
    """Nothing crosses: one has keys, and the other one has none."""


def way_between(own: Link, knows: Callable[[str], bool], other: Program) -> Way:
    """`own`: `[link]` of this node. `knows`: is a rule here for this name?

    Nothing that fails changes it: whoever cuts a link, or has a certificate expire, must not make topics go in clear.
    """
    if other.domain is None:
        return Way.DDS  # a DDS program: it sees what the settings let everybody see
    is_user_here = own.meets_users and other.link_user and other.host == socket.gethostname()
    if is_user_here and knows(other.link_user):
        return Way.LINK
    if own.keys is not None and other.has_keys:
        return Way.LINK
    if own.keys is None and not other.has_keys:
        return Way.LINK if own.is_used and other.link is not None and knows("") else Way.DDS
    return Way.CLEAR if (own.insecure if own.keys is not None else other.link_insecure) else Way.REFUSED


def why_so(way: Way, has_keys: bool) -> tuple[str, str]:
    """What is so of the other node, and what to do; empty: nothing is to be said. `has_keys`: this node."""
    give = "give it keys" if has_keys else "give this node keys"
    meant = f"insecure = true beside the keys {'here' if has_keys else 'there'}"
    if way is Way.REFUSED:
        found = "it has no keys, and this node has" if has_keys else "it has keys, and this node has none"
        return f"{found}: nothing crosses", f"{give} (rtmw node keys); or say {meant}"
    if way is Way.CLEAR:
        found = "it has no keys" if has_keys else "this node has no keys"
        return f"{found}: dds_topics cross in clear, by {meant}", f"{give} (rtmw node keys)"
    return "", ""


def why_unfound(own: Link, other: Program) -> str:
    """Why a node with keys and this one do not find each other by DDS; empty: they do, or need not."""
    if own.keys is None or not other.has_keys or other.domain is None:
        return ""
    if not own.find:
        return "find = false here, so connect and listen count alone"
    return "" if other.link_places else "it tells no place for links, as a node with find = false does"


class LinkService:
    """The links of a node, of which there may be none. Not for several threads."""

    def __init__(self, domain: Domain, settings: Settings, keep_from_dds: Callable[[list[str]], None]) -> None:
        """`keep_from_dds`: Engine.link. Raises KeysError and NodeError when the links of the settings cannot be had."""
        self._domain, self._settings, self._keep_from_dds = domain, settings, keep_from_dds
        self._ended = {"out": Ended(), "in": Ended()}
        self._links: Links | None = None
        self._totals: dict[RowKey, int] = {}
        self._discovered = -1
        """The changes of DDS discovery that were looked at last."""
        self._said = Said[str]()
        """Nodes of which the log says that they are refused, or met in clear."""
        self._identity = self.prepare(settings)
        self._begin()

    def _begin(self) -> None:
        if self._links is None and self._settings.link.may_link:
            self._discovered = -1
            from rtmw.net.link.links import (
                Links,  # needs OpenSSL and `cryptography`, which a node without links does not
            )

            self._links = Links(
                self._uuid(), self._domain, self._settings, self._identity, self._ended, self._keep_from_dds
            )
            self._links.open()

    def _uuid(self) -> UUID:
        """The identity of this node: it stays when the node is started again for the same region and the same DDS
        domain."""
        return uuid5(NAMESPACE_URL, f"{origin(self._domain)} {self._settings.wire_domain}")

    @property
    def ended(self) -> Mapping[str, Ended]:
        """Counters of routes that are closed, by direction."""
        return self._ended

    def announced(self) -> dict[str, str]:
        """The announcement of its links over DDS, by which other nodes know this one again; empty: it has none. Where
        it changes, the node begins anew."""
        if not self._settings.link.may_link:
            return {}
        said = {"link": self._uuid().hex, "link_name": self._identity.name if self._identity else ""}
        return {**said, "link_user": user_name(os.geteuid())} if self._settings.link.meets_users else said

    def found_at(self) -> dict[str, Any]:
        """The further announcement, which may change while the node runs: where others find this one, and how it meets
        them."""
        if self._links is None:
            return {}
        link = self._settings.link
        return {"link_places": self._links.reached_at, "link_insecure": link.keys is not None and link.insecure}

    def settle(self, addresses: Iterable[str], peers: Iterable[str]) -> None:
        """DDS has joined its network. `addresses`: its own there. `peers`: those of the hosts that are named."""
        if self._links is not None:
            from rtmw.net.link.found import Neighbourhood

            self._links.settle(Neighbourhood(tuple(dict.fromkeys(addresses)), tuple(peers)))

    def way(self, program: Program) -> Way:
        """How this node meets the DDS participant."""
        return way_between(self._settings.link, self._settings.allow.knows, program)

    def why_unfound(self, program: Program) -> str:
        """Why this node and the DDS participant do not find each other for a link."""
        return why_unfound(self._settings.link, program)

    def is_kept_from_dds(self, program: Program) -> bool:
        """Is the DDS participant a node with which no topic crosses over DDS?"""
        return self.way(program) in (Way.LINK, Way.REFUSED)

    def step(self, topics: Mapping[str, LocalTopic], changed: Collection[str], discovery: Discovery) -> None:
        """Ten times a second. `topics`: as the bus of this host shows them, and which have changed."""
        if self._discovered != discovery.changes:
            self._discovered = discovery.changes
            self._say_who_has_no_keys(discovery.participants.values())
            if self._links is not None:
                self._links.see(discovery.participants)
        if self._links is not None:
            self._links.step(topics, changed)

    def _say_who_has_no_keys(self, programs: Iterable[Program]) -> None:
        for other in programs:
            found, advice = why_so(self.way(other), self._settings.link.keys is not None)
            if found and self._said.is_news(words := f"{other}: {found}"):
                log.warning("%s; %s", words, advice)

    def tell(self, edges: Iterable[Edge]) -> None:
        """Programs of this host whose topics may cross; to be called when they, or rules, are others."""
        if self._links is None:
            return
        programs = dict[str, tuple[Using, ...]]()
        for edge in edges:
            one = Using(edge.process.pid, program(edge.process.name), edge.publishes, edge.type_name, edge.reliability)
            programs[edge.topic] = (*programs.get(edge.topic, ()), one)
        self._links.tell(programs)

    def prepare(self, settings: Settings) -> Identity | None:
        """The keys that other settings need, before they are taken in. Raises KeysError, and RtmwError where there is
        no OpenSSL for them."""
        link = settings.link
        if link.keys is None:
            return None
        from rtmw.net.link.library import openssl
        from rtmw.net.security.identity import Identity

        openssl(link.openssl)
        return Identity.load(link.keys, link.revoked)

    def obey(self, settings: Settings, identity: Identity | None) -> None:
        """Take in other settings, with what `prepare` gave for them. Where they have no links the node begins anew
        (`announced`), and those that are there end in order with it."""
        self._settings, self._identity, self._discovered = settings, identity, -1
        self._said.clear()
        if self._links is None:
            self._begin()
        elif settings.link.may_link:
            self._links.obey(settings, identity)

    def leave(self, for_s: float) -> None:
        """The node ends: from here on ask `is_delivered`. `for_s`: seconds that RELIABLE topics wait for the next."""
        if self._links is not None:
            self._links.leave(for_s if self._settings.link.may_link else 0.0)

    def finish(self) -> None:
        """Take nothing more from the bus: it is left to the next node."""
        if self._links is not None:
            self._links.finish()

    def is_delivered(self) -> bool:
        return self._links is None or self._links.is_delivered()

    def undelivered(self) -> Iterator[Undelivered]:
        """Messages that are still on their way."""
        return self._links.undelivered() if self._links is not None else iter(())

    def close(self, park_ns: int = 0) -> None:
        """`park_ns`: for so long RELIABLE topics are kept for the next node, if that has links. Idempotent."""
        if self._links is not None:
            self._links.close(park_ns if self._settings.link.may_link else 0)
            self._links = None

    # ---- what the node tells ----

    def rows(self) -> Iterator[tuple[RowKey, Crossing]]:
        """Yields the rows of `out` and `in` of which something has changed since the last call."""
        for way, session in self._ways():
            for number, one in session.linked.routes(way):
                key = (way, _key_of(session), number)
                total = one.route.total()
                if self._totals.get(key) != total:
                    self._totals[key] = total
                    names = one.topic, one.type_name, one.reliability.name, str(session.linked)
                    readers, writers = (1, None) if way == "out" else (None, 1)
                    yield key, Crossing(*names, readers, writers, one.route.counters())

    def open_rows(self) -> set[RowKey]:
        """The keys of all rows, changed or not."""
        found = {
            (way, _key_of(session), number) for way, session in self._ways() for number, _ in session.linked.routes(way)
        }
        self._totals = {of: total for of, total in self._totals.items() if of in found}
        return found

    def _ways(self) -> Iterator[tuple[str, Session]]:
        for session in self._links.sessions.values() if self._links else ():
            yield "out", session
            yield "in", session

    @property
    def refused(self) -> int:
        """Connections that came to no link, in all."""
        return self._links.refused.total() if self._links else 0

    def told(self, warning: Callable[[LinkPeer], str | None]) -> LinksTold | None:
        """`links` of the node's document; None: it has none. `warning`: why the clock of a peer is in the way."""
        if self._links is None:
            return None
        peers = (_peer(session, self._settings.link.max_rate) for session in self._links.sessions.values())
        return LinksTold(
            name=self._identity.name if self._identity else None,
            openssl=self._links.openssl,
            ports=dict(self._links.ports),
            peers=tuple(replace(peer, warning=warning(peer)) for peer in peers),
            failing=dict(self._links.why),
            failing_found=dict(islice(self._links.found.why.items(), FAILING_MOST)),
            refused=dict(self._links.refused),
            turned_away=self._links.turned_away.recent(),
            denials=self._links.rights.denials(),
        )

    @property
    def changes(self) -> tuple[tuple[str, int, int], ...]:
        """Another one when `members` may be."""
        sessions = self._links.sessions.values() if self._links else ()
        return tuple((_key_of(one), one.linked.number, one.linked.control.changes) for one in sessions)

    def members(self) -> Iterator[tuple[Peer, str, Using]]:
        """Programs of peers, each with a topic that it uses; for those of which a peer does not tell, its node."""
        for session in self._links.sessions.values() if self._links else ():
            hello, control = session.who.hello, session.linked.control
            peer = Peer(visible(session.linked.name or hello.host), visible(hello.host), hello.domain)
            there = control.programs.there
            yield from ((peer, topic, one) for topic, programs in there.items() for one in programs)
            told = {(topic, one.publishes) for topic, programs in there.items() for one in programs}
            for topic, row in control.outgoing.wanted():
                if (topic, False) not in told:
                    yield peer, topic, Using(hello.pid, NODE_PROGRAM, False, row.name, row.reliability)
            for route in control.incoming.routes:
                lane = route.lane
                if (lane.topic, True) not in told:
                    yield peer, lane.topic, Using(hello.pid, NODE_PROGRAM, True, route.type.name, lane.reliability)

    def explained(self) -> set[str]:
        """Topics of which `apart` may be another than when this was asked last."""
        if self._links is None:
            return set()
        found, self._links.explained = self._links.explained, set()
        return found.union(*(session.linked.control.explained() for session in self._links.sessions.values()))

    def directions(self, topic: str) -> set[str]:
        """The directions, `out` and `in`, in which somebody is at the other end of a link, or the rules keep it out."""
        found = set[str]()
        for session in self._links.sessions.values() if self._links else ():
            control = session.linked.control
            if control.outgoing.routes.has(topic) or control.outgoing.why_not(topic):
                found.add("out")
            if control.incoming.routes.has(topic):
                found.add("in")
        return found

    def unmatched(self, topic: str) -> list[NotCrossing]:
        """Why a topic does not cross over links. Topics of rtmw itself never do, and nobody can change that."""
        found = list[NotCrossing]()
        if is_own(topic):
            return found
        for session in self._links.sessions.values() if self._links else ():
            for way, routes in (("out", session.linked.control.outgoing), ("in", session.linked.control.incoming)):
                refusal = routes.why_not(topic)
                reasons = chain([refusal] if refusal else [], session.linked.withheld(way, topic))
                found += [_unmatched_row(session, way, topic, one) for one in reasons]
        return found


def _unmatched_row(session: Session, way: str, topic: str, refusal: Refusal) -> NotCrossing:
    peer = str(session.linked)
    return NotCrossing(topic, way, visible(refusal.cause), f"{peer}: {visible(refusal.why)}", peer=peer)


def _offset_ns(linked: Linked, info: dict[str, int]) -> int | None:
    """How far the peer's wall clock is ahead: its steady clock, and by how much each was set since. None: not known."""
    peer_set_ns = linked.control.peer_set_ns
    if peer_set_ns is None or not info["rtt_least_ns"]:
        return None
    return info["ahead_ns"] + peer_set_ns - linked.set_ns()


def _key_of(session: Session) -> str:
    name, node = session.who.key
    return f"{name} {node.hex}"


def _peer(session: Session, max_rate: int) -> LinkPeer:
    linked, who, info = session.linked, session.who, session.linked.line.info()
    denied = (("publish", linked.control.outgoing), ("subscribe", linked.control.incoming))
    return LinkPeer(
        peer=linked.name or None,
        host=visible(who.hello.host),
        pid=who.hello.pid,
        domain=who.hello.domain,
        address=who.address,
        dialled=who.is_dialler,
        max_rate=max_rate or None,
        lease=linked.lease,
        up=linked.is_up,
        why_down=linked.why_down,
        down_code=linked.down_code,
        down_s=None if linked.is_up else CLOCK.monotonic() - linked.down_since,
        since=linked.since,
        cipher=linked.cipher or None,
        crc=linked.has_crc,
        twin=bool(info["twin"]),
        why_no_twin=session.why_no_twin,
        twins=info["twins"],
        copies=info["copies"],
        copies_left_out=info["copies_left_out"],
        copies_first=info["copies_first"],
        copies_passed_over=info["copies_passed_over"],
        user=linked.name if is_user(linked.name) else None,
        expires=who.certificate.expires if who.certificate else None,
        routes_out=len(linked.out),
        routes_in=len(linked.into),
        budget=linked.control.share.account.rows(),
        denied=tuple(
            DeniedTopics(verb, cause, number)
            for verb, routes in denied
            for cause, number in sorted(Counter(routes.denied()).items())
        ),
        round_trip_ns=info["rtt_ns"] or None,
        least_round_trip_ns=info["rtt_least_ns"] or None,
        clock_ahead_ns=info["ahead_ns"],
        clock_unsure_ns=info["unsure_ns"],
        clock_offset_ns=_offset_ns(linked, info),
        sent_bytes=info["sent"],
        received_bytes=info["received"],
        queued_bytes=info["queued"],
        unacknowledged_bytes=info["unacknowledged"],
        resumes=info["resumes"],
    )
