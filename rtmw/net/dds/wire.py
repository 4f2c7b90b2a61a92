"""The DDS side of a node: its participant, and how QoS of the bus reads in DDS and back, lane by lane (routes.py).

| rtmw                | DDS policy, as it is seen on the wire                                               |
|---------------------|--------------------------------------------------------------------------------------|
| priority            | TransportPriority of the writer: the highest of its publishers'                      |
| RELIABLE            | Reliability RELIABLE, History KEEP_ALL                                               |
| ADAPTIVE            | Reliability RELIABLE, History KEEP_LAST depth                                        |
| TIMELY              | Reliability BEST_EFFORT, History KEEP_LAST depth; with history as ADAPTIVE           |
| history K           | Durability TRANSIENT_LOCAL, DurabilityService KEEP_LAST K                            |
| min_interval        | TimeBasedFilter of the reader                                                        |
| deadline            | Deadline                                                                             |
| lifetime            | Lifespan, when all publishers have one: the longest. For plain programs; to a node   |
|                     | each message brings its own (trailer.h)                                              |
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from rtmw.net.dds.library import (
    DataReader,
    DataWriter,
    DdsDomain,
    DdsPublisher,
    DdsSubscriber,
    DomainParticipant,
    Policy,
    Qos,
    dds,
)
from rtmw.net.dds.network import Line, choose, has_port
from rtmw.net.dds.policies import FOR_EVER_NS, NODES, RELIABLE, TRANSIENT_LOCAL, Policies
from rtmw.net.settings import LOOPBACK, Settings
from rtmw.qos import Reliability

MARK = b"rtmw"
"""Begins the user data of a node's participant and endpoints."""
FOR_PLAIN = b"plain rtmw"
"""The user data of a node's endpoints for plain programs: other nodes pass over them (policies.py)."""

_NODES_MOST = 120
"""DDS participants of a host and domain that get ports."""


_RTPS_HEADS = 128
"""Bytes of a datagram that no fragment takes: RTPS' header, time stamp and destination, the head of the fragment with a
hash of its key, and HEARTBEAT_FRAG."""
_LOOK_S = 10
"""How often a participant tells those that it knows, and peers, that it is there."""
_LOOKED_FOR = 4
"""DDS participants of a peer."""


def udp_ports(dds_domain: int) -> range:
    """The ports on which participants of a DDS domain listen, by the rules of RTPS 2.5, section 9.6.2.3."""
    first = 7400 + 250 * dds_domain
    return range(first, min(first + 10 + 2 * _NODES_MOST, 1 << 16))


dds.dds_qset_writer_batching.argtypes = [ctypes.c_void_p, ctypes.c_bool]


def configuration(settings: Settings, line: Line) -> str:
    """Cyclone DDS' settings. Datagrams are as large as the line carries in one piece (datagram_size). Data not
    acknowledged yet fit, with one large message more, into a receive buffer of 4 MiB, of which the kernel makes 8: data
    that do not fit are lost, and sent anew."""
    named = "".join(map(_interface, line.names))
    interfaces = f"<Interfaces>{named}</Interfaces>" if named else ""
    interfaces += "<RedundantNetworking>true</RedundantNetworking>" if len(line.names) > 1 else ""
    interfaces += "<Transport>udp6</Transport>" if line.is_ipv6 else ""
    unicast = "<AllowMulticast>false</AllowMulticast>" if settings.peers else ""
    peers = "".join(_peer(peer, settings.wire_domain) for peer in settings.peers)
    return (
        "<CycloneDDS><Domain>"
        f"<General>{interfaces}{unicast}"
        f"<MaxMessageSize>{line.datagram}B</MaxMessageSize><MaxRexmitMessageSize>{line.datagram}B</MaxRexmitMessageSize>"
        f"<FragmentSize>{line.datagram - _RTPS_HEADS}B</FragmentSize></General>"
        f"<Discovery><LeaseDuration>{settings.lease}s</LeaseDuration><SPDPInterval>{_LOOK_S}s</SPDPInterval>"
        f"<ParticipantIndex>auto</ParticipantIndex>"
        f"<MaxAutoParticipantIndex>{_NODES_MOST - 1}</MaxAutoParticipantIndex>"
        f"{f'<Peers>{peers}</Peers>' if peers else ''}</Discovery>"
        '<Internal><SocketReceiveBufferSize min="default" max="16MB"/>'
        "<Watermarks><WhcHigh>6MB</WhcHigh></Watermarks>"
        "<WriterLingerDuration>0s</WriterLingerDuration></Internal>"
        "</Domain></CycloneDDS>"
    )


