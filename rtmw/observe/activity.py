"""Activity of topics between two readings of counters: rates, drops by cause, latency, subscribers that are behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rtmw.latency import Latency
from rtmw.observe.views import PublisherView, SubscriberView, TopicView

MISSES = ("missed", "expired", "thinned", "unmatched")
"""Why a subscriber did not get a message, as `SubscriberView` names it."""
REFUSALS = ("timed_out", "exhausted")
"""Why a publisher could not publish a message, as `PublisherView` names it."""


@dataclass(frozen=True)
class SubscriberActivity:
    """A subscriber in the window."""

    pid: int
    process: str
    identity: int
    received_per_s: float
    behind: int
    """Messages in the queues that it gets and has not come to yet, at the end of the window."""
    dropped: Mapping[str, int]
    """Messages by cause, in the window; causes without any are left out."""
    latency: Latency
    """Latency of the messages that it took in the window."""


@dataclass(frozen=True)
class TopicActivity:
    """A topic in the window."""

    topic: str
    seconds: float
    """Length of the window."""
    messages_per_s: float
    bytes_per_s: float
    queued: int
    """Messages in its queues, at the end of the window."""
    publishers: int
    dropped: Mapping[str, int]
    """Messages by cause, of all its subscribers and publishers, in the window; causes without any are left out."""
    latency: Latency
    """From publish to take, of all its subscribers, in the window."""
    subscribers: tuple[SubscriberActivity, ...]

    @property
    def behind(self) -> SubscriberActivity | None:
        """The subscriber that is furthest behind; None if none is."""
        furthest = max(self.subscribers, key=lambda subscriber: subscriber.behind, default=None)
        return furthest if furthest and furthest.behind else None


@dataclass(frozen=True)
class _Reading:
    at_s: float
    views: tuple[TopicView, ...]
    subscribers: dict[int, SubscriberView] = field(default_factory=dict[int, SubscriberView])
    publishers: dict[int, PublisherView] = field(default_factory=dict[int, PublisherView])

    @classmethod
    def of(cls, views: Sequence[TopicView], at_s: float) -> _Reading:
        subscribers = {view.identity: view for topic in views for view in topic.subscribers}
        publishers = {view.identity: view for topic in views for view in topic.publishers}
        return cls(at_s, tuple(views), subscribers, publishers)


class Meter:
    """Turns readings into activity. An endpoint or topic that came in the window did all that it did inside it."""

    def __init__(self) -> None:
        self._last: _Reading | None = None

    def read(self, views: Sequence[TopicView], now_s: float) -> list[TopicActivity]:
        """Activity since the reading before, of each topic; none at the first. `now_s` is monotonic."""
        last, now = self._last, _Reading.of(views, now_s)
        self._last = now
        if last is None:
            return []
        before = {view.name: view for view in last.views}
        return [_topic(view, before.get(view.name), last, now.at_s - last.at_s) for view in views]


def _topic(view: TopicView, before: TopicView | None, last: _Reading, seconds: float) -> TopicActivity:
    subscribers = tuple(_subscriber(s, last.subscribers.get(s.identity), seconds) for s in view.subscribers)
    refused = (_grown(p, last.publishers.get(p.identity), REFUSALS) for p in view.publishers)
    return TopicActivity(
        topic=view.name,
        seconds=seconds,
        messages_per_s=(view.published - (before.published if before else 0)) / seconds,
        bytes_per_s=max(0, view.bytes - (before.bytes if before else 0)) / seconds,
        queued=sum(view.queued),
        publishers=len(view.publishers),
        dropped=_sum([subscriber.dropped for subscriber in subscribers] + list(refused)),
        latency=sum((subscriber.latency for subscriber in subscribers), Latency()),
        subscribers=subscribers,
    )


def _subscriber(view: SubscriberView, before: SubscriberView | None, seconds: float) -> SubscriberActivity:
    return SubscriberActivity(
        pid=view.pid,
        process=view.process,
        identity=view.identity,
        received_per_s=(view.received - (before.received if before else 0)) / seconds,
        behind=view.behind,
        dropped=_grown(view, before, MISSES),
        latency=view.latency.since(before.latency) if before else view.latency,
    )


def _grown(
    view: SubscriberView | PublisherView, before: SubscriberView | PublisherView | None, causes: Iterable[str]
) -> dict[str, int]:
    """By how much each of these counters has grown, of those that have."""
    counts = {cause: getattr(view, cause) - (getattr(before, cause) if before else 0) for cause in causes}
    return {cause: count for cause, count in counts.items() if count > 0}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return dict(total)
