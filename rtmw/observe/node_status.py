"""What a node says of itself once a second: the node's document, typed, and how it is found in a domain.

The node makes a `NodeStatus` (rtmw/net/status.py) and publishes it as JSON (rtmw/text/strict_json.py). Commands,
metrics, events and the next node read it by attribute. A member that a node of another version does not tell has its
default here. `X | None` is None where the node does not know it, or there is none, unless the field says otherwise.

Durations and times are seconds as floats unless a name ends in `_ns`. Texts that other hosts chose are made visible by
the node. Commands import this module each time they run: so its annotations are evaluated (it has no `from
__future__`), which spares `read` that, and its classes have no `repr`, a fifth of their cost; `packed` shows a value.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.observe.views import NODE_TOPIC, queue
from rtmw.text.strict_json import REST, JsonError, read

__all__ = [
    "CARRIED",
    "INSTANCES",
    "NOBODY",
    "WAITS",
    "BudgetUse",
    "Crossing",
    "DdsPeer",
    "Denial",
    "DeniedTopics",
    "Ended",
    "Hearing",
    "HostedService",
    "Keys",
    "LinkPeer",
    "Links",
    "Member",
    "NodeStatus",
    "NotCrossing",
    "Patterns",
    "Rules",
    "Standstill",
    "Standstills",
    "TurnedAwayAddress",
    "Undelivered",
    "node_seen",
    "silence",
    "told_by",
    "told_last",
]

MOST_BYTES: Final = 1 << 20
"""Bytes of a document that is looked at without taking part; a longer one is not read."""

CARRIED: Final = {"out": "sent", "in": "received"}
"""The counter of messages that crossed, by direction."""
_HOW: Final = ("packs", "uncopied", "unchecked", "resent", "old")
"""Counters of how messages travelled."""
INSTANCES: Final = ("disposed", "unregistered", "hashed")
"""Counters of what plain writers said of instances, and what is no message."""
WAITS: Final = ("blocked", "delayed", "lapses")
"""Counters of what had to wait, and was not dropped."""
_NO_DROPS: Final = frozenset({"bytes", *_HOW, *INSTANCES, *CARRIED.values(), *WAITS})
NOBODY: Final = "nobody"
"""The cause of a topic that nobody elsewhere uses (NotCrossing)."""


@dataclass(frozen=True, slots=True, repr=False)
class DdsPeer:
    """Another node that is heard over DDS, and how it is met."""

    host: str
    pid: int
    domain: int
    node: int | None = None
    """The number in its beacons."""
    address: str = ""
    """Where its DDS participant gets datagrams, as `10.0.0.7:7410`; empty: not known."""
    max_rate: int | None = None
    """Bytes a second that may leave towards it; 0 or None: no limit."""
    offset_ns: int | None = None
    """Nanoseconds by which its wall clock is ahead of ours."""
    round_trip_ns: int | None = None
    """The shortest way there and back, in nanoseconds."""
    warning: str | None = None
    """Why its clock is in the way; None: it is not."""
    way: str = "DDS"
    """How topics go: `DDS`, `DDS in clear`, `link` or `refused`."""
    why: str = ""
    """Why nothing crosses, or in clear; empty: nothing is to be said."""
    advice: str = ""
    """What to do about `why`."""
    unfound: str = ""
    """Why the two do not find each other for a link; empty: they do, or need not."""

    def json_names(self) -> tuple[str, ...]:
        return _DDS_PEER


_DDS_PEER: Final = (
    "node", "host", "pid", "domain", "address", "max_rate", "offset_ns", "round_trip_ns", "warning", "way", "why",
    "advice", "unfound",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Crossing:
    """A topic that crosses in one direction, or that has and no longer does, and what was counted of it."""

    topic: str
    type: str | None = None
    """None, as `reliability` and `with_`: it no longer crosses."""
    reliability: str | None = None
    with_: str | None = None
    """With whom: `nodes` or `plain` DDS programs, or the name of the peer of a link."""
    readers: int | None = None
    """Readers elsewhere, of a topic that leaves."""
    writers: int | None = None
    """Writers elsewhere, of a topic that comes in."""
    counters: Mapping[str, int] = field(default_factory=dict[str, int], metadata=REST)
    """Messages by name of the counter; `bytes`: of their payloads."""

    def json_names(self) -> tuple[str, ...]:
        if self.type is None:
            return ("topic",)
        return _GOES_OUT if self.readers is not None else _COMES_IN

    @property
    def ends(self) -> int:
        """Readers or writers elsewhere."""
        return self.readers or self.writers or 0

    def drops(self) -> dict[str, int]:
        """Messages that were dropped, by cause."""
        return {name: value for name, value in self.counters.items() if name not in _NO_DROPS}


_GOES_OUT: Final = ("topic", "type", "reliability", "with", "readers")
_COMES_IN: Final = ("topic", "type", "reliability", "with", "writers")


@dataclass(frozen=True, slots=True, repr=False)
class Ended:
    """Topics that no longer cross, by direction: the last ones, and in one row the sum of all before."""

    out: tuple[Crossing, ...] = ()
    in_: tuple[Crossing, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class NotCrossing:
    """A topic that does not cross, in one direction, to or from one program or peer or all."""

    topic: str
    direction: str
    """`out` or `in`."""
    cause: str
    """`pattern`, `nobody`, `type`, `qos` or `unmatched`; over a link the cause of a refusal."""
    reason: str
    endpoint: str = ""
    """GUID of the DDS endpoint elsewhere with which it does not; empty: with none in particular."""
    peer: str | None = None
    """The peer of the link; None: over DDS."""

    def json_names(self) -> tuple[str, ...]:
        return _OVER_DDS if self.peer is None else _OVER_LINK


_OVER_DDS: Final = ("topic", "direction", "cause", "reason", "endpoint")
_OVER_LINK: Final = ("topic", "direction", "cause", "endpoint", "peer", "reason")


@dataclass(frozen=True, slots=True, repr=False)
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


@dataclass(frozen=True, slots=True, repr=False)
class Patterns:
    """Patterns of the topics that may leave, that may come in, and that DDS may carry."""

    out: tuple[str, ...] = ()
    in_: tuple[str, ...] = ()
    dds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The certificate of the node; times in seconds since the epoch. All but `warning` are None where the files cannot
    be used."""

    name: str | None = None
    serial: str | None = None
    """Hexadecimal."""
    valid_from: float | None = None
    expires: float | None = None
    """The first expiry of the certificates of its chain."""
    fingerprint: str | None = None
    """SHA-256 of the certificate."""
    warning: str | None = None
    """Why the keys cannot be used, or should be renewed; None: all is well."""

    def json_names(self) -> tuple[str, ...]:
        return ("warning",) if self.expires is None else _KEYS


