"""Topics on which nodes talk of themselves: who they are and how far their clocks are apart (`Beacons`), and who
publishes and subscribes on their hosts (`Rosters`).

A `Channel` is one such topic: best effort, told again once a second; or reliably, when something has changed. It is
read strictly. How versions live together: a node passes over what it does not know (members of JSON objects, values at
the end of a row), and what it reads never changes its meaning; what has to is told on another topic.

**Clocks.** As in NTP (RFC 5905, section 8): with my sending time t1, its receiving time t2, its sending time t3 and my
receiving time t4, its clock is ((t2 - t1) + (t3 - t4)) / 2 ahead of mine, and the way there and back took (t4 - t1) -
(t3 - t2). The measurement with the shortest way of the last minute counts.

These are times of steady clocks (now.h), which nobody sets: by them lifetimes are dated. People and foreign programs
read wall clocks, so each beacon says, too, what both clocks of its node show: in an echo of the node itself. Older
nodes, whose times are those of the wall clock, pass over that, and send none.

A way below 0 is possible without a fault: between t2 and t3, about a second, two clocks run at different rates, and by
then they may have moved further apart than a short line takes. So a way that is not further below 0 than rates may
differ is taken to be that long (the RFC clamps it, too). One that is further below means that a clock was set, and is
refused.

**Programs.** A roster is told reliably, when it has changed: to a node that comes later, too. So what nobody changes
costs nothing; `rtmw graph` shows the programs of all hosts by it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from rtmw import observe
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.discovery import Endpoint, Refusals, Refused
from rtmw.net.dds.idl_class import OCTETS_NAME
from rtmw.net.dds.library import (
    DataEvent,
    DataReader,
    DataWriter,
    DomainParticipant,
    Policy,
    Qos,
    Topic,
    make_idl_struct,
    matched,
    matched_endpoint,
    steady_ns,
    take_payloads,
)
from rtmw.net.dds.library import types as idl
from rtmw.net.dds.wire import Names
from rtmw.net.settings import Settings
from rtmw.observe import Edge, graph, topics
from rtmw.observe.node_status import Member
from rtmw.qos import Reliability
from rtmw.text.patterns import is_own
from rtmw.text.visible import visible
from rtmw.types import resolve

_WAITING_MOST = 256
"""Samples that wait until they are read; then the oldest give way."""


class Channel:
    """Writes our own, and reads what others wrote. Not for several threads."""

    def __init__(
        self,
        participant: DomainParticipant,
        name: str,
        kind: Any,
        longest: int,
        refusals: Refusals,
        keeps: int = 0,
        is_reliable: bool = False,
    ) -> None:
        """`kind`: an IdlStruct class. `longest`: bytes of a sample that is read. `keeps`: of so many
        writers the last sample is brought reliably, also to a reader that comes later. `is_reliable`: samples are
        brought reliably to readers that are there; neither: best effort."""
        reliable = Policy.Reliability.Reliable(0) if keeps or is_reliable else Policy.Reliability.BestEffort
        durable = (Policy.Durability.TransientLocal,) if keeps else ()
        common = (reliable, *durable, Policy.IgnoreLocal.Participant)
        topic = Topic(participant, name, kind)
        self._name, self._kind, self._longest, self._refusals = name, resolve(kind), longest, refusals
        last = Policy.History.KeepLast(1 if keeps else _WAITING_MOST)
        self._writer: Any = DataWriter(participant, topic, qos=Qos(*common, last))
        self._reader: Any = DataReader(
            participant, topic, qos=Qos(*common, Policy.History.KeepLast(keeps or _WAITING_MOST))
        )

    @property
    def reader(self) -> int:
        """The DDS entity that has news."""
        return int(self._reader._ref)

    def writers(self) -> set[int]:
        """The handles of those that DDS takes to be alive."""
        return {*matched(self.reader, False)}

    def participant_of(self, writer: int) -> str:
        """The GUID of the DDS participant that has the writer of that handle; empty: it has left."""
        row = matched_endpoint(self.reader, False, writer)
        return row[1].hex() if row is not None else ""

    def write(self, value: Any) -> None:
        self._writer.write(value)

    def read(self, act: Callable[[int, Any, int], None], most: int = _WAITING_MOST) -> None:
        """Call `act` with the handle of the writer and the value of each sample that has come, and how many came after
        it. Samples that cannot be read, and those that `act` refuses, are counted."""
        samples = take_payloads(self._reader, most) if most else []
        for after, (payload, info) in zip(reversed(range(len(samples))), samples, strict=True):
            if info.valid_data:
                with self._refusals.barrier(self._name):
                    act(info.publication_handle, self._value(payload), after)

    def _value(self, payload: bytes) -> Any:
        if len(payload) > self._longest:
            raise Refused(f"a sample has {len(payload)} bytes; at most {self._longest} are read")
        assert self._kind.decode is not None
        return self._kind.decode(payload)


log = logging.getLogger("rtmw.node")

BEACON_TOPIC = "rtmw/node"
_NAMED_MOST = 16
_DRIFT_NS = 10_000_000
"""Drift of two clocks that nobody sets, at most, between two measurements of a minute."""
_RATES = 1000
"""One part in so many is what rates of two clocks may differ by: adjtime(3) and NTP slew each by 500 ppm at most."""
_THERE_MOST_NS = 10_000_000_000
"""Time between two beacons of a node for which that counts: there is one a second."""
_KEPT = 60
_BEACON_LONGEST = 64 << 10
"""Bytes of a beacon."""
_NAME_LONGEST = 255
SILENT_S = 5.0
_LOST_MOST = 16
"""Silent nodes that are remembered."""
_SENT_MOST = 64
"""Beacons of ours of which is remembered when they were sent."""
PEERS_MOST = 1000
"""Nodes that are known at a time; of further ones nothing is kept."""


Echo: Any = make_idl_struct("Echo", "rtmw::Echo", {"node": idl.uint64, "sent_ns": idl.int64, "received_ns": idl.int64})
Beacon: Any = make_idl_struct(
    "Beacon",
    "rtmw::Beacon",
    {
        "node": idl.uint64,
        "host": str,
        "pid": idl.uint32,
        "domain": idl.uint32,
        "sent_ns": idl.int64,
        "echoes": idl.sequence[Echo],
    },
)


@dataclass
class Peer:
    """Another node."""

    node: int
    host: str
    pid: int
    domain: int
    heard: float
    """CLOCK_MONOTONIC, seconds, as all times here."""
    last: Any
    writer: int
    """The DDS writer of its beacons, by its handle."""
    measured: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Way there and back, and how far its steady clock is ahead, in nanoseconds."""
    set_ns: int = 0
    """By how much more than ours its wall clock was set since it began."""
    hears: float = 0.0
    """When that beacon of ours was sent which it has received last; before it named any: when it was heard first."""

    @property
    def ahead_ns(self) -> int | None:
        """How far its steady clock is ahead of ours; None: not measured yet."""
        return min(self.measured)[1] if self.measured else None

    @property
    def offset_ns(self) -> int | None:
        """How far its wall clock is ahead of ours; None: not measured yet."""
        return None if self.ahead_ns is None else self.ahead_ns + self.set_ns

    @property
    def round_trip_ns(self) -> int | None:
        return min(self.measured)[0] if self.measured else None


