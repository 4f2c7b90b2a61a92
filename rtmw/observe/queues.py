"""The messages in the queues of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from rtmw import shm
from rtmw.domain import Domain
from rtmw.matching import topic_life, type_name_of
from rtmw.qos import Reliability

RELIABLE = Reliability.RELIABLE


@dataclass(frozen=True)
class QueuedMessage:
    """A message as it lies in a queue."""

    priority: int
    sequence: int
    size: int
    type_name: str
    publisher: int
    """Process id of the publisher."""
    source_time_ns: int
    expires_ns: int | None
    holders: tuple[int, ...]
    """Process ids that hold it."""
    to_be_sent: bool
    """Some subscriber that gets it by type and reliability has not come to it (requirement P13)."""
    preview: bytes
    """The first bytes of the payload: at most 64, if no other number was asked for."""


@dataclass(frozen=True)
class _Reader:
    type: int
    asked: int
    """A Reliability."""
    exact: bool
    """It gets only messages that were offered with just that reliability."""
    reached: tuple[int, ...]
    """The last sequence that it has come to, of each priority."""

    def gets(self, type: int, offered: int) -> bool:
        matched = offered == self.asked if self.exact else self.asked != RELIABLE or offered == RELIABLE
        return matched and self.type in (type, shm.TYPE_ANY)


def queue(domain: Domain, topic: str, preview: int = 64) -> list[QueuedMessage]:
    """The messages in a topic's queues, highest band first, oldest first; [] for a topic that nobody uses.

    `preview`: bytes of each payload that are read, at most 1 MiB.
    """
    region = domain.region
    types = region.types()
    life = topic_life(region, topic)
    if life is None:
        return []
    found = region.queue(life, preview)
    readers = [
        _Reader(row.type, row.reliability, bool(row.is_exact), row.reached)
        for row in shm.living(shm.subscribers(region))
        if row.topic == life
    ]
    return [
        QueuedMessage(
            priority=band,
            sequence=sequence,
            size=size,
            type_name=type_name_of(types, type),
            publisher=shm.pid_of(publisher),
            source_time_ns=source_time_ns,
            expires_ns=expires_ns or None,
            holders=tuple(holders),
            to_be_sent=any(one.gets(type, offered) and sequence > one.reached[band] for one in readers),
            preview=shown,
        )
        for band, sequence, size, type, publisher, source_time_ns, expires_ns, holders, shown, offered in found
    ]