_KEYS: Final = ("name", "serial", "valid_from", "expires", "fingerprint", "warning")


@dataclass(frozen=True, slots=True, repr=False)
class Rules:
    """The rules of peers that the node holds."""

    file: str = ""
    """The absolute path of the settings that have them; empty: there are none."""
    version: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class BudgetUse:
    """What the nodes of a peer have taken of one kind, how much they may, and how often more was refused."""

    what: str
    taken: int
    most: int
    refused: int


@dataclass(frozen=True, slots=True, repr=False)
class DeniedTopics:
    """How many topics the peer denies to this node, by what the node asked for and the cause."""

    verb: str
    cause: str
    topics: int


@dataclass(frozen=True, slots=True, repr=False)
class LinkPeer:
    """The other node of a link that is up, or was within the lease."""

    peer: str | None
    """Its name in its certificate, or of its user; None: it has none."""
    host: str
    pid: int
    domain: int
    address: str = ""
    dialled: bool = False
    """This node dialled."""
    max_rate: int | None = None
    """Bytes a second that may leave towards it; None: no limit."""
    lease: float | None = None
    """Seconds for which a cut link may come back."""
    up: bool = False
    why_down: str = ""
    down_code: int = 0
    down_s: float | None = None
    """Seconds since it was cut; None: it is up."""
    since: float | None = None
    """When it began: seconds since the epoch."""
    cipher: str | None = None
    """None: without TLS."""
    crc: bool = False
    """Each frame has a checksum."""
    twin: bool = False
    """A second connection, for copies of urgent messages, is up."""
    why_no_twin: str = ""
    twins: int = 0
    """How often there was a twin."""
    copies: int = 0
    """Copies of urgent messages that left over the twin, as the next three a count of messages."""
    copies_left_out: int = 0
    copies_first: int = 0
    copies_passed_over: int = 0
    user: str | None = None
    """The user whom the kernel names at a Unix socket; None: it is no Unix socket."""
    expires: float | None = None
    """When the certificate of the peer expires, in seconds since the epoch; None: it has none."""
    routes_out: int = 0
    """Topics that leave over the link."""
    routes_in: int = 0
    budget: tuple[BudgetUse, ...] = ()
    denied: tuple[DeniedTopics, ...] = ()
    round_trip_ns: int | None = None
    """There and back, measured last, in nanoseconds."""
    least_round_trip_ns: int | None = None
    clock_ahead_ns: int = 0
    """Nanoseconds by which its steady clock is ahead."""
    clock_unsure_ns: int = 0
    """Nanoseconds by which that may be wrong."""
    clock_offset_ns: int | None = None
    """Nanoseconds by which its wall clock is ahead."""
    sent_bytes: int = 0
    received_bytes: int = 0
    queued_bytes: int = 0
    """Bytes that the kernel has and that have not left."""
    unacknowledged_bytes: int = 0
    """Bytes that the peer has not acknowledged; those that the kernel has are among them."""
    resumes: int = 0
    """How often the link was cut and went on."""
    warning: str | None = None
    """Why its clock is in the way; None: it is not."""


