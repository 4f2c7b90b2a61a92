"""The topics that a recorder has found, and the channels of what flows on them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final, NamedTuple

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.qos import Reliability
from rtmw.recording.schemas import define
from rtmw.recording.writer import Definitions
from rtmw.shm import make_linkable
from rtmw.text.patterns import Topics
from rtmw.types import resolve

make_linkable()

from rtmw.recorder._collector import Collector  # noqa: E402  the names of our core have to be there first

__all__ = ["Collector", "Sources"]

DEPTHS = {Reliability.TIMELY: 256, Reliability.ADAPTIVE: 4, Reliability.RELIABLE: 1024}
"""Unread messages that are kept for the recorder in any case. Of TIMELY publishers no more are kept. Of others more
are kept while memory is plenty, and few when it is not: a recorder that is late must not have RELIABLE publishers
refused. For a recorder that asks for RELIABLE, it is how many messages a publisher may be ahead."""
ALL_KEPT = 1 << 16
"""History asked for of a new topic: all that was kept since it came."""
LEAVE_AFTER_S: Final = 10.0
"""Seconds without a publisher after which a topic is left: one that is started again finds its subscriber."""
ENDED_MOST: Final = 64
"""Topics without a publisher that are heard all the same; of more, the first ones are left at once."""
LOOK_S, LOOK_AGAIN_S, MOST_IDLE = 0.005, 0.05, 50
"""Topics are looked for so often once endpoints have come or gone; anyway, while that takes less than a fiftieth of the
time."""


class Publishing(NamedTuple):
    """A publisher, as the region shows it."""

    type: int
    reliability: int
    priority: int
    depth: int
    history: int
    lifetime_ns: int


class Left(NamedTuple):
    """A topic that was left, since it had no publisher."""

    source: int
    asked: Reliability
    row: shm.TopicRow
    """The topic's row before the last take."""

    def comes_again(self, row: shm.TopicRow) -> bool:
        """Has it messages that were not taken?"""
        is_other = row.life != self.row.life
        rows = zip(row.bands, self.row.bands, strict=True)
        return any(kept and (is_other or last > before) for (last, kept), (before, _) in rows)


