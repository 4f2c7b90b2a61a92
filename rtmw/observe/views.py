"""Topics, who uses them, with their QoS and counters, and the messages in their queues.

Programs have the names of their files, without arguments, which are nobody else's business."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from rtmw import shm
from rtmw.domain import Domain
from rtmw.latency import Latency
from rtmw.matching import topic_life, type_name_of
from rtmw.qos import Reliability
from rtmw.text.patterns import OWN_PREFIX

NODE_TOPIC: Final = OWN_PREFIX + "node"
"""Where a node says once a second how it is (node_status.py): JSON, kept for late subscribers."""
PARKED: Final = "(no process: kept for the next node)"
"""What stands for the process of a subscription that a node has left to the next one."""
_TAKES_A_WORD = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python whose value is a word of its own."""


def program(process: str) -> str:
    """The name of a program without its interpreter and arguments: `panel.py` of `python -u panel.py --wide`.
    `process`: what a participant is called, its command line without folders.
    """
    if process == PARKED:
        return process
    words = process.split()
    if words and words[0].startswith("python"):
        return _told_to_python(words)
    if words and words[0] == "rtmw":
        return " ".join(words[: 3 if words[1:2] == ["topic"] else 2])
    return words[0] if words else process


def _told_to_python(words: list[str]) -> str:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-c":
            return f"{words[0]} -c"
        if words[at] == "-m":
            return program(" ".join(words[at + 1 :])) or words[0]
        at += 2 if words[at] in _TAKES_A_WORD else 1
    return program(" ".join(words[at:])) or words[0]


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
    """Messages refused: a RELIABLE subscriber's queue stayed full for `max_blocking`."""
    exhausted: int
    """Messages refused: no memory could be had."""
    identity: int
    """What samples show as their publisher."""
    lifetime_ns: int
    """Lifetime of messages that say none; 0: no limit."""
    max_blocking: float | None
    """Seconds that `publish` waits for a full RELIABLE subscriber; inf: no limit; None: not known."""
    held_by_history: int = 0
    """How many of `exhausted` were refused while the `history` of topics kept more of the memory than RELIABLE
    subscribers need.
    """


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
    """Messages in the queues that it gets, and has not come to yet."""
    missed: int
    """Messages that were evicted before it took them, beyond its depth or because the pool was full; that were lost
    between hosts; or that came after its lease had run out.
    """
    expired: int
    """Messages that it did not get because their lifetime was over."""
    thinned: int
    """Messages that it did not get because they came within `min_interval`."""
    unmatched: int
    """Messages that it did not get because their publisher offers less than RELIABLE, which it asks for."""
    other_types: int
    """Messages of another type on the same topic."""
    deadlines_missed: int
    lapses: int
    """Times that the lease ran out."""
    latency: Latency
    """Time from publish to take of all messages that it received."""
    identity: int
    """A number that no other subscriber has; its upper 32 bits are the process id."""
    history: int
    """Messages from before it came that it asked for."""
    min_interval_ns: int
    """0: it wants every message."""
    deadline_ns: int
    """0: it has none."""
    lease_ns: int
    """0: it has none."""


@dataclass(frozen=True)
class TopicView:
    """A topic and who uses it."""

    name: str
    types: tuple[str, ...]
    """Names of the types of its publishers, its subscribers and the messages in its queues."""
    published: int
    """Messages appended since the topic exists."""
    bytes: int
    """Payload bytes appended since the topic exists."""
    queued: tuple[int, ...]
    """Messages in the queue of each priority band, index 0 to 7."""
    publishers: tuple[PublisherView, ...]
    subscribers: tuple[SubscriberView, ...]
    pool_bytes: int = 0
    """Bytes of the pool that the messages in its queues take. Small messages lie in their descriptors and take none."""
    history: int = 0
    """The largest number of messages that any of its publishers, gone ones included, promised to keep."""


NO_LIMIT: Final = (1 << 64) - 1
"""The number of nanoseconds by which the region says "no limit"."""

_Types = dict[int, tuple[str, bytes]]
Row = TypeVar("Row", shm.PublisherRow, shm.SubscriberRow)


def _publisher_view(row: shm.PublisherRow, region: shm.Region, names: dict[int, str], types: _Types) -> PublisherView:
    return PublisherView(
        row.pid, names.get(row.pid, "?"), type_name_of(types, row.type), Reliability(row.reliability), row.priority,
        row.depth, row.history, row.published, row.bytes, row.timed_out, row.exhausted, region.identity(row.identity),
        row.lifetime_ns, _seconds(row.max_blocking), row.held_by_history,
    )  # fmt: skip


def _seconds(blocking: int) -> float | None:
    """`max_blocking` as a control block has it: plus 1, and 0 where it is not known."""
    return None if blocking == 0 else math.inf if blocking == NO_LIMIT else (blocking - 1) / 1e9


def _subscriber_view(row: shm.SubscriberRow, names: dict[int, str], types: _Types) -> SubscriberView:
    return SubscriberView(
        row.pid, PARKED if row.is_parked else names.get(row.pid, "?"), type_name_of(types, row.type),
        Reliability(row.reliability), row.depth, *row.counters, Latency(tuple(row.latency)), row.identity, row.history,
        row.min_interval_ns, row.deadline_ns, row.lease_ns,
    )  # fmt: skip


def types_in_use(domain: Domain, topic: str) -> list[tuple[str, bytes | None]]:
    """Name and description of the types of a topic's endpoints, else of the messages in its queues; None for bytes."""
    region = domain.region
    life = topic_life(region, topic)
    rows: list[shm.PublisherRow | shm.SubscriberRow] = [*shm.publishers(region), *shm.subscribers(region)]
    used = {row.type for row in rows if row.topic == life and row.is_alive} - {shm.TYPE_ANY}
    if not used and life is not None:
        used = set(region.contents().get(life, (0, 0, ()))[2])
    types = region.types()  # behind the rows: one that is not there any more has gone since, with who used it
    described = {life: description for life, (_, description) in types.items()}
    return [
        (type_name_of(types, life), described.get(life))
        for life in sorted(used)
        if life == shm.TYPE_RAW or life in described
    ]


def by_topic(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows of endpoints, as a region tells them, by the life of their topic."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.topic, []).append(row)
    return found


def topics(domain: Domain) -> list[TopicView]:
    """All topics of a domain, by name. Endpoints of dead programs are not shown; the topic keeps their counts."""
    region = domain.region
    contents, types, names = region.contents(), region.types(), region.names()
    publishers, subscribers = by_topic(shm.publishers(region)), by_topic(shm.living(shm.subscribers(region)))
    views: list[TopicView] = []
    for life, name, retired_bytes, bands, history in shm.topics(region):
        senders = tuple(_publisher_view(row, region, names, types) for row in publishers.get(life, ()) if row.is_alive)
        takers = tuple(_subscriber_view(row, names, types) for row in subscribers.get(life, ()))
        _, pool_bytes, indices = contents.get(life, (0, 0, ()))
        queued = {type_name_of(types, index) for index in indices}
        used = queued | {view.type_name for view in senders} | {view.type_name for view in takers} - {"*"}
        views.append(
            TopicView(
                name=name,
                types=tuple(sorted(used)),
                published=sum(published for published, _ in bands),
                bytes=retired_bytes + sum(row.bytes for row in publishers.get(life, ())),
                queued=tuple(kept for _, kept in bands),
                publishers=senders,
                subscribers=takers,
                pool_bytes=pool_bytes,
                history=history,
            )
        )
    return sorted(views, key=lambda view: view.name)


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
    """Some subscriber that gets it has not come to it (requirement P13)."""
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