@dataclass(frozen=True, slots=True, repr=False)
class TurnedAwayAddress:
    """An address from which connections came lately that came to no link."""

    address: str
    cause: str
    """The last time, as `why`."""
    why: str
    count: int
    causes: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often, by cause."""
    ago_s: float = 0.0
    """Seconds since the last time."""


@dataclass(frozen=True, slots=True, repr=False)
class Denial:
    """What the rules denied to a peer, by verb and cause."""

    peer: str
    """Empty: a peer without a certificate."""
    verb: str
    cause: str
    number: int
    """How often."""
    subject: str
    """What it asked for the last time."""
    rule: str | None
    """The rule that denied that; None: no rule allowed it."""


@dataclass(frozen=True, slots=True, repr=False)
class Links:
    """The links of a node."""

    name: str | None = None
    """The name of the node in its certificate; None: it has no keys."""
    openssl: str | None = None
    """The version of OpenSSL; empty or None: it is not used."""
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    """Where the node listens: the port, by the place that the settings name."""
    peers: tuple[LinkPeer, ...] = ()
    failing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why there is no link with a place that the settings name."""
    failing_found: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why there is no link with a place that a node announced over DDS."""
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    """Connections that came to no link, by cause."""
    turned_away: tuple[TurnedAwayAddress, ...] = ()
    """The newest first."""
    denials: tuple[Denial, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Undelivered:
    """Messages of one topic in one direction that were not delivered."""

    topic: str
    direction: str
    """`out` or `in`."""
    messages: int
    """`out`: taken from the bus and not sent. `in`: samples that came and found no room on the bus. Samples sent and
    not acknowledged are not counted: DDS does not tell how many those are."""
    unacknowledged_by: tuple[str, ...] = ()
    """Readers that have not acknowledged what was sent last. If there are any, more messages than `messages` may be
    lost, and nobody on this host knows how many."""
    at: float = 0.0
    """When the last node ended that has not delivered them: CLOCK_MONOTONIC, in seconds."""

    @property
    def number(self) -> str:
        """How many messages are lost, in words where that is not known."""
        if not self.unacknowledged_by:
            return str(self.messages)
        return f"at least {self.messages}" if self.messages else "not known"

    def __str__(self) -> str:
        if self.direction == "in":
            return f"{self.topic}: {self.messages} that came find no room on the bus"
        parts = [f"{self.messages} taken from the bus and not sent"] if self.messages else []
        who = ", ".join(self.unacknowledged_by)
        parts += [f"what was sent last is not acknowledged by {who}"] if who else []
        return f"{self.topic}: {', '.join(parts) or 'not all is taken from the bus'}"


@dataclass(frozen=True, slots=True, repr=False)
class Hearing:
    """A node that this one hears or has heard over DDS, or a host that the settings name and from which nothing came;
    `pid` and `domain` are None then."""

    host: str
    pid: int | None = None
    domain: int | None = None
    silent_s: float | None = None
    """Seconds since it was heard; None: never."""
    deaf_s: float | None = None
    """Seconds since it showed that it hears this node, or since it was heard first."""


@dataclass(frozen=True, slots=True, repr=False)
class Standstill:
    """Something that stood still, and was made anew."""

    topic: str
    direction: str
    """`out` or `in`."""
    peer: str
    times: int
    missing: int
    """Messages that had not come when it was noticed last."""
    at: float
    """When that was: CLOCK_MONOTONIC, in seconds."""


@dataclass(frozen=True, slots=True, repr=False)
class Standstills:
    """How often something stood still, by direction, and what."""

    in_: int = 0
    out: int = 0
    rows: tuple[Standstill, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class HostedService:
    """A service that the node hosts."""

    name: str
    pid: int | None = None
    """None: it is not running."""
    starts: int = 0
    why: str = ""
    """The reason that its last process gave at its end."""
    failures: int = 0
    """How often in a row it ended soon after its start; 0 also where it has been running for long."""
    silent: float | None = None
    """Seconds for which its process has stood still; None: it is at work, or is not running."""
    full: str = ""
    """Its disk is full; what it says of that."""

    @property
    def fault(self) -> str:
        """Why it does not go on; empty: nothing is known against it."""
        if not self.failures:
            return ""
        times = "once" if self.failures == 1 else f"{self.failures} times in a row, soon after its start"
        return f"ended {times}: {self.why or 'it gave no reason'}"


@dataclass(frozen=True, slots=True, repr=False)
class NodeStatus:
    """How a node is. All members but `pid` and `told_ns` may be missing in what is read."""

    pid: int
    told_ns: int
    """When it said so: CLOCK_MONOTONIC of its host, in nanoseconds."""
    host: str = ""
    domain: int = 0
    dds_domain: int = 0
    interface: str | None = None
    """Names of the interfaces that DDS uses, with commas; None: not known."""
    interface_why: str = ""
    """Why these."""
    multicast: bool = False
    """Others are found by multicast: the settings name no peers."""
    peers: tuple[DdsPeer, ...] = ()
    participants: int = 0
    """DDS participants that are known, nodes among them."""
    shortest_lifetime_ns: int | None = None
    """The shortest lifetime or deadline that anybody has announced, in nanoseconds; None: there is none."""
    out: tuple[Crossing, ...] = ()
    in_: tuple[Crossing, ...] = ()
    ended: Ended = Ended()
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a topic is refused, by topic."""
    apart: tuple[NotCrossing, ...] = ()
    elsewhere: tuple[Member, ...] = ()
    apart_untold: int = 0
    """How many more there are than `apart` has."""
    elsewhere_untold: int = 0
    """How many more there are than `elsewhere` has."""
    patterns: Patterns | None = None
    keys: Keys | None = None
    """None: without keys."""
    rules: Rules = Rules()
    links: Links | None = None
    """None: without links."""
    undelivered: tuple[Undelivered, ...] = ()
    """What this node at its end, and those before it, have not delivered."""
    datagram: int | None = 0
    """Bytes of the largest datagram of DDS; None: CYCLONEDDS_URI says it; 0: not known."""
    since: float = 0.0
    """When the node was started: seconds since the epoch."""
    swept: int = 0
    """Things that dead programs held, given back."""
    guid: str = ""
    """The DDS participant of the node, hexadecimal; empty: it has not joined yet."""
    cut_off: str | None = None
    """Why it has no network."""
    public_calls_only: str | None = None
    """Why it uses public calls of the DDS library alone, which are slower."""
    hearing: tuple[Hearing, ...] = ()
    refusals: Mapping[str, int] = field(default_factory=dict[str, int])
    """Samples that came and could not be used, by cause."""
    standstills: Standstills | None = None
    metrics_address: str = ""
    services: tuple[HostedService, ...] = ()
    metrics_port: int | None = None
    """None: metrics are not served."""
    pool: int | None = None
    """Bytes of the domain's pool; None: it does not say."""
    pool_asked: int | None = None
    """Bytes that the settings ask for; None: they ask for none."""

    def json_names(self) -> tuple[str, ...]:
        return _JOINED if self.guid else _WAITING

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "NodeStatus":
        """Reads the document of a node. Raises JsonError."""
        return read(cls, told, "the document of the node")

    @property
    def silent_s(self) -> float:
        """Seconds since it said so, by the clock of this host: that of the node."""
        return silence(self.told_ns)