def _say(what: str, peers: list[Peer]) -> None:
    """Logs what each of these peers did. For more than _NAMED_MOST, which somebody may have made up, it logs their
    number."""
    if len(peers) > _NAMED_MOST:
        log.info("of %d other nodes each %s", len(peers), what)
        return
    for peer in peers:
        log.info("the node of domain %d on %s (%d) %s", peer.domain, peer.host, peer.pid, what)


class Beacons:
    """Sends ours, and keeps what others sent."""

    def __init__(
        self, participant: DomainParticipant, domain: int, loop: asyncio.AbstractEventLoop, refusals: Refusals
    ) -> None:
        self.node = int.from_bytes(os.urandom(8), "little")
        self._own = (socket.gethostname(), os.getpid(), domain)
        self._refusals = refusals
        self._channel = Channel(participant, BEACON_TOPIC, Beacon, _BEACON_LONGEST, refusals)
        self._data_event, self._loop = DataEvent(self._channel.reader), loop
        loop.add_reader(self._data_event.fileno(), self._receive)
        self.peers: dict[int, Peer] = {}
        self.lost: dict[int, Peer] = {}
        """Peers that fell silent without leaving, and were not heard since."""
        self._come = list[Peer]()
        """Peers that have come since the last beacon."""
        self._sent: dict[int, float] = {}
        """When our last beacons were sent, by the time that they have."""

    def send(self) -> None:
        """Send ours, and forget who has left or been silent."""
        now = CLOCK.monotonic()
        writers = self._channel.writers()
        gone = [peer for peer in self.peers.values() if peer.writer not in writers]
        silent = [peer for peer in self.peers.values() if now - peer.heard > SILENT_S and peer.writer in writers]
        for peer in gone + silent:
            del self.peers[peer.node]
        self.lost |= {peer.node: peer for peer in silent}
        while len(self.lost) > _LOST_MOST:
            del self.lost[next(iter(self.lost))]
        _say("is heard", self._come)
        self._come.clear()
        _say("has left", gone)
        _say(f"has said nothing for {SILENT_S:.0f} s", silent)
        echoes = [peer.last for peer in self.peers.values()]
        sent_ns = steady_ns()
        echoes.append(Echo(self.node, sent_ns, CLOCK.wall_ns()))
        self._sent[sent_ns] = now
        while len(self._sent) > _SENT_MOST:
            del self._sent[next(iter(self._sent))]
        self._channel.write(Beacon(self.node, *self._own, sent_ns, echoes))

    def unheard(self, seconds: float) -> str | None:
        """The words on a node that was heard, and not for so long, though DDS takes it to be alive."""
        late, writers = CLOCK.monotonic() - seconds, self._channel.writers()
        silent = (peer for peer in self.lost.values() if peer.heard < late and peer.writer in writers)
        return next((f"the node of domain {peer.domain} on {peer.host} ({peer.pid})" for peer in silent), None)

    def close(self) -> None:
        """Beacons that still come are not read."""
        self._loop.remove_reader(self._data_event.fileno())
        self._data_event.close()

    def _receive(self) -> None:
        ages_ns = self._data_event.take()
        now_ns = steady_ns()  # after the ages: late, a time makes the way longer; early, it would make it shorter
        arrived_ns = [now_ns - age for age in ages_ns]  # of the newest that the reader keeps
        self._channel.read(
            lambda writer, beacon, after: self._on_beacon(writer, beacon, arrived_ns[-1 - after]), len(arrived_ns)
        )

    def _on_beacon(self, writer: int, beacon: Any, received_ns: int) -> None:
        if beacon.node == self.node:
            return
        if len(beacon.host) > _NAME_LONGEST:
            raise Refused(f"a host's name has {len(beacon.host)} letters; at most {_NAME_LONGEST} are read")
        last = Echo(beacon.node, beacon.sent_ns, received_ns)
        peer = self.peers.get(beacon.node)
        if peer is not None and peer.writer != writer:  # a node has one writer as long as it lives
            raise Refused(f"a beacon of {beacon.host} is in the name of another node, on {peer.host}")
        if peer is None:
            if len(self.peers) >= PEERS_MOST:
                raise Refused(f"{PEERS_MOST} nodes are known already, and there is another on {beacon.host}")
            peer = Peer(beacon.node, visible(beacon.host), beacon.pid, beacon.domain, 0.0, last, writer)
            peer.hears = CLOCK.monotonic()
            self.peers[beacon.node] = peer
            self._come.append(peer)
            at = (peer.host, peer.domain)  # where it was restarted, its predecessor is missed no longer
            self.lost = {node: lost for node, lost in self.lost.items() if (lost.host, lost.domain) != at}
        peer.heard, peer.last = CLOCK.monotonic(), last
        for echo in beacon.echoes:
            if echo.node == beacon.node:
                peer.set_ns = (echo.received_ns - echo.sent_ns) - (CLOCK.wall_ns() - steady_ns())
            if echo.node == self.node:
                peer.hears = max(peer.hears, self._sent.get(echo.sent_ns, 0.0))
                way = _way(received_ns - echo.sent_ns, beacon.sent_ns - echo.received_ns)
                ahead = ((echo.received_ns - echo.sent_ns) + (beacon.sent_ns - received_ns)) // 2
                if way is None:  # a clock was set in between, or somebody made it up
                    raise Refused(f"a beacon of {beacon.host} was back before it was sent: a clock was set, or it lies")
                if peer.measured and _contradict(min(peer.measured), (way, ahead)):
                    peer.measured.clear()  # one of the two clocks was set
                peer.measured.append((way, ahead))


