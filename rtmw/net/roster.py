"""Nodes tell each other who publishes and subscribes on their hosts, so that `rtmw graph` shows all of them.

Told once a second, as beacons are: who is silent for some seconds is gone.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from rtmw.domain import Domain
from rtmw.net.beacon import SILENT_S
from rtmw.net.bridge import Bridge
from rtmw.net.cyclone import DataReader, DataWriter, DomainParticipant, Policy, Qos, Topic, make_idl_struct
from rtmw.net.cyclone import types as idl
from rtmw.net.discovery import Endpoint
from rtmw.net.idl_class import OCTETS_NAME
from rtmw.net.names import Names
from rtmw.net.settings import OWN_PREFIX, Settings
from rtmw.observe import Edge, graph, topics
from rtmw.qos import Reliability

_TOPIC = "rtmw/roster"
_MOST = 1000
_LONGEST = 200
"""Characters of a program's name."""

Roster: Any = make_idl_struct("Roster", "rtmw::Roster", {"host": str, "domain": idl.uint32, "members": str})


@dataclass(frozen=True)
class Member:
    """A program that publishes or subscribes elsewhere."""

    host: str
    domain: int | None
    """Of rtmw; None: a DDS program without a node."""
    pid: int
    program: str
    topic: str
    publishes: bool
    type: str
    """`*`: any."""
    reliability: str


class Rosters:
    """Tells ours, and keeps what others tell."""

    def __init__(self, participant: DomainParticipant, host: str, domain: int) -> None:
        quality = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(1), Policy.IgnoreLocal.Participant)
        topic = Topic(participant, _TOPIC, Roster)
        self._own = (host, domain)
        self._writer: Any = DataWriter(participant, topic, qos=quality)
        every = Qos(Policy.Reliability.BestEffort, Policy.History.KeepAll, Policy.IgnoreLocal.Participant)
        self._reader: Any = DataReader(participant, topic, qos=every)
        self._heard: dict[int, tuple[float, tuple[Member, ...]]] = {}
        """By the handle of its writer: when, and who."""

    def tell(self, domain: Domain, settings: Settings) -> None:
        """Of the programs here, but for this one, those whose topics may cross."""
        edges = graph(topics(domain)).edges
        members = [_row(edge) for edge in edges if _may_cross(edge, settings)]
        self._writer.write(Roster(*self._own, json.dumps(members)))

    def members(self) -> list[Member]:
        """Of all nodes that are heard."""
        now = time.monotonic()
        for roster in self._reader.take(_MOST):
            if isinstance(roster, Roster):
                told: Any = roster
                self._heard[told.sample_info.publication_handle] = (now, _read(told))
        self._heard = {key: (at, told) for key, (at, told) in self._heard.items() if now - at < SILENT_S}
        return [member for _, told in self._heard.values() for member in told]


def plain_members(bridge: Bridge, names: Names) -> list[Member]:
    """DDS programs without a node."""
    found: list[Member] = []
    for kept, publishes in ((bridge.discovery.writers, True), (bridge.discovery.readers, False)):
        for endpoint in kept:
            topic = names.local(endpoint.topic)
            if topic is not None and not topic.startswith(OWN_PREFIX) and endpoint.note is None:
                found.append(_plain(endpoint, bridge, topic, publishes, names))
    return found


def _plain(endpoint: Endpoint, bridge: Bridge, topic: str, publishes: bool, names: Names) -> Member:
    program = bridge.discovery.program(endpoint)
    reliability = Reliability.RELIABLE if endpoint.is_reliable else Reliability.TIMELY
    kind = "bytes" if endpoint.type_name == OCTETS_NAME else names.local_type(endpoint.type_name)
    return Member(program.host, None, program.pid, program.name or "DDS", topic, publishes, kind, reliability.name)


def _may_cross(edge: Edge, settings: Settings) -> bool:
    if edge.process.pid == os.getpid() or edge.topic.startswith(OWN_PREFIX):
        return False
    return settings.leaves(edge.topic) if edge.publishes else settings.enters(edge.topic)


def _row(edge: Edge) -> list[Any]:
    process = edge.process
    name = process.name[:_LONGEST]
    return [process.pid, name, edge.topic, edge.publishes, edge.type_name, edge.reliability.name]


def _read(roster: Any) -> tuple[Member, ...]:
    """Nothing, where it is not what a node of this version tells."""
    try:
        return tuple(Member(roster.host, roster.domain, *row) for row in json.loads(roster.members))
    except (ValueError, TypeError):
        return ()