_JOINED: Final = (
    "pid", "host", "domain", "dds_domain", "interface", "interface_why", "multicast", "peers", "participants",
    "shortest_lifetime_ns", "out", "in", "ended", "refused", "apart", "elsewhere", "apart_untold", "elsewhere_untold",
    "patterns", "keys", "rules", "links", "undelivered", "told_ns", "datagram", "since", "swept", "guid", "cut_off",
    "public_calls_only", "hearing", "refusals", "standstills", "metrics_address", "services", "metrics_port", "pool",
    "pool_asked",
)  # fmt: skip
_WAITING: Final = (
    "pid", "guid", "host", "domain", "dds_domain", "interface", "interface_why", "cut_off", "multicast", "peers", "out",
    "in", "apart", "elsewhere", "participants", "swept", "apart_untold", "elsewhere_untold", "refused", "refusals",
    "shortest_lifetime_ns", "metrics_port", "public_calls_only", "patterns", "keys", "rules", "links", "ended",
    "told_ns", "since", "metrics_address", "undelivered",
)  # fmt: skip
"""What a node tells that waits for a network."""


def silence(told_ns: int) -> float:
    """Seconds since the time `told_ns` of a document of this host."""
    return max(0.0, (CLOCK.monotonic_ns() - told_ns) / 1e9)


