"""Nodes tell each other who publishes and subscribes on their hosts, so that `rtmw graph` shows all of them.

Told reliably, when it has changed: to a node that comes later, too. So what nobody changes costs nothing.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from rtmw import observe
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.net.dds.beacon import PEERS_MOST, SILENT_S
from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.channel import Channel
from rtmw.net.dds.cyclone import DomainParticipant, make_idl_struct
from rtmw.net.dds.cyclone import types as idl
from rtmw.net.dds.discovery import Endpoint
from rtmw.net.dds.idl_class import OCTETS_NAME
from rtmw.net.dds.names import Names
from rtmw.net.refusals import Refusals, Refused
from rtmw.net.settings import Settings
from rtmw.observe import Edge, graph, topics
from rtmw.patterns import is_own
from rtmw.qos import Reliability
from rtmw.visible import visible

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


@dataclass(frozen=True)
class Member:
    """A program that publishes or subscribes elsewhere."""

    host: str
    domain: int | None
    """The rtmw domain; None: a DDS program without a node."""
    pid: int
    program: str
    topic: str
    publishes: bool
    type: str
    """`*`: any."""
    reliability: str
    apart: str = ""
    """Why a DDS program does not meet anybody here, if policies or types keep it from that; else empty."""


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
