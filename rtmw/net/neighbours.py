"""The publishers and subscribers that the bus of this host shows, by topic, but for those of this node itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rtmw import shm
from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.observe.views import by_topic
from rtmw.qos import Reliability
from rtmw.types import ANY, AnyType, MessageType, from_description, resolve


@dataclass(frozen=True)
class Publishing:
    """A publisher here."""

    type: MessageType
    reliability: Reliability
    priority: int
    depth: int
    history: int
    lifetime_ns: int
    """Lifetime of messages that say none; 0: no limit."""


@dataclass(frozen=True)
class Subscribing:
    """A subscriber here."""

    type: MessageType | AnyType
    reliability: Reliability
    depth: int
    history: int
    min_interval_ns: int
    deadline_ns: int

    def takes(self, type: MessageType) -> bool:
        """Does it take messages of this type?"""
        return isinstance(self.type, AnyType) or self.type.identity == type.identity


@dataclass(frozen=True)
class LocalTopic:
    publishers: tuple[Publishing, ...]
    subscribers: tuple[Subscribing, ...]
    strange: tuple[tuple[str, str], ...] = ()
    """Types of programs here that cannot be read: the direction, and which type and why. A C program describes its
    types as it likes, and another version of rtmw in a way of its own."""


Types = dict[int, tuple[str, bytes]]
"""The types of a region: name and description, by life."""

_type_of = lru_cache(maxsize=4096)(from_description)


class _Kinds:
    """The types of a region, by their life there."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self.strange: dict[str, None] = {}
        """Types that could not be read, in the order in which they were met."""

    def __call__(self, life: int) -> MessageType | AnyType | None:
        if life in (shm.TYPE_ANY, shm.TYPE_RAW):
            return ANY if life == shm.TYPE_ANY else resolve(bytes)
        if life not in self._types:  # the endpoint has gone since its row was read, and its type with it
            return None
        name, description = self._types[life]
        try:
            return _type_of(description)
        except RtmwError as error:
            self.strange[f"{name}, which cannot be read: {error}"] = None
            return None


class Neighbours:
    """The topics of a domain, kept as they change. Not for several threads."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._seen: int | None = None
        self.topics: dict[str, LocalTopic] = {}
        """Those that programs other than this one use, by name."""

    def look(self) -> set[str]:
        """Take in what has changed: the topics that others use in another way than when it was looked last."""
        now = self._domain.region.endpoints_fingerprint()
        if now == self._seen:
            return set()
        before, self.topics = self.topics, look(self._domain)
        self._seen = now  # from before the look, so what changes during it is seen by the next one
        return {name for name in before.keys() | self.topics.keys() if before.get(name) != self.topics.get(name)}


def look(domain: Domain) -> dict[str, LocalTopic]:
    """The topics of a domain that programs other than this one use, by name."""
    region, own = domain.region, os.getpid()
    publishers = by_topic(row for row in shm.publishers(region) if row.pid != own)
    rows = shm.subscribers(region)
    subscribers = by_topic(row for row in rows if row.pid != own and not row.is_parked)
    for row in [_as_publisher(row) for row in rows if row.is_parked]:
        there = publishers.setdefault(row.topic, [])
        if not any((other.type, other.reliability) == (row.type, row.reliability) for other in there):
            there.append(row)
    if not publishers and not subscribers:
        return {}
    types, topics = region.types(), dict[str, LocalTopic]()
    for life, name, *_ in shm.topics(region):
        if life in publishers or life in subscribers:
            topics[name] = _topic(types, publishers.get(life, ()), subscribers.get(life, ()))
    return topics


_REMOTE = 1 << 63
"""RTMW_REMOTE of rtmw.h."""


def on_bus(domain: Domain, topic: str) -> dict[int, int]:
    """The publishers of other hosts of which a topic has messages in its queues; the newest source time of each."""
    region, newest = domain.region, dict[int, int]()
    for life in [row.life for row in shm.topics(region) if row.name == topic]:
        for _, _, _, _, publisher, source_time_ns, *_ in region.queue(life):
            if publisher & _REMOTE:
                newest[publisher] = max(source_time_ns, newest.get(publisher, 0))
    return newest


def origin(domain: Domain) -> str:
    """The name of the region of a domain, unique among those of all hosts for as long as it exists."""
    return f"rtmw bus {domain.region.nonce:016x}"


def _as_publisher(row: shm.SubscriberRow) -> shm.PublisherRow:
    """Makes a publisher of the subscription that an earlier node has left. The messages that the subscription keeps
    were published, though their publishers may be gone."""
    said = (row.topic, row.identity, row.type, row.reliability)
    return shm.PublisherRow(*said, 0, row.depth, 0, 0, 0, 0, 0, 0, 0, is_alive=row.is_alive)


def _topic(
    types: Types, publishers: Sequence[shm.PublisherRow], subscribers: Sequence[shm.SubscriberRow]
) -> LocalTopic:
    out, into, sending, taking = _Kinds(types), _Kinds(types), list[Publishing](), list[Subscribing]()
    for row in publishers:
        type = out(row.type)
        if isinstance(type, MessageType):
            offered = Reliability(row.reliability)
            sending.append(Publishing(type, offered, row.priority, row.depth, row.history, row.lifetime_ns))
    for one in subscribers:
        wanted = into(one.type)
        if wanted is not None:
            asked = Reliability(one.reliability)
            taking.append(Subscribing(wanted, asked, one.depth, one.history, one.min_interval_ns, one.deadline_ns))
    strange = [("out", type) for type in out.strange] + [("in", type) for type in into.strange]
    return LocalTopic(tuple(sending), tuple(taking), tuple(strange))