def _peer(address: str, dds_domain: int) -> str:
    """The library looks for a peer for half a minute and then never again, unless it is told otherwise. An address
    without a port stands for each participant that may be there, of which the first are looked for again and again."""
    if has_port(address):
        return _lasting(address)
    ports = udp_ports(dds_domain)[10 : 10 + 2 * _LOOKED_FOR : 2]
    return f"<Peer Address={quoteattr(address)}/>{''.join(_lasting(f'{address}:{port}') for port in ports)}"


def _lasting(address: str) -> str:
    return f'<Peer Address={quoteattr(address)} PruneDelay="inf"/>'


def _interface(name: str) -> str:
    multicast = "true" if name == LOOPBACK else "default"  # Linux does not say of its loopback that it can
    return f'<NetworkInterface name={quoteattr(name)} multicast="{multicast}"/>'


def join(settings: Settings, description: bytes, line: Line | None = None) -> tuple[Any, DomainParticipant]:
    """A participant in the DDS domain of the settings, and the domain, which has to be kept. Raises DDSException.

    `line`: what DDS is to use, if it was chosen before.
    """
    experts = os.environ.get("CYCLONEDDS_URI")  # merged by the library: what comes later wins
    own = configuration(settings, line or choose(settings) or Line(settings.wire_interfaces))
    domain = DdsDomain(settings.wire_domain, f"{own},{experts}" if experts else own)
    mark = Qos(Policy.Userdata(MARK + description), Policy.EntityName("rtmw node"))
    return domain, DomainParticipant(settings.wire_domain, mark)


def announce(participant: DomainParticipant, description: bytes) -> None:
    """Tell another description of the node, to all who know it and all who come."""
    participant.set_qos(Qos(Policy.Userdata(MARK + description)))


def _create_batching(self: Any, publisher: Any, topic: Any, qos: Any, listener: Any) -> Any:
    dds.dds_qset_writer_batching(qos, True)
    return DataWriter._create_writer(self, publisher, topic, qos, listener)


BatchingWriter: Any = type("BatchingWriter", (DataWriter,), {"_create_writer": _create_batching})
"""A writer whose messages share datagrams until they are flushed; cyclonedds has no policy class for that."""


class Endpoints:
    """Makes the DDS writers and readers of a node's routes, each in its partition (policies.py)."""

    def __init__(self, participant: DomainParticipant) -> None:
        among_nodes = Qos(Policy.Partition([NODES]))
        self.participant = participant
        self._publisher: Any = DdsPublisher(participant, among_nodes)
        self._subscriber: Any = DdsSubscriber(participant, among_nodes)

    def writer(self, topic: Any, qos: Any, is_plain: bool) -> Any:
        return BatchingWriter(self.participant if is_plain else self._publisher, topic, qos=qos)

    def reader(self, topic: Any, qos: Any, is_plain: bool) -> Any:
        return DataReader(self.participant if is_plain else self._subscriber, topic, qos=qos)


