"""The writers and readers that the DDS domain shows, by topic, far away and near, but for those of this node itself.

`Refusals` counts data of strangers that cannot be used, and failures of one topic or one step, by cause, and says each
once.

Anybody who reaches the ports of a node may send it anything. So each sample is read by itself, by one reader that
raises Refused, inside a `barrier`: an error in it costs nobody but its sender.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from rtmw.errors import RtmwError
from rtmw.net.dds.library import DomainParticipant, builtin, shown
from rtmw.net.dds.wire import FOR_EVER_NS, FOR_PLAIN, MARK, RELIABLE, TRANSIENT_LOCAL, Policies
from rtmw.net.topics import ByTopic
from rtmw.text.visible import visible
from rtmw.types.message_type import DESCRIPTION_LIMIT

if TYPE_CHECKING:
    from rtmw.net.dds._engine import EndpointRow, ParticipantRow

log = logging.getLogger("rtmw.node")


class Refused(RtmwError):
    """Data that somebody sent are not what they should be; the message says why."""


class Refusals:
    """Counts what was refused, by cause. Not for several threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @contextmanager
    def barrier(self, cause: str) -> Generator[None]:
        """Nothing that goes wrong within leaves it. `cause`: what it is counted and shown as."""
        try:
            yield
        except Exception as error:  # it may be of any library that reads what came
            self.refuse(cause, error)

    def refuse(self, cause: str, error: Exception) -> None:
        self.counts[cause] += 1
        if self.counts[cause] > 1:
            return
        why = str(error) if isinstance(error, RtmwError) else f"{type(error).__name__}: {error}"
        unexpected = None if isinstance(error, RtmwError) else error
        log.warning("%s refused: %s; more of it is counted only", cause, why, exc_info=unexpected)


_DESCRIPTION_MOST = 1 + DESCRIPTION_LIMIT
_PARTITION_MOST = 256
"""Bytes of the name of a partition."""
_PLACES_MOST, _PLACE_LONGEST = 8, 64
"""Places of one node that are read, and characters of each."""
_BATCHES = 16
"""Batches of news that one `poll` takes from a reader, so that a flood of it keeps nothing else waiting."""
PACKS = 1
"""The version of packs that this node reads (trailer.h)."""
TRAILERS = 2
"""The version of trailers that this node reads: 2 have a CRC (trailer.h); nodes that say none read 1."""

DATES = 1
"""The version of dates of lifetimes that this node reads (trailer.h)."""

ROSTERS = 1
"""The version of rosters that are told when something has changed (own_topics.py)."""

LEAVING = 1
"""The version of what nodes say when they end (succession.py)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A DDS writer or reader of somebody else."""

    guid: str
    participant: str
    topic: str
    type_name: str
    type_id: bytes | None
    """Its complete TypeIdentifier of XTypes, in XCDR2; None where the other side does not tell its types."""
    description: bytes | None
    """User data of a node's endpoint (routes.py); None for plain DDS programs, and endpoints that serve them."""
    is_for_plain: bool
    """A node's endpoint that is there for plain DDS programs, and for no other node."""
    policies: Policies
    history: int
    """Messages that it keeps; 0 when it is volatile."""
    priority: int
    min_interval_ns: int
    lifetime_ns: int
    """Lifetime of what a writer sends; 0, here and in min_interval_ns: none."""

    @property
    def partitions(self) -> tuple[str, ...]:
        return self.policies.partitions

    @property
    def is_reliable(self) -> bool:
        return self.policies.reliability == RELIABLE

    @property
    def keeps(self) -> bool:
        """A writer keeps messages for late readers, a reader asks for them."""
        return self.policies.durability >= TRANSIENT_LOCAL

    @property
    def deadline_ns(self) -> int:
        """0: none."""
        return limited(self.policies.deadline_ns)


def endpoint_of(row: EndpointRow) -> Endpoint:
    """Raises Refused."""
    guid, participant, topic, type_name, data, type_id, asked, representations, kept, priority, *times = row
    policies = Policies(_partitions(asked[0]), *asked[1:], representations)
    return Endpoint(
        guid.hex(),
        participant.hex(),
        _text(topic, "its topic's name"),
        _text(type_name, "its type's name"),
        type_id,
        _description(data),
        data == FOR_PLAIN,
        policies,
        max(kept, 1) if policies.durability >= TRANSIENT_LOCAL else 0,
        min(max(priority, 0), 7),
        *map(limited, times),
    )


