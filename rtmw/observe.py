"""Look into a domain without taking part in it: topics, queues, endpoints and the books (requirement P10).

Everything is read from counters and control blocks in the region; nobody has to cooperate, and nothing is subscribed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rtmw.domain import Domain
from rtmw.matching import type_name_of
from rtmw.qos import Reliability
from rtmw.shm import GRANULES_A_PAGE


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
    other_types: int
    """Skipped because they are of another type of the topic."""
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
    """Some subscriber has not come to it (requirement P13)."""
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


_PublisherRow = tuple[int, int, int, int, int, int, int, int, int, int, int]
_SubscriberRow = tuple[int, int, int, int, int, tuple[int, ...], tuple[int, ...]]
_Types = dict[int, tuple[str, bytes]]


def _publisher_view(row: _PublisherRow, names: dict[int, str], types: _Types) -> PublisherView:
    _, pid, type, reliability, priority, depth, history, published, bytes, timed_out, exhausted = row
    return PublisherView(
        pid, names.get(pid, "?"), type_name_of(types, type), Reliability(reliability), priority, depth, history,
        published, bytes, timed_out, exhausted,
    )  # fmt: skip


def _subscriber_view(row: _SubscriberRow, names: dict[int, str], types: _Types) -> SubscriberView:
    _, pid, type, reliability, depth, counters, _ = row
    return SubscriberView(
        pid, names.get(pid, "?"), type_name_of(types, type), Reliability(reliability), depth, *counters
    )  # fmt: skip


def topics(domain: Domain) -> list[TopicView]:
    """All topics of a domain, by name."""
    region = domain.region
    types, names = region.types(), {pid: name for _, pid, name, *_ in region.participants()}
    publishers, subscribers, views = region.publishers(), region.subscribers(), list[TopicView]()
    for slot, name, retired_bytes, bands in region.topics():
        senders = tuple(_publisher_view(row, names, types) for row in publishers if row[0] == slot)
        takers = tuple(_subscriber_view(row, names, types) for row in subscribers if row[0] == slot)
        used = {view.type_name for view in senders} | {view.type_name for view in takers} - {"*"}
        views.append(
            TopicView(
                name=name,
                types=tuple(sorted(used)),
                published=sum(tail for _, tail in bands),
                bytes=retired_bytes + sum(view.bytes for view in senders),
                queued=tuple(tail - head + 1 if tail else 0 for head, tail in bands),
                publishers=senders,
                subscribers=takers,
            )
        )
    return sorted(views, key=lambda view: view.name)


def queue(domain: Domain, topic: str) -> list[QueuedMessage]:
    """What lies in a topic's queues, highest band first, oldest first; [] for a topic that nobody uses."""
    region = domain.region
    types = region.types()
    slot = next((row[0] for row in region.topics() if row[1] == topic), None)
    if slot is None:
        return []
    cursors = [row[6] for row in region.subscribers() if row[0] == slot]
    return [
        QueuedMessage(
            priority=band,
            sequence=sequence,
            size=size,
            type_name=type_name_of(types, type),
            publisher=publisher >> 32,
            source_time_ns=source_time_ns,
            expires_ns=expires_ns or None,
            holders=tuple(holders),
            to_be_sent=any(sequence > reached[band] for reached in cursors),
            preview=preview,
        )
        for band, sequence, size, type, publisher, source_time_ns, expires_ns, holders, preview in region.queue(slot)
    ]


def examine(domain: Domain, fix: bool = False) -> Books:
    """Balance the books; with `fix`, sweep after the dead and reclaim what nobody uses first."""
    region = domain.region
    version, descriptors, free, loaned, queued, held, pages, granules, swept, freed, problems = region.examine(fix)
    repaired = [f"swept after {swept} processes that had died"] * (swept > 0)
    repaired += [f"gave back {freed} descriptors that no queue and nobody held"] * (freed > 0)
    owners = Counter(row[1] for row in region.publishers()), Counter(row[1] for row in region.subscribers())
    return Books(
        version=str(version),
        descriptors=descriptors,
        descriptors_free=free,
        descriptors_loaned=loaned,
        descriptors_queued=queued,
        descriptors_held=held,
        pages=pages,
        pages_used=-(-granules // GRANULES_A_PAGE),
        participants=tuple(
            ParticipantView(pid, name, alive, owners[0][pid], owners[1][pid], loaned_by, held_by)
            for _, pid, name, alive, loaned_by, held_by in region.participants()
        ),
        problems=tuple(problems),
        repaired=tuple(repaired),
    )