def told_by(data: bytes, pid: int) -> dict[str, Any] | None:
    """The document that the process `pid` has published, as it is told; None: it tells of another process. Raises
    JsonError where it is no document of a node."""
    try:
        told: dict[str, Any] = json.loads(data)
        is_own = told["pid"] == pid and 0 <= told["told_ns"] < 1 << 63
    except (ValueError, KeyError, TypeError, RecursionError):
        raise JsonError(f"what process {pid} has published on {NODE_TOPIC} is no document of a node") from None
    return told if is_own else None


def told_last(domain: Domain) -> dict[str, Any] | None:
    """What the node of a domain has told last, for a domain that is only observed, too; None: there is no node, or it
    has told nothing. Raises JsonError where nothing but what cannot be read is there, as a document that is longer than
    MOST_BYTES."""
    unread: JsonError | None = None
    for message in reversed(queue(domain, NODE_TOPIC, MOST_BYTES)):
        try:
            told = told_by(message.preview, message.publisher)
        except JsonError as error:
            unread = error
            continue
        if told is not None and os.path.exists(f"/proc/{message.publisher}"):
            return told
    if unread is not None:
        raise unread
    return None


def node_seen(domain: Domain) -> NodeStatus | None:
    """The document of `told_last`, typed; None as there. Raises JsonError."""
    told = told_last(domain)
    return None if told is None else NodeStatus.of(told)