class Sources:
    """Finds topics, hands them to the collector, and says what its channels are. A topic on which nobody publishes any
    more is left after a while, for else the memory of its queue would never be free for another topic."""

    def __init__(self, domain: Domain, collector: Collector, topics: Topics, reliable: bool) -> None:
        self._domain, self._collector, self._topics, self._reliable = domain, collector, topics, reliable
        self.latched: set[int] = set()
        """Channels whose publishers keep messages for late subscribers."""
        self._offered: dict[tuple[str, int], list[Publishing]] = {}
        """By topic and type, its publishers when it last had any: they may leave before a chunk is written."""
        self._channels: dict[tuple[str, int], int] = {}
        """By topic and type."""
        self._names: list[str] = []
        self.known: tuple[str, ...] = ()
        """Topics that were there when the recorder began, or were named."""
        self._known: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._asked: dict[str, tuple[int, Reliability]] = {}
        """Number of each topic's source, and what it was adapted to."""
        self._lock = threading.Lock()
        """Held by `look` and `define`, which two threads call: both read and write what was found."""
        self._ended: dict[str, float] = {}
        """Topics without a publisher, and since when; the first ones first."""
        self._left: dict[str, Left] = {}
        self._adapted_to = 0
        """Publishers that there were then."""
        self._publishers: dict[int, str] = {}

    @property
    def skipped(self) -> dict[str, str]:
        """Topics that are wanted and cannot be recorded, and why."""
        return self._skipped

    @property
    def names(self) -> list[str]:
        """Topics by the number of their source."""
        return self._names

    @property
    def publishers(self) -> dict[int, str]:
        """Programs that published, by identity."""
        return dict(self._publishers)

    def begin(self) -> None:
        """Everything that is wanted and exists, or has a name, is recorded from now on."""
        by_topic = self._publishers_by_topic()
        for name in (*self._topics.names, *by_topic):
            if self._topics.take(name):
                self._add(name, by_topic.get(name, []), is_new=False)
        self.known = tuple(self._names)
        self._remember_publishers()

    def watch(self, stopping: threading.Event) -> None:
        """Looks for new topics and publishers until it is to stop, and then once more."""
        region = self._domain.region
        seen, next_s = -1, 0.0
        while not stopping.wait(LOOK_S):
            if region.endpoints_fingerprint() == seen and CLOCK.monotonic() < next_s:
                continue
            seen, began_s = region.endpoints_fingerprint(), CLOCK.monotonic()
            self.look()
            next_s = CLOCK.monotonic() + max(LOOK_AGAIN_S, MOST_IDLE * (CLOCK.monotonic() - began_s))
        self.look()

    def look(self) -> None:
        """Topics that are new are recorded with all that is kept of them, and publishers remembered."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        if self._topics.are_open:
            region = self._domain.region
            rows = shm.topics(region)
            publishing = {row.topic for row in shm.living(shm.publishers(region))}
            self._hear(rows, publishing)
            self._leave_ended(rows, publishing)
        self._remember_publishers()
        if len(self._publishers) > self._adapted_to:
            self._adapted_to = len(self._publishers)
            self._adapt()

    def define(self, channels: Iterable[int], definitions: Definitions) -> None:
        """Makes the definitions of channels that have none yet."""
        new = [number for number in channels if number not in definitions.channels]
        if new:
            with self._lock:
                self._define(new, definitions)

    def _define(self, new: list[int], definitions: Definitions) -> None:
        self._remember_publishers()
        by_topic = self._publishers_by_topic()
        for number in new:
            source, type, description = self._collector.channel(number)
            topic = self._names[source]
            self._channels[topic, type] = number
            publishers = [p for p in by_topic.get(topic, ()) if p.type == type] or self._offered.get((topic, type), [])
            kind = resolve(bytes) if description is None else description
            define(definitions, topic, kind, _qos(publishers), number)
        self._latch()

    def _hear(self, rows: list[shm.TopicRow], publishing: set[int]) -> None:
        """Topics that are new, and those that were left and have something again."""
        new = [row.name for row in rows if row.name not in self._known and self._topics.take(row.name)]
        left = [(self._left[row.name], row) for row in rows if row.name in self._left]
        again = [(one, row) for one, row in left if row.life in publishing or one.comes_again(row)]
        by_topic = self._publishers_by_topic() if new or again else {}
        for name in new:
            self._add(name, by_topic.get(name, []), is_new=True)
        for one, row in again:
            self._resume(one, row, by_topic.get(row.name, []))

    def _resume(self, left: Left, row: shm.TopicRow, publishers: list[Publishing]) -> None:
        wish = self._wish(publishers) if publishers else left.asked
        try:
            self._collector.resume(left.source, int(_reliability(wish)), DEPTHS[wish], row.life != left.row.life)
        except RtmwError as error:
            self._skipped[row.name] = str(error)
            return
        self._skipped.pop(row.name, None)
        self._left.pop(row.name, None)
        self._asked[row.name] = left.source, wish

    def _leave_ended(self, rows: list[shm.TopicRow], publishing: set[int]) -> None:
        """What is named is not left, so that no message of it is early."""
        now = CLOCK.monotonic()
        ended = {row.name: row for row in rows if row.life not in publishing and row.name in self._asked}
        for name in self._topics.names:
            ended.pop(name, None)
        since = {name: at for name, at in self._ended.items() if name in ended}
        self._ended = since | {name: now for name in ended if name not in since}
        for name in [*self._ended]:
            if len(self._ended) > ENDED_MOST or now - self._ended[name] >= LEAVE_AFTER_S:
                del self._ended[name]
                self._left[name] = left = Left(*self._asked.pop(name), ended[name])
                self._collector.leave(left.source)

    def _add(self, name: str, publishers: list[Publishing], is_new: bool) -> None:
        """The name is there before a chunk can have messages of it."""
        if name in self._known:
            return
        self._known.add(name)
        self._names.append(name)
        history = ALL_KEPT if is_new else min(ALL_KEPT, sum(p.history for p in publishers))
        wish = self._wish(publishers)
        try:
            number = self._collector.add(name, int(_reliability(wish)), DEPTHS[wish], history, is_new)
        except RtmwError as error:
            self._names.pop()
            self._skipped[name] = str(error)
            return
        self._asked[name] = number, wish

    def _wish(self, publishers: list[Publishing]) -> Reliability:
        """The reliability to adapt to: the weakest that is offered; while no publisher offers any, the most careful."""
        offered = min((Reliability(p.reliability) for p in publishers), default=None)
        if self._reliable and offered in (None, Reliability.RELIABLE):
            return Reliability.RELIABLE
        return Reliability.TIMELY if offered in (None, Reliability.TIMELY) else Reliability.ADAPTIVE

    def _adapt(self) -> None:
        """To publishers that have come. A subscription that no longer asks for RELIABLE does not do so again."""
        by_topic = self._publishers_by_topic()
        self._latch()
        for name, (number, asked) in self._asked.items():
            publishers = by_topic.get(name)
            wish = self._wish(publishers) if publishers else asked
            if wish not in (asked, Reliability.RELIABLE):
                self._collector.adapt(number, DEPTHS[wish])
                self._asked[name] = number, wish

    def _latch(self) -> None:
        keeping = {key for key, publishers in self._offered.items() if any(p.history for p in publishers)}
        self.latched |= {self._channels[key] for key in keeping & self._channels.keys()}

    def _publishers_by_topic(self) -> dict[str, list[Publishing]]:
        """Publishers of each topic that there is."""
        region = self._domain.region
        by_life: dict[int, list[Publishing]] = {}
        for row in shm.publishers(region):
            offer = Publishing(row.type, row.reliability, row.priority, row.depth, row.history, row.lifetime_ns)
            by_life.setdefault(row.topic, []).append(offer)
        found = {row.name: by_life.get(row.life, []) for row in shm.topics(region)}
        for name, publishers in found.items():
            for type in {p.type for p in publishers} if self._topics.take(name) else ():
                self._offered[name, type] = [p for p in publishers if p.type == type]
        return found

    def _remember_publishers(self) -> None:
        region = self._domain.region
        pids = {region.identity(row.identity): row.pid for row in shm.publishers(region)}
        new = pids.keys() - self._publishers.keys()
        names = region.names() if new else {}
        for identity in new:
            self._publishers[identity] = f"{names.get(pids[identity], '?')} ({pids[identity]})"


def _reliability(wish: Reliability) -> Reliability:
    """What is asked for: TIMELY publishers are matched with ADAPTIVE, too."""
    return Reliability.RELIABLE if wish == Reliability.RELIABLE else Reliability.ADAPTIVE


def _qos(publishers: list[Publishing]) -> dict[str, str]:
    """Returns the QoS of the strongest publisher, as metadata of a channel; none without publishers."""
    if not publishers:
        return {}
    strongest = max(publishers, key=lambda p: (p.reliability, p.history, p.depth))
    return {
        "rtmw.reliability": Reliability(strongest.reliability).name,
        "rtmw.priority": str(strongest.priority),
        "rtmw.lifetime_ns": str(strongest.lifetime_ns),
        "rtmw.history": str(strongest.history),
        "rtmw.depth": str(strongest.depth),
    }
