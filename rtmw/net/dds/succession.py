"""One node follows another on a host, and nothing RELIABLE is lost or stands still: the one that ends asks the nodes
that send to it to keep its topics, and for one that was killed the next one says that it has left.

    the node that ends                                  a node that sends to it
    rtmw/leaving: keep these topics for so long ──►     takes nothing more of them: its bus keeps what is published;
    rtmw/kept: the last sequence that was sent  ◄──     and sends what it had taken of each topic
    waits until all up to that is on its bus, ends
    the next one of the same region reads the topic ──► sends what it has kept

Both are best effort, and said again until they are answered. Nodes that know nothing of it are not waited for. Of one
that has left, all that came has to be on the bus: DDS acknowledged it, so nobody else has it any more.

A node that was killed leaves a DDS participant behind, which others believe alive until its lease is over: so long a
RELIABLE topic that it read stands still. The next node of the same domains sends what DDS itself sends when a
participant is deleted (RTPS 2.5, section 8.5.3 and table 9.18): a sample of the participant's own topic, which disposes
and unregisters it. So each DDS program understands it, and older nodes too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from itertools import chain, islice
from typing import Any

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.discovery import Program, Refusals, Refused
from rtmw.net.dds.library import DataEvent, DomainParticipant, make_idl_struct
from rtmw.net.dds.library import types as idl
from rtmw.net.dds.own_topics import Channel
from rtmw.net.dds.routes import Incoming, Lane, lane_of
from rtmw.net.dds.wire import Names
from rtmw.net.settings import STATUS_TOPIC, Settings
from rtmw.observe.node_status import NodeStatus
from rtmw.qos import Reliability
from rtmw.subscriber import Subscriber
from rtmw.text.strict_json import JsonError
from rtmw.text.units import duration

log = logging.getLogger("rtmw.node")

_LONGEST = 64 << 10
"""Bytes of a sample that is read."""
_TOPICS_MOST = 1000
"""Topics that one sample has at most."""
_AGAIN_S = 0.02

Leaving: Any = make_idl_struct("Leaving", "rtmw::Leaving", {"for_ns": idl.uint64, "topics": idl.sequence[idl.uint64]})
KeptTopic: Any = make_idl_struct(
    "KeptTopic", "rtmw::KeptTopic", {"topic": idl.uint64, "sequence": idl.uint64, "is_acknowledged": bool}
)
Kept: Any = make_idl_struct("Kept", "rtmw::Kept", {"participant": str, "topics": idl.sequence[KeptTopic]})
"""`participant`: the GUID of the one that leaves, in hexadecimal digits."""


class Keeper:
    """Keeps topics for others, and asks others to do so. Not for several threads."""

    def __init__(
        self, participant: DomainParticipant, bridge: Bridge, loop: asyncio.AbstractEventLoop, refusals: Refusals
    ) -> None:
        self._bridge, self._loop, self._guid = bridge, loop, participant.guid.hex
        self._asks = Channel(participant, "rtmw/leaving", Leaving, _LONGEST, refusals)
        self._answers = Channel(participant, "rtmw/kept", Kept, _LONGEST, refusals)
        self._data_event = DataEvent(self._asks.reader)
        loop.add_reader(self._data_event.fileno(), self._receive)
        self._missing: dict[tuple[int, str], list[Incoming]] = {}
        """Topics of which it is not known whether all has come: the routes that receive each, by topic number and the
        participant that sends it. The participant is empty where the senders have left before."""
        self._sought = set[tuple[int, str]]()
        """The keys that _missing has had."""
        self._is_ending, self._for_ns, self._asked = False, 0, 0.0
        self._said = ""

    def _receive(self) -> None:
        self._data_event.take()
        self._asks.read(self._on_leaving)

    def _on_leaving(self, writer: int, leaving: Any, _: int) -> None:
        guid = self._asks.participant_of(writer)
        program = self._bridge.discovery.participants.get(guid)
        if program is None:  # it has left, or will ask again
            return
        if not program.region or len(leaving.topics) > _TOPICS_MOST:
            raise Refused(f"{program} asks to keep {len(leaving.topics)} topics, and is no node, or asks too much")
        seconds = min(leaving.for_ns / 1e9, self._bridge.settings.handover)
        kept = [*self._keep(guid, program.region, seconds, leaving.topics)]
        if kept and self._said != guid:
            self._said = guid
            log.info("%s ends; RELIABLE topics wait for the next one, for %s at most", program, duration(seconds))
        self._answers.write(Kept(guid, [KeptTopic(*one) for one in kept]))

    def _keep(
        self, participant: str, region: str, seconds: float, numbers: Iterable[int]
    ) -> Iterator[tuple[int, int, bool]]:
        """Keeps topics, given by their numbers, for a node that ends. Yields the number of each, the sequence of its
        last sample, and whether that is acknowledged; topics of which messages are still being sent are left out. A
        node that ends itself, and leaves nothing to a next one, answers when all is delivered."""
        until_ns = CLOCK.monotonic_ns() + int(seconds * 1e9) if seconds else 0
        of_nodes = (route for route in self._bridge.outgoing if not route.is_plain)
        routes = {route.number: route for route in of_nodes if route.offer.reliability is Reliability.RELIABLE}
        for number in numbers:
            route = routes.get(number)
            if route is None:
                yield (number, 0, True)
            elif until_ns or not self._is_ending or route.is_delivered():
                kept = route.keep(participant, region, until_ns)
                if kept is not None:
                    yield (number, *kept)

    def leave(self, seconds: float) -> None:
        """Have others keep for so long what this node reads: from here on `step` is to be called until `is_over`."""
        self._for_ns, self._is_ending = int(seconds * 1e9), True
        self._seek()

    def _seek(self) -> None:
        """Look for senders again: one that sends to this node may have begun after the node was told to end."""
        found: dict[tuple[int, str], list[Incoming]] = {}
        for (name, _, lane), route in self._bridge.incoming.items() if self._for_ns else ():
            if lane.reliability is Reliability.RELIABLE and not lane.is_plain:
                for participant in self._senders(name, lane):
                    found.setdefault((route.number, participant), []).append(route)
        self._missing |= {of: routes for of, routes in found.items() if of not in self._sought}
        self._sought |= found.keys()

    def _senders(self, topic: str, lane: Lane) -> set[str]:
        """Participants that write the lane and know of this; one without a name where nobody writes it any more."""
        discovery, names = self._bridge.discovery, Names(self._bridge.settings.ros2)
        writers = [one for one in discovery.writers.of(names.topic(topic)) if lane_of(one) == lane]
        return {one.participant for one in writers if discovery.program(one).knows_leaving} if writers else {""}

    def step(self) -> None:
        """Ask, and hear what was answered. Does not wait."""
        self._bridge.see_kept()
        alive = self._bridge.discovery.participants
        self._missing = {
            of: routes
            for of, routes in self._missing.items()
            if of[1] in alive or not all(route.is_delivered() for route in routes)
        }
        self._answers.read(self._on_kept)
        now = CLOCK.monotonic()
        if self._missing and now >= self._asked + _AGAIN_S:
            self._asked = now
            self._seek()
            for topics in _batches({topic for topic, _ in self._missing}):
                self._asks.write(Leaving(self._for_ns, topics))

    def _on_kept(self, writer: int, kept: Any, _: int) -> None:
        if kept.participant != self._guid:
            return
        guid = self._answers.participant_of(writer)
        for one in kept.topics:
            routes = self._missing.get((one.topic, guid), [])
            if all(route.has(guid, one.sequence, one.is_acknowledged) for route in routes):
                self._missing.pop((one.topic, guid), None)

    @property
    def is_over(self) -> bool:
        """All that others have sent of RELIABLE topics is on the bus."""
        return not self._missing

    def close(self) -> None:
        self._loop.remove_reader(self._data_event.fileno())
        self._data_event.close()


def _batches(topics: set[int]) -> Iterator[list[int]]:
    rest = iter(topics)
    for first in rest:
        yield [*chain([first], islice(rest, _TOPICS_MOST - 1))]


_LOOKED_AT = 16
"""Documents of nodes on the bus that are read, the newest ones: of nodes that were killed one after another."""
_TIMES = 3
"""How often each participant is told, since a datagram may be lost."""

_HEADER = b"RTPS" + bytes([2, 1, 1, 16])
"""Version 2.1, vendor: Eclipse Cyclone DDS, of which the predecessor was a participant."""
_READER, _WRITER = bytes([0, 1, 0, 0xC7]), bytes([0, 1, 0, 0xC2])
"""The endpoints on which DDS tells of participants."""
_DATA, _FLAGS = 0x15, 0x0B
"""Little endian, with inline QoS, and with a key instead of data."""
_GUID, _KEY_HASH, _STATUS, _END = 0x50, 0x70, 0x71, 0x01
_IS_GONE = bytes([0, 0, 0, 3])
"""Disposed and unregistered."""


def last_documents(domain: Domain, settings: Settings) -> list[NodeStatus]:
    """Documents of nodes of the same two domains that have ended, as far as the bus keeps them; the newest one is the
    last. Any program may have written them."""
    domain.region.sweep()
    alive = {domain.region.identity(row.identity) for row in shm.publishers(domain.region)}
    found: list[NodeStatus] = []
    with Subscriber(STATUS_TOPIC, history=_LOOKED_AT, domain=domain) as subscriber:
        for sample in subscriber.take_many(_LOOKED_AT):
            if sample.publisher not in alive:
                with suppress(ValueError, RecursionError, JsonError):  # any program may publish there
                    status = NodeStatus.of(json.loads(bytes(sample.data)))
                    if (status.domain, status.dds_domain) == (settings.domain, settings.wire_domain):
                        found.append(status)
    return found


def dead_predecessors(documents: Iterable[NodeStatus]) -> list[bytes]:
    """The DDS participants (guids) of those that wrote these documents."""
    found: list[bytes] = []
    for one in documents:
        with suppress(ValueError):  # it waited for a network, and was no participant yet
            found.append(_guid(one.guid))
    return [*dict.fromkeys(found)]


def _guid(text: str) -> bytes:
    guid = bytes.fromhex(text)
    if len(guid) != 16:
        raise ValueError(text)
    return guid


def farewell(guid: bytes) -> bytes:
    """The datagram by which a participant leaves."""
    qos = _parameter(_STATUS, _IS_GONE) + _parameter(_KEY_HASH, guid) + _parameter(_END, b"")
    key = bytes([0, 3, 0, 0]) + _parameter(_GUID, guid) + _parameter(_END, b"")
    body = struct.pack("<HH", 0, 16) + _READER + _WRITER + struct.pack("<iI", 0, 1) + qos + key
    return _HEADER + guid[:12] + struct.pack("<BBH", _DATA, _FLAGS, len(body)) + body


def _parameter(number: int, value: bytes) -> bytes:
    return struct.pack("<HH", number, len(value)) + value


class Farewells:
    """Tells each participant, once it is known, that the predecessors have left. Not for several threads."""

    def __init__(self, guids: list[bytes]) -> None:
        self._datagrams = [farewell(guid) for guid in guids]
        self._told: Counter[str] = Counter()

    def tell(self, participants: Mapping[str, Program], again: bool) -> None:
        """Tells participants that were not told yet. `again`: tells the others once more, up to _TIMES in all."""
        for guid, program in participants.items() if self._datagrams else ():
            if program.address and self._told[guid] < (_TIMES if again else 1):
                self._told[guid] += self._send(program.address)

    def _send(self, address: str) -> bool:
        """Send to one address. A datagram that cannot be sent is as any that is lost. False: the address that a
        stranger gave is none, so nobody was told."""
        try:
            family, place = place_of(address)
        except ValueError:
            return False
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with suppress(OSError), socket.socket(family, kind) as sender:
            for datagram in self._datagrams:
                sender.sendto(datagram, place)
        return True


def place_of(address: str) -> tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]:
    """Where `192.0.2.1:7400`, `[2001:db8::1]:7400` or `[fe80::1%eth0]:7400` is, for a socket of that family. The scope
    may be a number or a name. Raises ValueError where it is none of these: no name is looked up."""
    text, _, port_text = address.rpartition(":")
    port = int(port_text)
    if not 0 < port < 1 << 16:
        raise ValueError(f"{address}: {port} is no port")
    if not text.startswith("["):
        return socket.AF_INET, (str(IPv4Address(text)), port)
    host, _, scope = text.removeprefix("[").removesuffix("]").partition("%")
    return socket.AF_INET6, (str(IPv6Address(host)), port, 0, _scope(scope))


def _scope(text: str) -> int:
    """The number of an interface; 0: none is named."""
    if not text or text.isdecimal():
        number = int(text or 0)
    else:
        try:
            number = socket.if_nametoindex(text)
        except OSError as error:
            raise ValueError(f"there is no interface {text}") from error
    if number >= 1 << 32:
        raise ValueError(f"{number} is no interface")
    return number
