"""How a node and its topics look in DDS: its participant, names, partitions, and the policies by which endpoints meet
or not. QoS of the bus reads in DDS, and back, lane by lane (routes.py):

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

Topics and types are called as here, or as ROS 2 calls them (`Names`).

Nodes write and read in a DDS partition of their own, plain programs are served in the default one. So a sample for
nodes may have what no plain program knows (trailer.h), while a plain program reads the same topic; and a sample for
plain programs is just what its type says. A topic that nobody but nodes reads has no writer for plain programs. A node
of a version that knew no partitions is a plain program to this one, which reads what that node sends with trailers all
the same.

A writer and a reader meet, or not, by their policies (DDS 1.4, 2.2.3; XTypes 1.3, 7.6.3.1): by what one side asks for,
and the other offers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
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
from rtmw.net.settings import LOOPBACK, Settings
from rtmw.qos import Reliability
from rtmw.text.units import duration


@dataclass(frozen=True)
class Names:
    """ROS 2 puts `rt/` before topic names, and `dds_::` and `_` around the last part of type names."""

    ros2: bool = False

    def topic(self, name: str) -> str:
        """The DDS topic of a topic of the bus."""
        return f"rt/{name}" if self.ros2 else name

    def local(self, dds_topic: str) -> str | None:
        """The topic of the bus, or None for a DDS topic that is none: of ROS 2's services, say."""
        if not self.ros2:
            return dds_topic
        return dds_topic[3:] if dds_topic.startswith("rt/") else None

    def type(self, name: str) -> str:
        """The DDS type of a type of the bus."""
        if not self.ros2:
            return name
        package, _, last = name.rpartition("::")
        return f"{package}::dds_::{last}_" if package else f"dds_::{last}_"

    def local_type(self, dds_type: str) -> str:
        if not self.ros2 or "dds_::" not in dds_type:
            return dds_type
        return dds_type.replace("dds_::", "").removesuffix("_")


NODES = "rtmw nodes"
"""Where nodes write and read what crosses between them."""
DEFAULT = ""


def meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Do two endpoints have a partition in common? None at all is the default one. A name with * or ? is a pattern for
    names of the other side that have neither (DDS 1.4, 2.2.3.13)."""
    ours, theirs = tuple(some) or (DEFAULT,), tuple(others) or (DEFAULT,)
    return any(_fits(one, other) or _fits(other, one) for one in ours for other in theirs)


def _fits(pattern: str, name: str) -> bool:
    if not _is_pattern(pattern):
        return pattern == name
    return not _is_pattern(name) and fnmatchcase(name, pattern)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


FOR_EVER_NS = (1 << 63) - 1
RELIABLE = 1
TRANSIENT_LOCAL = 1
"""DDS' numbers of these kinds."""

_RELIABILITIES = ("BEST_EFFORT", "RELIABLE")
_DURABILITIES = ("VOLATILE", "TRANSIENT_LOCAL", "TRANSIENT", "PERSISTENT")
_OWNERSHIPS = ("SHARED", "EXCLUSIVE")
_LIVELINESSES = ("AUTOMATIC", "MANUAL_BY_PARTICIPANT", "MANUAL_BY_TOPIC")
_ORDERS = ("BY_RECEPTION_TIMESTAMP", "BY_SOURCE_TIMESTAMP")
_SCOPES = ("INSTANCE", "TOPIC", "GROUP")
_ENCODINGS = {0: "XCDR1", 1: "XML", 2: "XCDR2"}


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies that a writer offers, or that a reader asks for. The defaults are those of DDS."""

    partitions: tuple[str, ...] = ()
    """Names and patterns; none: the default partition."""
    reliability: int = 0
    durability: int = 0
    deadline_ns: int = FOR_EVER_NS
    latency_ns: int = 0
    ownership: int = 0
    liveliness: int = 0
    lease_ns: int = FOR_EVER_NS
    order: int = 0
    scope: int = 0
    is_coherent: bool = False
    is_ordered: bool = False
    representations: tuple[int, ...] = ()
    """Data representations; of a writer's, only the first counts. None: the endpoint does not say."""


@dataclass(frozen=True)
class Mismatch:
    """A policy in which two endpoints do not fit."""

    policy: str
    offered: str
    asked: str

    def of_reader(self) -> str:
        """The mismatch in words, of a reader elsewhere."""
        if self.policy == "reliability":
            return "asks for RELIABLE; what is published here is TIMELY"
        if (self.policy, self.asked) == ("durability", "TRANSIENT_LOCAL"):
            return "asks for kept messages (TRANSIENT_LOCAL); no publisher here has a history"
        return f"asks for {self.policy} {self.asked}; {self.offered} is offered here"

    def of_writer(self) -> str:
        """The mismatch in words, of a writer elsewhere."""
        return f"offers {self.policy} {self.offered}; {self.asked} is asked for here"


def mismatches(writer: Policies, reader: Policies) -> Iterator[Mismatch]:
    """Yields each policy that keeps the writer and the reader apart."""
    if not meet(writer.partitions, reader.partitions):
        yield Mismatch("partition", _listed(writer.partitions), _listed(reader.partitions))
    for policy, names, offered, asked in (
        ("reliability", _RELIABILITIES, writer.reliability, reader.reliability),
        ("durability", _DURABILITIES, writer.durability, reader.durability),
        ("liveliness", _LIVELINESSES, writer.liveliness, reader.liveliness),
        ("destination order", _ORDERS, writer.order, reader.order),
        ("presentation", _SCOPES, writer.scope, reader.scope),
    ):
        if asked > offered:
            yield Mismatch(policy, _kind(names, offered), _kind(names, asked))
    for policy, longest, asked_ns in (
        ("deadline", writer.deadline_ns, reader.deadline_ns),
        ("latency budget", writer.latency_ns, reader.latency_ns),
        ("liveliness lease", writer.lease_ns, reader.lease_ns),
    ):
        if asked_ns < longest:
            yield Mismatch(policy, _seconds(longest), _seconds(asked_ns))
    if writer.ownership != reader.ownership:
        yield Mismatch("ownership", _kind(_OWNERSHIPS, writer.ownership), _kind(_OWNERSHIPS, reader.ownership))
    for policy, offered_too, asked_too in (
        ("presentation, coherent access", writer.is_coherent, reader.is_coherent),
        ("presentation, ordered access", writer.is_ordered, reader.is_ordered),
    ):
        if asked_too and not offered_too:
            yield Mismatch(policy, "no", "yes")
    if writer.representations and reader.representations and writer.representations[0] not in reader.representations:
        yield Mismatch(
            "data representation", _encodings(writer.representations[:1]), _encodings(reader.representations)
        )


def _kind(names: tuple[str, ...], kind: int) -> str:
    return names[kind] if 0 <= kind < len(names) else f"kind {kind}"


def _seconds(ns: int) -> str:
    return "none" if ns >= FOR_EVER_NS else str(duration(ns / 1e9)) if ns else "0 s"


def _listed(partitions: tuple[str, ...]) -> str:
    return ", ".join(repr(name) if name else "the default one" for name in partitions or ("",))


def _encodings(ids: tuple[int, ...]) -> str:
    return " or ".join(_ENCODINGS.get(one, f"kind {one}") for one in ids)


MARK = b"rtmw"
"""Begins the user data of a node's participant and endpoints."""
FOR_PLAIN = b"plain rtmw"
"""The user data of a node's endpoints for plain programs: other nodes pass over them."""

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
    """Makes the DDS writers and readers of a node's routes, each in its partition."""

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