def _way(away_ns: int, there_ns: int) -> int | None:
    """How long a beacon was under way, of the time that it was away, if by the other clock it was there for so long.
    None: that cannot be."""
    may_differ = min(abs(there_ns), _THERE_MOST_NS) // _RATES
    way = away_ns - there_ns
    return way if way >= 0 else may_differ if way >= -may_differ else None


def _contradict(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Can these two ways and offsets not be of the same two clocks? Each is right within half of its way."""
    return abs(one[1] - other[1]) > (one[0] + other[0]) // 2 + _DRIFT_NS


_MEMBERS_TOPIC = "rtmw/members"
_ROSTER_TOPIC = "rtmw/roster"
"""The topic on which nodes of older versions tell their programs once a second. This node tells it, too, while there
are such nodes."""
_AGAIN_S, _AGAIN_RATE = 10.0, 100.0
"""A roster that has not changed is told again after so many seconds, and at no more than so many bytes a second: a
node that had no room for it may have room now."""
_ROSTER_LONGEST = 1 << 20
"""Bytes of what a node tells."""
_MEMBERS_MOST = 5000
"""Members that one node may tell; all nodes together may tell twice as many."""
_MEMBER_NAME_LONGEST = 200
"""Characters of the names of programs and hosts. The bus and DDS have limits of their own for the others."""
_TEXT_LONGEST = 1000

_PID_LARGEST = 0xFFFFFFFF
_ROW = (("pid", int), ("program", str), ("topic", str), ("direction", bool), ("type", str), ("reliability", str))
"""The fields of a member, in this order: a list in JSON, in a list of all."""

Roster: Any = make_idl_struct("Roster", "rtmw::Roster", {"host": str, "domain": idl.uint32, "members": str})


class Rosters:
    """Tells ours, and keeps what others tell. Not for several threads."""

    def __init__(self, participant: DomainParticipant, host: str, domain: int, refusals: Refusals) -> None:
        self._own = (host, domain)
        self._channel = Channel(participant, _MEMBERS_TOPIC, Roster, _ROSTER_LONGEST, refusals, keeps=PEERS_MOST)
        self._old = Channel(participant, _ROSTER_TOPIC, Roster, _ROSTER_LONGEST, refusals)
        self._heard: dict[int, tuple[float, tuple[Member, ...]]] = {}
        """By the handle of its writer: until when it counts, and who."""
        self._roster = Roster(*self._own, "[]")
        self._told, self._again_at = "", 0.0
        self._changes = 0

    def tell(self, edges: Sequence[Edge] | None, are_old: bool) -> None:
        """Tells the others of the programs here: when they have changed, and else seldom.

        `edges`: of crossing_edges; None: nothing has changed. `are_old`: there are nodes that read the old topic."""
        if edges is not None:
            self._roster = Roster(*self._own, json.dumps([_row(edge) for edge in edges[:_MEMBERS_MOST]]))
        if are_old:
            self._old.write(self._roster)
        text, now = self._roster.members, CLOCK.monotonic()
        if text != self._told or now >= self._again_at:
            self._told, self._again_at = text, now + max(_AGAIN_S, len(text) / _AGAIN_RATE)
            self._channel.write(self._roster)

    def look(self) -> int:
        """Take in what others have told; a number that grows with each change of `members`."""
        now = CLOCK.monotonic()
        self._old.read(lambda writer, roster, _: self._on_roster(writer, roster, now + SILENT_S))
        self._channel.read(lambda writer, roster, _: self._on_roster(writer, roster, math.inf))
        writers = self._old.writers() | self._channel.writers()
        gone = [key for key, (until, _) in self._heard.items() if now >= until or key not in writers]
        for key in gone:
            del self._heard[key]
        self._changes += bool(gone)
        return self._changes

    def members(self) -> list[Member]:
        """All members that nodes have told, by the last look. A node that tells on both topics is counted once."""
        new = {(one.host, one.domain) for until, told in self._heard.values() if until == math.inf for one in told}
        return [
            member
            for until, told in self._heard.values()
            for member in told
            if until == math.inf or (member.host, member.domain) not in new
        ]

    def _on_roster(self, writer: int, roster: Any, until: float) -> None:
        told = read_roster(roster)
        others = sum(len(members) for key, (_, members) in self._heard.items() if key != writer)
        if others + len(told) > 2 * _MEMBERS_MOST or (writer not in self._heard and len(self._heard) >= PEERS_MOST):
            raise Refused(
                f"other nodes have told of {others} endpoints already; the {len(told)} on {roster.host} are left out"
            )
        self._changes += self._heard.get(writer, (0.0, None))[1] != told
        self._heard[writer] = (until, told)


def read_roster(roster: Any) -> tuple[Member, ...]:
    """The members that a node tells. Rows of newer nodes may go on behind what is known here. Raises Refused."""
    if len(roster.host) > _MEMBER_NAME_LONGEST:
        raise Refused(f"a host's name has {len(roster.host)} letters; at most {_MEMBER_NAME_LONGEST} are read")
    try:
        found: Any = json.loads(roster.members)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the members on {roster.host} are not JSON: {error}") from error
    rows = _list(found)
    if rows is None or len(rows) > _MEMBERS_MOST:
        raise Refused(f"the members on {roster.host} are no list, or more than {_MEMBERS_MOST}")
    return tuple(_member(roster, row) for row in rows)


def _list(found: Any) -> Sequence[Any] | None:
    return cast("Sequence[Any]", found) if isinstance(found, list) else None


def _member(roster: Any, found: Any) -> Member:
    row = _list(found)
    if row is None or len(row) < len(_ROW):
        raise Refused(f"a member on {roster.host} is {found!r:.200}")
    for value, (name, kind) in zip(row, _ROW, strict=False):
        if type(value) is not kind or (isinstance(value, str) and len(value) > _TEXT_LONGEST):
            raise Refused(f"a member on {roster.host} has a {name} that is {value!r:.200}")
    pid, program, topic, publishes, type_name, reliability = row[: len(_ROW)]
    if not 0 <= pid <= _PID_LARGEST or reliability not in Reliability.__members__:
        raise Refused(f"a member on {roster.host} has the pid {pid!r:.50} and the reliability {reliability!r:.50}")
    names = (visible(text) for text in (roster.host, program[:_MEMBER_NAME_LONGEST], topic, type_name))
    host, program, topic, type_name = names
    return Member(host, roster.domain, pid, program, topic, publishes, type_name, reliability)


def plain_members(bridge: Bridge, names: Names, mismatches: Mapping[str, str]) -> list[Member]:
    """DDS programs without a node. `mismatches`: by the GUID of an endpoint, why it meets nobody."""
    found: list[Member] = []
    for kept, publishes in ((bridge.discovery.writers, True), (bridge.discovery.readers, False)):
        for endpoint in kept:
            topic = names.local(endpoint.topic)
            if topic is not None and not is_own(topic) and _is_plain(endpoint):
                member = _plain(endpoint, bridge, topic, publishes, names)
                found.append(replace(member, apart=mismatches.get(endpoint.guid, "")))
    return found


def _is_plain(endpoint: Endpoint) -> bool:
    return endpoint.description is None and not endpoint.is_for_plain


def _plain(endpoint: Endpoint, bridge: Bridge, topic: str, publishes: bool, names: Names) -> Member:
    program = bridge.discovery.program(endpoint)
    reliability = Reliability.RELIABLE if endpoint.is_reliable else Reliability.TIMELY
    kind = "bytes" if endpoint.type_name == OCTETS_NAME else names.local_type(endpoint.type_name)
    return Member(program.host, None, program.pid, program.name or "DDS", topic, publishes, kind, reliability.name)


def crossing_edges(domain: Domain, settings: Settings) -> list[Edge]:
    """The programs here, but for this one, by topics that may cross."""
    return [edge for edge in graph(topics(domain)).edges if _may_cross(edge, settings)]


def _may_cross(edge: Edge, settings: Settings) -> bool:
    if edge.process.pid == os.getpid() or is_own(edge.topic):
        return False
    return settings.leaves(edge.topic) if edge.publishes else settings.enters(edge.topic)


def _row(edge: Edge) -> list[Any]:
    """The row of a member. The program is told by its name alone: its arguments may hold a password."""
    process = edge.process
    name = observe.program(process.name)[:_MEMBER_NAME_LONGEST]
    return [process.pid, name, edge.topic, edge.publishes, edge.type_name, edge.reliability.name]