@dataclass(frozen=True)
class Offer:
    """The offer of the writer of a topic: the most that any of its publishers here offers."""

    reliability: Reliability
    priority: int
    depth: int
    history: int
    deadline_ns: int = 0
    """The shortest that a reader asks for; 0: nobody does."""
    lifetime_ns: int = 0
    """The longest; 0: some publisher sets no limit."""

    @property
    def fixed(self) -> tuple[int, ...]:
        """Fields that DDS cannot change of a writer."""
        return (self.reliability, self.depth, self.history, self.deadline_ns)

    def changeable(self) -> Any:
        """Policies that DDS can change of it."""
        return Qos(Policy.TransportPriority(self.priority), Policy.Lifespan(self.lifetime_ns or FOR_EVER_NS))

    def policies(self, is_plain: bool) -> Policies:
        """By which readers meet its writer or not."""
        is_reliable = self.reliability is not Reliability.TIMELY or self.history > 0
        return Policies(
            () if is_plain else (NODES,),
            reliability=RELIABLE if is_reliable else 0,
            durability=TRANSIENT_LOCAL if self.history else 0,
            deadline_ns=self.deadline_ns or FOR_EVER_NS,
            representations=_REPRESENTATIONS,
        )

    def qos(self, says: bytes, origin: str) -> Any:
        """The QoS of the DDS writer. `says`: its user data. `origin`: the region of its publishers, by which other
        nodes know them again when another node serves that region."""
        keeping = self.history and self.reliability is Reliability.TIMELY  # kept messages need a reliable writer
        policies = [
            *_reliability(Reliability.ADAPTIVE if keeping else self.reliability, self.depth),
            Policy.TransportPriority(self.priority),
            Policy.Userdata(says),
            Policy.EntityName(origin),
            *_COMMON,
        ]
        if self.history:
            kept = Policy.History.KeepLast(self.history)
            policies += [Policy.Durability.TransientLocal, Policy.DurabilityService(0, kept, -1, -1, -1)]
        if self.deadline_ns:
            policies.append(Policy.Deadline(self.deadline_ns))
        if self.lifetime_ns:
            policies.append(Policy.Lifespan(self.lifetime_ns))
        return Qos(*policies)


@dataclass(frozen=True)
class Request:
    """The request of the reader of a topic: enough for each subscriber here."""

    reliable: bool
    depth: int
    history: int
    min_interval_ns: int
    deadline_ns: int

    @property
    def fixed(self) -> tuple[int, ...]:
        """Fields that DDS cannot change of a reader. The depth need not be right: a subscriber has its own."""
        return (self.reliable, self.history > 0, self.deadline_ns)

    def changeable(self) -> Any:
        """The policy that DDS can change of it. The interval may not be longer than the deadline."""
        return Qos(Policy.TimeBasedFilter(min(self.min_interval_ns, self.deadline_ns or FOR_EVER_NS)))

    def policies(self, is_plain: bool) -> Policies:
        """By which writers meet its reader or not."""
        return Policies(
            () if is_plain else (NODES,),
            reliability=RELIABLE if self.reliable else 0,
            durability=TRANSIENT_LOCAL if self.history else 0,
            deadline_ns=self.deadline_ns or FOR_EVER_NS,
            representations=_REPRESENTATIONS,
        )

    def qos(self, says: bytes) -> Any:
        """The QoS of the DDS reader, without policies that can change: the library would keep the first value for ever.
        `says`: its user data."""
        asked = Reliability.RELIABLE if self.reliable else Reliability.TIMELY
        policies = [*_reliability(asked, self.depth), Policy.Userdata(says), *_COMMON]
        if self.history:
            policies.append(Policy.Durability.TransientLocal)
        if self.deadline_ns:
            policies.append(Policy.Deadline(self.deadline_ns))
        return Qos(*policies)


_REPRESENTATIONS = (0, 2)
"""XCDR1 and XCDR2, as the library tells it of the next."""
_COMMON = (Policy.IgnoreLocal.Participant, Policy.DataRepresentation(True, True))


def _reliability(reliability: Reliability, depth: int) -> list[Any]:
    match reliability:
        case Reliability.RELIABLE:  # never waits: what cannot be sent stays in its route, and delays no other
            return [Policy.Reliability.Reliable(0), Policy.History.KeepAll]
        case Reliability.ADAPTIVE:
            return [Policy.Reliability.Reliable(0), Policy.History.KeepLast(depth)]
        case Reliability.TIMELY:
            return [Policy.Reliability.BestEffort, Policy.History.KeepLast(depth)]
