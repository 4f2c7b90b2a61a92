"""How a node is: the document that it publishes once a second, for `rtmw node`, for Prometheus and for anybody else.

What it has is in rtmw/observe/node_status.py. Of its long lists, a row becomes JSON again only when it has changed.

The document warns when the clocks of two hosts disagree so far that absolute times mean nothing between them. Lifetimes
and deadlines of nodes travel as what is left of them, and need no clocks. These need them: `valid_until` that is
reckoned from another host's source time, the Lifespan of plain DDS writers, and how old a message is.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rtmw.clock import CLOCK
from rtmw.net.dds.bridge import Bridge, find_mismatches
from rtmw.net.dds.discovery import Discovery, Program
from rtmw.net.dds.network import Used
from rtmw.net.dds.own_topics import Beacons, Peer, Rosters, plain_members
from rtmw.net.dds.routes import Incoming, Outgoing
from rtmw.net.dds.wire import Names
from rtmw.net.link.service import LinkService, why_so
from rtmw.net.neighbours import LocalTopic
from rtmw.net.security.health import KeysHealth
from rtmw.net.security.rules import RuleTable
from rtmw.net.settings import WITH_NODES, WITH_PLAIN, Settings
from rtmw.net.topics import MOST
from rtmw.observe.node_status import (
    NOBODY,
    Crossing,
    DdsPeer,
    Ended,
    LinkPeer,
    Member,
    NodeStatus,
    NotCrossing,
    Rules,
)
from rtmw.qos import Reliability
from rtmw.text.strict_json import Rendered, packed, rendered
from rtmw.text.visible import visible

_Name = TypeVar("_Name")
_Named = TypeVar("_Named")

NOTICED_NS = 10_000_000
"""Largest offset that ordinary NTP leaves in a local network; a smaller one is nobody's fault."""
SHARE = 10
"""An offset may be one part in so many of the shortest lifetime."""
ASSUMED_NS = 1_000_000_000
"""The shortest lifetime as long as none is seen."""


def shortest_lifetime_ns(topics: dict[str, LocalTopic], bridge: Bridge) -> int | None:
    """The shortest lifetime or deadline that anybody has announced here or elsewhere; None: there is none."""
    found = [taker.deadline_ns for topic in topics.values() for taker in topic.subscribers]
    found += [sender.lifetime_ns for topic in topics.values() for sender in topic.publishers]
    found.append(bridge.discovery.shortest_ns)
    return min((ns for ns in found if ns > 0), default=None)


