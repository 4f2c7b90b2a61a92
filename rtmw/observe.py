"""Look into a domain without taking part in it: topics, queues, endpoints and the books (requirement P10).

Everything is read from counters and control blocks in the region; nobody has to cooperate, and nothing is subscribed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rtmw.domain import Domain
from rtmw.qos import Reliability


@dataclass(frozen=True)
class PublisherView:
    """A publisher as its control block shows it."""

    pid: int
    process: str
    """Name of the program."""
    type_name: str
    reliability: Reliability
    priority: int
    depth: int
    history: int
    published: int
    """Messages appended, in all."""
    bytes: int
    """Payload bytes appended, in all."""
    timed_out: int
    """Messages refused because a RELIABLE subscriber's queue stayed full for `max_blocking`."""
    exhausted: int
    """Messages refused because no memory could be had."""


@dataclass(frozen=True)
class SubscriberView:
    """A subscriber as its control block shows it. Each drop has one cause."""

    pid: int
    process: str
    type_name: str
    """`*` for `rtmw.ANY`."""
    reliability: Reliability
    depth: int
    received: int
    bytes: int
    behind: int
    """Messages in the queues that it has not taken yet."""
    missed: int
    """Evicted before it took them (depth or pool)."""
    expired: int
    """Skipped because their lifetime had passed."""
    thinned: int
    """Skipped because they came inside `min_interval`."""
    unmatched: int
    """Skipped because their publisher offers less than RELIABLE, and this subscriber asks for it."""
    deadlines_missed: int
    lapses: int
    """Times that the lease ran out."""


@dataclass(frozen=True)
class TopicView:
    """A topic and who uses it."""

    name: str
    types: tuple[str, ...]
    published: int
    """Messages appended since the topic exists."""
    bytes: int
    """Payload bytes appended since the topic exists."""
    queued: tuple[int, ...]
    """Messages in the queue of each priority band, index 0 to 7."""
    publishers: tuple[PublisherView, ...]
    subscribers: tuple[SubscriberView, ...]


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
    preview: bytes
    """The first bytes of the payload, at most 64."""


@dataclass(frozen=True)
class ParticipantView:
    """An attached process."""

    pid: int
    process: str
    alive: bool
    publishers: int
    subscribers: int
    loaned: int
    """Descriptors it has loaned and not published."""
    held: int
    """Descriptors it holds as cursor or as sample."""


@dataclass(frozen=True)
class Books:
    """What `rtmw doctor` proves: every descriptor and page is in exactly one place, and the holders are known."""

    version: str
    descriptors: int
    """In all."""
    descriptors_free: int
    descriptors_loaned: int
    descriptors_queued: int
    descriptors_held: int
    """Passed by their queue, and kept only by a holder."""
    pages: int
    """Pages of 4096 bytes in the pool."""
    pages_used: int
    participants: tuple[ParticipantView, ...]
    problems: tuple[str, ...] = field(default=())
    """What does not balance, in plain words; empty when the books balance."""
    repaired: tuple[str, ...] = field(default=())
    """What was put right, in plain words."""


def topics(domain: Domain) -> list[TopicView]:
    """All topics of a domain, by name."""
    raise NotImplementedError


def queue(domain: Domain, topic: str) -> list[QueuedMessage]:
    """What lies in a topic's queues, highest band first, oldest first."""
    raise NotImplementedError


def examine(domain: Domain, fix: bool = False) -> Books:
    """Balance the books; with `fix`, sweep after the dead and reclaim what nobody uses first."""
    raise NotImplementedError
