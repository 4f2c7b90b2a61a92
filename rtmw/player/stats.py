"""The statistics of a replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from rtmw.latency import Latency
from rtmw.notebook import ShownByFields


@dataclass(frozen=True)
class TopicReplayed:
    """The messages of one topic: published, and by cause not published."""

    published: int
    bytes: int
    """Payload bytes of these."""
    expired: int
    """Not published: their lifetime was over when they were recorded."""
    timed_out: int
    """Not published: a RELIABLE subscriber's queue stayed full for `max_blocking`."""
    exhausted: int
    """Not published: no memory could be had."""
    too_large: int
    """Not published: larger than the pool of the domain."""
    unheard: int
    """Of those published: no subscriber could take them, for there was none, or only of other types or qualities. Who
    comes later may still get what the topic keeps."""
    subscribers: int
    """Subscribers that get its messages at present."""


@dataclass(frozen=True)
class ReplayStats(ShownByFields):
    """The statistics of a replay since it was opened."""

    topics: Mapping[str, TopicReplayed]
    lateness: Latency
    """How long after the time that was due messages were published; without those that were due at once."""
    overslept: Latency
    """How much too late its sleeps between messages ended. It wakes up so much earlier, and spins the rest."""
    spun: float
    """Seconds for which it was awake before messages were due."""

    @property
    def published(self) -> int:
        """Messages."""
        return sum(topic.published for topic in self.topics.values())

    @property
    def bytes(self) -> int:
        """Payload bytes."""
        return sum(topic.bytes for topic in self.topics.values())

    @property
    def unheard(self) -> int:
        """Messages that were published while no subscriber could take them."""
        return sum(topic.unheard for topic in self.topics.values())

    @property
    def dropped(self) -> Mapping[str, int]:
        """Messages that were not published, by cause."""
        causes = ("expired", "timed_out", "exhausted", "too_large")
        return {cause: sum(getattr(topic, cause) for topic in self.topics.values()) for cause in causes}


def by_topic(rows: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, TopicReplayed]:
    """Counters of tracks by topic, added where a topic has several types."""
    found: dict[str, TopicReplayed] = {}
    for topic, row in rows:
        known = found.get(topic)
        found[topic] = TopicReplayed(*row) if known is None else _sum(known, TopicReplayed(*row))
    return found


def _sum(one: TopicReplayed, other: TopicReplayed) -> TopicReplayed:
    names = [field.name for field in fields(TopicReplayed) if field.name != "subscribers"]
    values = {name: getattr(one, name) + getattr(other, name) for name in names}
    return TopicReplayed(**values, subscribers=max(one.subscribers, other.subscribers))