def measured_clocks(peers: Iterable[Peer], discovery: Discovery) -> list[tuple[bytes, int, int]]:
    """Clocks of nodes, in nanoseconds: the GUID of the node's participant, how far its steady clock is ahead of this
    one, and half of the round trip, by which that may be wrong. Hosts that were cloned may have one name, and their
    nodes one pid. Such nodes are left out, for the clock might be the other's."""
    named = _once(((of.host, of.pid, of.domain), guid) for guid, of in discovery.participants.items())
    heard = _once(((peer.host, peer.pid, peer.domain), peer) for peer in peers)
    found = ((named.get(name), peer) for name, peer in heard.items())
    return [
        (bytes.fromhex(guid), peer.ahead_ns, peer.round_trip_ns // 2)
        for guid, peer in found
        if guid is not None and peer.ahead_ns is not None and peer.round_trip_ns is not None
    ]


def _once(pairs: Iterable[tuple[_Name, _Named]]) -> dict[_Name, _Named]:
    """The things by their names, without those whose name another thing has, too."""
    listed = [*pairs]
    times = Counter(name for name, _ in listed)
    return {name: named for name, named in listed if times[name] == 1}


class Measured(NamedTuple):
    """The clock of a peer of a link."""

    host: str
    domain: int
    offset_ns: int | None
    round_trip_ns: int | None


def disagreement(peer: Peer | Measured, shortest_ns: int | None) -> str | None:
    """The warning about a peer's clock; None while there is nothing to say.

    Half of the way there and back is what the measurement may be wrong by, so that a busy machine is not accused.
    """
    if peer.offset_ns is None or peer.round_trip_ns is None:
        return None
    certain = abs(peer.offset_ns) - peer.round_trip_ns // 2
    if certain <= max(NOTICED_NS, (shortest_ns or ASSUMED_NS) // SHARE):
        return None
    way = "ahead of" if peer.offset_ns > 0 else "behind"
    known = f"the shortest lifetime or deadline here is {_span(shortest_ns)}" if shortest_ns else "no lifetime is known"
    return (
        f"the clock of {peer.host} (domain {peer.domain}) is {_span(abs(peer.offset_ns))} {way} this one, and {known}: "
        "valid_until and the Lifespan of DDS writers mean nothing between these hosts; keep their clocks together with "
        "NTP or PTP"
    )


def _span(ns: int) -> str:
    return f"{ns / 1e9:.3g} s" if ns >= 1_000_000_000 else f"{ns / 1e6:.3g} ms"


TOLD_MOST: Final = 1000
"""Rows of a list that nothing else bounds."""

Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row")


class JsonRows(Generic[Key, Row]):
    """Rows by their keys, in the order in which they came, and their JSON, which is made when a row changes."""

    def __init__(self) -> None:
        self._rows: dict[Key, Row] = {}
        self._texts: dict[Key, str] = {}
        self._told: Rendered[Row] | None = None

    def __contains__(self, key: Key) -> bool:
        return key in self._rows

    def put(self, key: Key, row: Row) -> None:
        """Puts a row in place of the one that had the key before."""
        if self._rows.get(key) != row:
            self._rows[key], self._texts[key], self._told = row, packed(row), None

    def keep(self, is_there: Callable[[Key], bool]) -> None:
        """Drop the rows of keys that are gone."""
        for key in [key for key in self._rows if not is_there(key)]:
            del self._rows[key], self._texts[key]
            self._told = None

    def told(self) -> Rendered[Row]:
        """The rows as they are now, for a document."""
        if self._told is None:
            self._told = rendered(self._rows.values(), self._texts.values())
        return self._told


def first_of(rows: Iterable[Row], most: int = TOLD_MOST) -> tuple[Rendered[Row], int]:
    """The first rows, for documents in which they stay as they are, and how many more there are."""
    every = iter(rows)
    found = [*islice(every, most)]
    return rendered(found, map(packed, found)), sum(1 for _ in every)


class Status:
    """The document, but for what only the node knows. Parts that have not changed are not made again.

    Not for several threads.
    """

    def __init__(
        self, bridge: Bridge, beacons: Beacons, rosters: Rosters, interfaces: Used, links: LinkService
    ) -> None:
        self._bridge, self._beacons, self._rosters, self._interfaces = bridge, beacons, rosters, interfaces
        self._links = links
        self._names, self._keys = Names(bridge.settings.ros2), KeysHealth()
        self._changed: set[str] = set()
        self._rows: dict[str, JsonRows[Any, Crossing]] = {"out": JsonRows(), "in": JsonRows()}
        self._unmatched: dict[str, list[NotCrossing]] = {}
        self._apart, self._apart_untold = first_of(list[NotCrossing]())
        self._elsewhere, self._elsewhere_untold = first_of(list[Member]())
        self._ended = Ended(first_of(list[Crossing]())[0], first_of(list[Crossing]())[0])
        self._ended_changes = {"out": 0, "in": 0}
        self._shortest: int | None = None
        self._seen: tuple[Any, ...] = ()
        """Changes of DDS, of rosters, of topics that do not cross and of links, as of when `elsewhere` was made."""
        self._unmatched_changes = 0

    def see(self, changed: set[str]) -> None:
        """Topics of which something may have changed."""
        self._changed |= changed

    def make(self, topics: dict[str, LocalTopic], since: float) -> NodeStatus:
        """`topics`: as the bus of this host shows them. `since`: when the node was started."""
        bridge, settings = self._bridge, self._bridge.settings
        is_news = bool(self._changed) or self._seen[:1] != (bridge.discovery.changes,)
        if is_news:
            self._shortest = shortest_lifetime_ns(topics, bridge)
        self._see_routes()
        self._see_links()
        self._changed |= self._links.explained()
        self._see_unmatched(topics)
        self._see_elsewhere()
        self._see_ended()
        self._changed = set[str]()
        programs = bridge.discovery.participants
        return replace(
            _beginning(settings, self._interfaces.why, since),
            interface=self._interfaces.names or None,
            peers=tuple(self._peers(programs.values())),
            participants=len(programs),
            shortest_lifetime_ns=self._shortest,
            out=self._rows["out"].told(),
            in_=self._rows["in"].told(),
            ended=self._ended,
            refused=dict(bridge.refused),
            apart=self._apart,
            elsewhere=self._elsewhere,
            apart_untold=self._apart_untold,
            elsewhere_untold=self._elsewhere_untold,
            keys=self._keys.look(settings.link),
            links=self._links.told(self._link_warning),
        )

    def _peers(self, programs: Iterable[Program]) -> Iterator[DdsPeer]:
        """Other nodes that are heard over DDS, and how they are met."""
        nodes = {(program.pid, program.domain): program for program in programs if program.domain is not None}
        has_keys = self._bridge.settings.link.keys is not None
        for peer in self._beacons.peers.values():
            program = nodes.get((peer.pid, peer.domain), Program(host=peer.host))
            way = self._links.way(program)
            why, advice = why_so(way, has_keys)
            yield DdsPeer(
                peer.host,
                peer.pid,
                peer.domain,
                node=peer.node,
                address=program.address,
                max_rate=self._bridge.peer_rates.rate(program),
                offset_ns=peer.offset_ns,
                round_trip_ns=peer.round_trip_ns,
                warning=disagreement(peer, self._shortest),
                way=way.value,
                why=why,
                advice=advice,
                unfound=self._links.why_unfound(program),
            )

    def _link_warning(self, peer: LinkPeer) -> str | None:
        of = Measured(peer.host, peer.domain, peer.clock_offset_ns, peer.least_round_trip_ns)
        return disagreement(of, self._shortest)

    def _see_links(self) -> None:
        """Takes in the rows of links. Call it after the routes over DDS were taken in."""
        is_open = self._links.open_rows()
        for way, routes in (("out", self._bridge.outgoing), ("in", self._bridge.incoming)):
            rows = self._rows[way]
            rows.keep(lambda key, routes=routes: routes.has_key(key) or key in is_open)  # type: ignore[misc]
        for key, row in self._links.rows():
            self._rows[key[0]].put(key, row)

    def _see_routes(self) -> None:
        out, into, bridge = self._rows["out"], self._rows["in"], self._bridge
        moved, changed = bridge.moved(), sorted(self._changed)
        due: dict[Any, None] = {}  # in the order in which routes came
        for name in changed:
            due.update(dict.fromkeys([*bridge.outgoing.keys(name), *bridge.incoming.keys(name)]))
        due.update(dict.fromkeys(moved))
        for key in due:
            sending, taking = bridge.outgoing.get(key), bridge.incoming.get(key)
            if sending is not None:
                counters, readers = sending.counters(), len(sending.readers)
                out.put(key, _crossing(key[0], sending, key[2], key[3], counters, readers=readers))
            elif taking is not None:
                lane = key[2]
                counters, writers = taking.counters(), len(taking.heard())
                into.put(key, _crossing(key[0], taking, lane.reliability, lane.is_plain, counters, writers=writers))

    def _see_unmatched(self, topics: dict[str, LocalTopic]) -> None:
        before = {name: self._unmatched.get(name, []) for name in self._changed}
        for name in self._changed:
            self._unmatched.pop(name, None)
            found = find_mismatches(name, topics[name], self._bridge, self._names) if name in topics else []
            by_link = self._links.directions(name)  # over DDS alone nobody may be there
            told = (one for one in found if one.cause != NOBODY or one.direction not in by_link)
            rows = [*told, *self._links.unmatched(name)]
            if rows:
                self._unmatched[name] = rows
        if any(self._unmatched.get(name, []) != was for name, was in before.items()):
            self._unmatched_changes += 1
            self._apart, self._apart_untold = first_of(chain.from_iterable(self._unmatched.values()))

    def _see_elsewhere(self) -> None:
        """Look for the publishers and subscribers elsewhere, of topics that may cross here."""
        changes = self._rosters.look()
        seen = (self._bridge.discovery.changes, changes, self._unmatched_changes, self._links.changes)
        if seen == self._seen:
            return
        self._seen, settings = seen, self._bridge.settings
        every = chain.from_iterable(self._unmatched.values())
        reasons = {one.endpoint: one.reason for one in every if one.cause in ("type", "qos")}
        told = [*self._rosters.members()]
        found = chain(told, plain_members(self._bridge, self._names, reasons), self._linked_members(told))
        concerned = (member for member in found if _concerns(member, settings))
        self._elsewhere, self._elsewhere_untold = first_of(concerned)

    def _linked_members(self, told: list[Member]) -> Iterator[Member]:
        """Programs of which nodes tell over links, and nodes that stand for theirs."""
        known = {(member.host, member.domain) for member in told}
        for peer, topic, one in self._links.members():
            if (peer.host, peer.domain) not in known:
                kind, name = visible(one.type), visible(one.program)
                yield Member(peer.name, peer.domain, one.pid, name, topic, one.publishes, kind, one.reliability.name)

    def _see_ended(self) -> None:
        every = {way: ended.changes + self._links.ended[way].changes for way, ended in self._bridge.ended.items()}
        if every != self._ended_changes:
            self._ended_changes = every
            self._ended = Ended(self._ended_rows("out"), self._ended_rows("in"))

    def _ended_rows(self, way: str) -> Rendered[Crossing]:
        rows = [*self._bridge.ended[way].rows(), *self._links.ended[way].rows()]
        return first_of(rows, 2 * MOST + 2)[0]


def make_waiting(settings: Settings, why: str, since: float) -> NodeStatus:
    """The whole document of a node that waits for a network."""
    return replace(_beginning(settings, why, since), cut_off=why, keys=KeysHealth().look(settings.link))


def _beginning(settings: Settings, why: str, since: float) -> NodeStatus:
    """What a node knows before it has joined."""
    return NodeStatus(
        pid=os.getpid(),
        told_ns=CLOCK.monotonic_ns(),
        host=socket.gethostname(),
        domain=settings.domain,
        dds_domain=settings.wire_domain,
        interface_why=why,
        multicast=not settings.peers,
        patterns=settings.patterns,
        rules=_rules(settings.allow),
        since=since,
        metrics_address=settings.metrics_address,
    )


def _rules(table: RuleTable) -> Rules:
    file = os.path.abspath(table.source) if table.source else ""  # the command that asks runs in another folder
    return Rules(file, table.version, len(table.rules))


def _crossing(
    topic: str, route: Outgoing | Incoming, reliability: Reliability, is_plain: bool, counters: dict[str, int],
    readers: int | None = None, writers: int | None = None,
) -> Crossing:  # fmt: skip
    audience = WITH_PLAIN if is_plain else WITH_NODES
    return Crossing(topic, route.type.name, reliability.name, audience, readers, writers, counters)


def _concerns(member: Member, settings: Settings) -> bool:
    return settings.enters(member.topic) if member.publishes else settings.leaves(member.topic)
