"""What the bus of this host shows: who publishes and subscribes to which topic, but for this node itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from rtmw import shm
from rtmw.domain import Domain
from rtmw.qos import Reliability
from rtmw.types import ANY, AnyType, MessageType, from_description, resolve


@dataclass(frozen=True)
class Publishing:
    """A publisher here."""

    kind: MessageType
    reliability: Reliability
    priority: int
    depth: int
    history: int
    lifetime_ns: int
    """Of messages that say nothing else; 0: no limit."""


@dataclass(frozen=True)
class Subscribing:
    """A subscriber here."""

    kind: MessageType | AnyType
    reliability: Reliability
    depth: int
    history: int
    min_interval_ns: int
    deadline_ns: int

    def takes(self, kind: MessageType) -> bool:
        """Does it take messages of this type?"""
        return isinstance(self.kind, AnyType) or self.kind.identity == kind.identity


@dataclass(frozen=True)
class LocalTopic:
    publishers: tuple[Publishing, ...]
    subscribers: tuple[Subscribing, ...]


_kind_of = lru_cache(maxsize=4096)(from_description)


def _resolve(types: dict[int, tuple[str, bytes]], index: int) -> MessageType | AnyType:
    if index == shm.TYPE_ANY:
        return ANY
    return resolve(bytes) if index == shm.TYPE_RAW else _kind_of(types[index][1])


def look(domain: Domain) -> dict[str, LocalTopic]:
    """The topics of a domain that programs other than this one use, by name."""
    region, own = domain.region, os.getpid()
    publishers = [row for row in region.publishers() if row[1] >> 32 != own]
    subscribers = [row for row in region.subscribers() if row[1] >> 32 != own]
    used = {row[0] for row in publishers} | {row[0] for row in subscribers}
    if not used:
        return {}
    types, topics = region.types(), dict[str, LocalTopic]()
    for slot, name, *_ in region.topics():
        if slot not in used:
            continue
        sending, taking = list[Publishing](), list[Subscribing]()
        for at, _, type, reliability, priority, depth, history, *_, lifetime_ns in publishers:
            kind = _resolve(types, type)
            if at == slot and not isinstance(kind, AnyType):
                sending.append(Publishing(kind, Reliability(reliability), priority, depth, history, lifetime_ns))
        for row in subscribers:
            if row[0] == slot:
                taking.append(Subscribing(_resolve(types, row[2]), Reliability(row[3]), row[4], *row[8][:3]))
        topics[name] = LocalTopic(tuple(sending), tuple(taking))
    return topics