def limited(ns: int) -> int:
    """0: there is no limit."""
    return ns if 0 < ns < FOR_EVER_NS else 0


def _text(given: bytes | None, what: str) -> str:
    if given is None:
        raise Refused(f"an endpoint: {what} is missing or too long")
    try:
        return given.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"an endpoint: {what}, {given[:80]!r}, is not UTF-8") from error


def _description(data: bytes | None) -> bytes | None:
    if data is None or not data.startswith(MARK):
        return None
    if len(data) > len(MARK) + _DESCRIPTION_MOST:
        raise Refused(f"an endpoint: it describes its type in {len(data)} bytes; at most {DESCRIPTION_LIMIT} are read")
    return data[len(MARK) :]


def _partitions(given: tuple[bytes | None, ...] | None) -> tuple[str, ...]:
    """A name that is not UTF-8 meets no partition of ours, and is kept to be shown."""
    if given is None or any(name is None or len(name) > _PARTITION_MOST for name in given):
        raise Refused("an endpoint: it has too many partitions, or one with too long a name")
    return tuple((name or b"").decode(errors="replace") for name in given)


@dataclass(frozen=True)
class Program:
    """A DDS participant of somebody else, by what it says of itself."""

    host: str = ""
    """Empty: it does not say."""
    pid: int = 0
    name: str = ""
    address: str = ""
    """Where it receives."""
    domain: int | None = None
    """Its rtmw domain; None: it is no node."""
    knows_packs: bool = False
    """A node that reads several messages out of one sample (trailer.h)."""
    knows_crcs: bool = False
    """A node that reads samples with a CRC (trailer.h)."""
    knows_dates: bool = False
    """A node that reads lifetimes that say when they were sent (trailer.h)."""
    knows_rosters: bool = False
    """A node that is told of programs when something has changed (own_topics.py)."""
    knows_leaving: bool = False
    """A node that keeps RELIABLE topics for one that ends (succession.py)."""
    region: str = ""
    """What a node calls the region of its domain, as the node that follows it does; empty: it does not say."""
    link: str | None = None
    """UUID by which a node with links is known on them; None: it has no links."""
    link_name: str = ""
    """The name in its certificate, as it says; empty: it has none."""
    link_user: str = ""
    """User that a node says it is, if it meets others at Unix sockets."""
    link_places: tuple[str, ...] = ()
    """Where a node that is to be found accepts links, ADDRESS:PORT."""
    link_insecure: bool = False
    """A node with keys meets nodes without keys, too, in clear."""

    @classmethod
    def of(cls, row: ParticipantRow) -> Program:
        """Fields that are not understood are left out: a program need not say anything of itself."""
        data, (host, pid, name, places) = row[1], (_shown(text) for text in row[2:])
        udp = [place for place in places.split(",") if place.startswith(("udp/", "udp6/"))]
        address = udp[-1].partition("/")[2].partition("@")[0] if udp else ""
        node = _read(data[len(MARK) :]) if data is not None and data.startswith(MARK) else {}
        domain = node.get("domain")
        return cls(
            host,
            int(pid) if pid.isascii() and pid.isdecimal() and len(pid) < 20 else 0,
            name,
            address,
            domain if type(domain) is int else None,
            node.get("packs") == PACKS,
            node.get("trailers") == TRAILERS,
            node.get("dates") == DATES,
            node.get("rosters") == ROSTERS,
            node.get("leaving") == LEAVING,
            region if isinstance(region := node.get("region"), str) else "",
            link if isinstance(link := node.get("link"), str) else None,
            link_name if isinstance(link_name := node.get("link_name"), str) else "",
            link_user if isinstance(link_user := node.get("link_user"), str) else "",
            _places(node.get("link_places")),
            node.get("link_insecure") is True,
        )

    @property
    def has_keys(self) -> bool:
        """A node that has keys, as it says."""
        return bool(self.link_name)

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host else ""
        if self.domain is not None:
            return f"the node of domain {self.domain}{place}"
        return f"{self.name or 'a DDS program'}{f' ({self.pid})' if self.pid else ''}{place}"


def _shown(text: bytes | None) -> str:
    return visible((text or b"").decode(errors="replace"))


def _places(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list):
        return ()
    rows = cast("Sequence[Any]", found)[:_PLACES_MOST]
    return tuple(one for one in rows if isinstance(one, str) and len(one) <= _PLACE_LONGEST)


