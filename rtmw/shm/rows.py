"""The tables of a region as rows with names: of topics, and of who publishes and subscribes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from rtmw.shm._core import Region


class TopicRow(NamedTuple):
    life: int
    """The number by which other rows know the topic: another one once the topic was given up and made again."""
    name: str
    retired_bytes: int
    """Payload bytes of publishers that are gone."""
    bands: tuple[tuple[int, int], ...]
    """For each priority: the number of messages published, and of messages kept."""
    history: int
    """The largest number of messages that a publisher of it promised to keep."""


class PublisherRow(NamedTuple):
    topic: int
    """`life` of its topic."""
    identity: int
    """Identity of the endpoint within the host; the upper 32 bits are the process id."""
    type: int
    """Key in `Region.types`, or TYPE_RAW."""
    reliability: int
    priority: int
    depth: int
    history: int
    published: int
    bytes: int
    timed_out: int
    exhausted: int
    max_blocking: int
    """Nanoseconds, plus 1; 0: not known; 2^64 - 1: no limit."""
    lifetime_ns: int
    """0: no limit."""
    is_alive: bool
    """False: its program has died, and nobody has cleaned up after it yet."""
    held_by_history: int = 0
    """How many of `exhausted` were refused while `history` kept more of the memory than RELIABLE subscribers need."""

    @property
    def pid(self) -> int:
        return pid_of(self.identity)


class SubscriberCounters(NamedTuple):
    received: int
    bytes: int
    behind: int
    missed: int
    expired: int
    thinned: int
    unmatched: int
    other_types: int
    deadlines_missed: int
    lapses: int


class SubscriberRow(NamedTuple):
    topic: int
    """`life` of its topic."""
    identity: int
    """Identity of the endpoint within the host; the upper 32 bits are the process id."""
    type: int
    """Key in `Region.types`, TYPE_RAW or TYPE_ANY."""
    reliability: int
    depth: int
    counters: SubscriberCounters
    reached: tuple[int, ...]
    """The last sequence that it has come to, of each priority."""
    latency: list[tuple[int, int, int]]
    """Buckets: from, to (nanoseconds, inclusive), how many messages."""
    history: int
    min_interval_ns: int
    deadline_ns: int
    is_exact: int
    """1: it is matched with publishers of just its reliability."""
    lease_ns: int
    is_parked: bool
    """A node has left it to the next one."""
    is_alive: bool
    """False: its program has died, or the time for which it was parked is over; nobody has cleaned up after it yet."""

    @property
    def pid(self) -> int:
        return pid_of(self.identity)


Row = TypeVar("Row", PublisherRow, SubscriberRow)


def pid_of(identity: int) -> int:
    """The process of an endpoint, by its identity within the host."""
    return identity >> 32


def topics(region: Region) -> list[TopicRow]:
    return [*map(TopicRow._make, region.topics())]


def publishers(region: Region, topic: int = 0) -> list[PublisherRow]:
    """Rows of the publishers of the topic with this `life`; 0: of all topics."""
    return [*map(PublisherRow._make, region.publishers(topic))]


def subscribers(region: Region, topic: int = 0) -> list[SubscriberRow]:
    """Rows of the subscribers of the topic with this `life`; 0: of all topics."""
    return [
        SubscriberRow(*row[:5], SubscriberCounters._make(row[5]), row[6], row[7], *row[8][:5], *row[8][5:])
        for row in region.subscribers(topic)
    ]


def living(rows: Iterable[Row]) -> list[Row]:
    """The rows of endpoints that take part: a dead program's stay in the region until somebody cleans up."""
    return [row for row in rows if row.is_alive]