def describe_node(host: str, pid: int, domain: int, region: str, link: Mapping[str, Any] | None = None) -> bytes:
    """The description of a node in the user data of its participant. `link`: the description of its links."""
    return json.dumps(
        {
            "host": host,
            "pid": pid,
            "domain": domain,
            "packs": PACKS,
            "trailers": TRAILERS,
            "dates": DATES,
            "rosters": ROSTERS,
            "leaving": LEAVING,
            "region": region,
            **(link or {}),
        }
    ).encode()


def _read(description: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(description)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


class Discovery:
    """Writers, readers and participants of others, as of the last `poll`."""

    def __init__(self, participant: DomainParticipant, refusals: Refusals) -> None:
        self._own = participant.guid.hex
        self._refusals = refusals
        self.writers, self.readers = ByTopic[str, Endpoint](), ByTopic[str, Endpoint]()
        """By their GUIDs."""
        self.participants: dict[str, Program] = {}
        """By their GUIDs."""
        self._shown = [
            builtin.BuiltinDataReader(participant, topic)
            for topic in (
                builtin.BuiltinTopicDcpsPublication,
                builtin.BuiltinTopicDcpsSubscription,
                builtin.BuiltinTopicDcpsParticipant,
            )
        ]
        self.reader_news: int = self._shown[1]._ref
        """The DDS entity that tells of readers."""
        self.changes = 0
        """Grows with whatever is new."""
        self.gone = 0
        """Endpoints that have left, in all."""
        self.is_behind = False
        """More is new than the last `poll` took in."""
        self._touched, self._met = set[str](), set[str]()
        """DDS topics, and participants, of which something is new in this `poll`."""
        self._shortest = (-1, 0)
        """The value of `changes` for which the shortest time was found, and that time in nanoseconds."""

    def poll(self) -> set[str]:
        """Take in what is new. The DDS topics of which an endpoint is new, gone or another, or of another program."""
        self.is_behind = False
        self._touched, self._met = set[str](), set[str]()
        writers, readers, participants = (reader._ref for reader in self._shown)
        for reader, kept in ((writers, self.writers), (readers, self.readers)):
            self._take(reader, False, partial(self._drop, kept), partial(self._put, kept))
        self._take(participants, True, self._forget, self._meet)
        if self._met:
            both = chain(self.writers, self.readers)
            self._touched.update(endpoint.topic for endpoint in both if endpoint.participant in self._met)
        return self._touched

    def _take(
        self, reader: int, are_participants: bool, gone: Callable[[str], None], put: Callable[[Any], None]
    ) -> None:
        for _ in range(_BATCHES):
            rows = shown(reader, are_participants)
            for row in rows:
                self.changes += 1
                with self._refusals.barrier("participant" if are_participants else "endpoint"):
                    if isinstance(row, bytes):
                        gone(row.hex())
                    else:
                        put(row)
            if not rows:
                return
        self.is_behind = True

    def _put(self, kept: ByTopic[str, Endpoint], row: EndpointRow) -> None:
        """An endpoint that cannot be read is not kept as it was before, either."""
        self._drop(kept, row[0].hex())
        if row[1].hex() != self._own:
            endpoint = endpoint_of(row)
            kept.put(endpoint.topic, endpoint.guid, endpoint)
            self._touched.add(endpoint.topic)

    def _drop(self, kept: ByTopic[str, Endpoint], guid: str) -> None:
        gone = kept.pop(guid)
        if gone is not None:
            self.gone += 1
            self._touched.add(gone.topic)

    def _meet(self, row: ParticipantRow) -> None:
        guid = row[0].hex()
        if guid != self._own:
            self.participants[guid] = Program.of(row)
            self._met.add(guid)

    def _forget(self, guid: str) -> None:
        self.participants.pop(guid, None)
        self._met.add(guid)

    @property
    def shortest_ns(self) -> int:
        """The shortest deadline of a reader or lifetime of a writer; 0: there is none."""
        if self._shortest[0] != self.changes:
            times = [reader.deadline_ns for reader in self.readers] + [writer.lifetime_ns for writer in self.writers]
            self._shortest = (self.changes, min((ns for ns in times if ns), default=0))
        return self._shortest[1]

    def program(self, endpoint: Endpoint) -> Program:
        """Whose endpoint it is."""
        return self.participants.get(endpoint.participant, Program())
