"""PatternSubscriber: many topics, by names and patterns, as one subscriber.

It has a Subscriber for each topic; _merge.c puts their messages in order, and calls `_follow` every 10 ms. That finds
topics as the recorder does: it reads the tables when the fingerprint of all endpoints is another one. A topic
on which nobody publishes any more is left: else its slot would never be free for another topic.
"""

from __future__ import annotations

import builtins
import os
import select
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, cast, overload

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_of
from rtmw.errors import ClosedError, DomainError, LimitReached
from rtmw.latency import Latency
from rtmw.many._merge import Merge, Source
from rtmw.matching import LongWait, WaitLog
from rtmw.publisher import check_count
from rtmw.qos import Reliability, check_reliability, check_seconds, check_times, limited
from rtmw.subscriber import Listener, Subscriber, SubscriberOptions, SubscriberStats
from rtmw.text.patterns import topics_of
from rtmw.types import ANY, AnyType, MessageType, resolve, shown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rtmw.waiting import Reader

    S = TypeVar("S", bound=np.generic)

__all__ = ["PatternStats", "PatternSubscriber"]

T = TypeVar("T")

ALL_KEPT: Final = 1 << 16
"""History that is asked for of a topic that is new: all that was kept since it came."""
FOLLOW_S: Final = 0.01
"""Seconds after which topics are looked for again."""
LEAVE_AFTER_S: Final = 1.0
"""Seconds without a publisher after which a topic is left: a publisher that is started again finds its subscriber."""
ENDED_MOST: Final = 64
"""Topics without a publisher that are heard all the same; of more, the first ones are left at once."""
_NAMED_MOST: Final = 4
_NOTHING: Final = (0,) * 8


@dataclass(frozen=True)
class PatternStats(SubscriberStats):
    """Sums over all topics, also those that have ended; `unheard` names the topic of each publisher."""

    topics: Mapping[str, SubscriberStats]
    """Counters of each topic that is heard at present."""


class PatternOptions(SubscriberOptions, total=False):
    """Keywords of PatternSubscriber."""

    exclude: str | Iterable[str]
    on_topic: Callable[[str], object] | None


class PatternSubscriber(Merge[T], Closing):
    """Takes messages of all topics of the domain that are meant by names and patterns, also of those that come later:
    the highest priority first, then the time of publishing, over all topics.

    - `patterns`: one or several names and patterns (docs/patterns.md), as `pump/*`, `pump/+/speed`, `pump/#`. Topics of
      other hosts come by name only (docs/node.md).
    - `type`: that of the messages, as of Publisher, or `rtmw.ANY`. Messages of other types are counted.
    - `exclude`: patterns of topics that are not meant. A name in `patterns` is meant all the same.
    - `on_topic`: called with the name of each topic before its first message, by the thread that takes.
    - all else as of Subscriber, for each topic by itself. `history` is of topics that are there by now; of those that
      come later it gets all that they have kept. `spin` is not used.

    One message of each topic is taken ahead, and lost with the process.

    Errors: TopicNameError, TypeError, UnsupportedType, ValueError, LimitReached for names, and those of Domain.
    """

    @overload
    def __init__(
        self: PatternSubscriber[Any],
        patterns: str | Iterable[str],
        type: AnyType = ANY,
        **options: Unpack[PatternOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: PatternSubscriber[NDArray[S]],
        patterns: str | Iterable[str],
        type: np.dtype[S] | builtins.type[S],
        **options: Unpack[PatternOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: PatternSubscriber[dict[str, Any]],
        patterns: str | Iterable[str],
        type: builtins.type[dict[str, Any]],
        **options: Unpack[PatternOptions],
    ) -> None: ...
    @overload
    def __init__(
        self, patterns: str | Iterable[str], type: builtins.type[T], **options: Unpack[PatternOptions]
    ) -> None: ...

    def __init__(
        self,
        patterns: str | Iterable[str],
        type: Any = ANY,
        *,
        exclude: str | Iterable[str] = (),
        on_topic: Callable[[str], object] | None = None,
        domain: int | Domain | None = None,
        min_interval: float = 0.0,
        deadline: float | None = None,
        reliability: Reliability = Reliability.ADAPTIVE,
        depth: int = 64,
        history: int = 0,
        lease: float | None = None,
        spin: float | None = None,
    ) -> None:
        self._wanted = topics_of(patterns, exclude)
        if on_topic is not None and not callable(on_topic):
            raise TypeError(f"on_topic={on_topic!r} is not possible; give a function of a topic's name, or None")
        self.type: MessageType | AnyType = type if isinstance(type, AnyType) else resolve(type)
        self.reliability = check_reliability(reliability)
        check_times(min_interval, deadline, lease, self.reliability)
        check_seconds("spin", spin)
        self._history = check_count("history", history, 0)
        self._domain = domain_of(domain)
        if self._domain.region.slot is None:
            raise DomainError(f"domain {self._domain.id}: attached with observe=True, which is to look on only")
        self._asked_type, self._on_topic, self._deadline = type, on_topic, deadline
        self._options: dict[str, Any] = {
            "domain": self._domain, "min_interval": min_interval, "deadline": deadline, "reliability": self.reliability,
            "depth": check_count("depth", depth, 1), "lease": lease,
        }  # fmt: skip
        self._lock = threading.RLock()
        """Held for what follows; nobody waits with it."""
        self._sources: dict[str, Source[T]] = {}
        self._new: deque[tuple[str, Source[T]]] = deque()
        """Topics of which nothing is given yet, since `on_topic` was not told."""
        self._skipped: dict[str, str] = {}
        self._ended: dict[str, int] = {}
        """Topics without a publisher, and since when; the first ones first."""
        self._left: dict[int, tuple[int, ...]] = {}
        """The last sequence of each priority that was taken, by life, of topics that were left and may come again."""
        self._past = _sum([])
        """Counters of topics that were left."""
        self._endpoints: int | None = None
        """The fingerprint of all endpoints when it last looked for topics."""
        self._polled: _Polled | None = None
        self._overdue_at = 0
        self._closed = False
        self._reader: Callable[[], Reader | None] = lambda: None
        self._told = WaitLog(self.topic, "a message")
        try:
            for name in self._wanted.names:
                self._hear(name, self._history)
            self._follow(self._history)
        except BaseException:
            self.close()
            raise
        self._domain.adopt(self)

    # ---- topics ----

    @property
    def topic(self) -> str:
        """The names and patterns, as logs show them."""
        return ", ".join(self._wanted.wanted)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it hears at present."""
        self._follow()
        with self._lock:
            return tuple(self._sources)

    @property
    def skipped(self) -> dict[str, str]:
        """Topics that are meant and cannot be heard, and why. They are tried again when an endpoint comes or goes."""
        return dict(self._skipped)

    def _check(self) -> shm.Region:
        """Raise ClosedError, ForkedError or SweptError; never waits, also in a child of fork()."""
        if self._closed:
            raise ClosedError(f"{self!r}: used after close()")
        return self._domain.region

    def _hear(self, name: str, history: int, passed: tuple[int, ...] = _NOTHING) -> None:
        """`passed`: messages up to these sequences are not given."""
        make = cast("Any", Subscriber)
        subscriber: Subscriber[T] = make(name, self._asked_type, history=history, **self._options)
        try:
            self._check()  # once more: a handler of a signal may have closed it meanwhile
            if self._polled is not None:
                self._polled.add(subscriber)
        except BaseException:
            subscriber.close()
            raise
        self._sources[name] = source = Source(subscriber, passed)
        self._new.append((name, source))

    def _begin_new(self) -> None:
        """Give messages of topics that are new, once `on_topic` was told: without the lock, for which a thread may wait
        that the program waits for."""
        while not self._closed:
            try:
                name, source = self._new.popleft()
            except IndexError:
                return
            try:
                if self._on_topic is not None:
                    self._on_topic(name)
            finally:
                self._add(source)

    def _follow(self, history: int = ALL_KEPT) -> None:
        """Hear topics that have come, and leave those that have ended."""
        region = self._check()  # before the lock, which another thread may have had at a fork()
        with self._lock:
            self._follow_locked(region, history)
        self._begin_new()

    def _follow_locked(self, region: shm.Region, history: int) -> None:
        self._check()  # another thread may have closed it while this one waited
        if self._polled is not None:
            self._polled.quiet()
        endpoints = region.endpoints_fingerprint()
        if endpoints != self._endpoints:
            publishing, rows = {row.topic for row in shm.living(shm.publishers(region))}, shm.topics(region)
            self._skipped = {}
            for row in rows:
                is_new = row.name not in self._sources and self._wanted.take(row.name)
                if is_new and (row.life in publishing or self._has_kept(row)):
                    self._hear_or_skip(row, history)
            self._note_ended(publishing, rows)
            self._endpoints = endpoints  # behind what may fail
        if self._ended:
            self._leave_ended(region)

    def _has_kept(self, row: shm.TopicRow) -> bool:
        """Has a topic messages that were not taken before it was left?"""
        passed = self._left.get(row.life, _NOTHING)
        return any(kept and last > mine for (last, kept), mine in zip(row.bands, passed, strict=True))

    def _hear_or_skip(self, row: shm.TopicRow, history: int) -> None:
        if self._skipped:  # each try looks for room in the whole table
            self._skipped[row.name] = next(iter(self._skipped.values()))
            return
        try:
            self._hear(row.name, history, self._left.get(row.life, _NOTHING))
        except (LimitReached, OSError) as error:
            self._skipped[row.name] = str(error)
        else:
            self._left.pop(row.life, None)

    def _note_ended(self, publishing: set[int], rows: list[shm.TopicRow]) -> None:
        lives = {row.life for row in rows}
        self._left = {life: passed for life, passed in self._left.items() if life in lives}
        ended = {row.name for row in rows if row.life not in publishing and row.name in self._sources}
        ended -= {*self._wanted.names}
        since = {name: at for name, at in self._ended.items() if name in ended}
        self._ended = {**since, **dict.fromkeys(sorted(ended - since.keys()), monotonic_ns())}

    def _leave_ended(self, region: shm.Region) -> None:
        before_ns = monotonic_ns() - round(LEAVE_AFTER_S * 1e9)
        if len(self._ended) <= ENDED_MOST and next(iter(self._ended.values())) > before_ns:
            return
        rows = {row.name: row for row in shm.topics(region)}
        for name, at in list(self._ended.items()):
            source = self._sources[name]
            is_due = at <= before_ns or len(self._ended) > ENDED_MOST
            if is_due and not source.held and not self._advance(source) and self._remove(source):
                row = rows[name]  # read before the take that gave nothing, so that all of it was passed
                self._left[row.life] = tuple(last for last, _ in row.bands)
                self._past = _sum([self._past, self._counted(source)])
                del self._sources[name], self._ended[name]
                if self._polled is not None:
                    self._polled.remove(source.subscriber)
                source.subscriber.close()

    # ---- messages ----

    def receive(self, timeout: float | None = None) -> shm.Sample[T]:
        """The next message; waits up to `timeout` seconds. None: no limit; after 2 s it is logged why nothing comes.

        Raises TimeoutError with that reason, or DeadlineMissed when a topic's deadline passes without a message.
        """
        check_seconds("timeout", timeout)
        end = None if limited(timeout) is None else CLOCK.monotonic() + (timeout or 0.0)
        waiting = LongWait(self._log_silence)
        while (sample := self._overdue() or self.take()) is None:
            left = FOLLOW_S if end is None else end - CLOCK.monotonic()
            if left <= 0:
                raise TimeoutError("; ".join(filter(None, (f"{self!r}: no message within the timeout", self._why()))))
            self._wait(min(left, FOLLOW_S))
            if end is None:
                waiting.look()
        return sample

    def _wait(self, seconds: float) -> None:
        with self._lock:
            subscribers = tuple(source.subscriber for source in self._sources.values())
        if not subscribers:
            sleep(seconds)
        with suppress(ClosedError):  # of a topic that another thread has just left; take() says whether all is closed
            shm.wait_any(subscribers, seconds if subscribers else 0.0)

    def _quiet(self) -> list[Source[T]]:
        """Topics of which nothing was taken ahead."""
        with self._lock:
            return [source for source in self._sources.values() if not source.held]

    def _overdue(self) -> shm.Sample[T] | None:
        """Raise DeadlineMissed for the first topic whose deadline has passed, or give a message that comes just now.

        It looks every 10 ms, whatever comes on other topics.
        """
        if self._deadline is None or monotonic_ns() < self._overdue_at:
            return None
        for source in self._quiet():
            if source.subscriber._deadline_left() == 0 and not self._advance(source):
                with suppress(TimeoutError):
                    return source.subscriber.receive(0)
        self._overdue_at = monotonic_ns() + round(FOLLOW_S * 1e9)
        return None

    # ---- waiting by other means ----

    def _arm(self) -> bool:
        """For asyncio: have the next message of any topic wake this process. True: one has come meanwhile."""
        self._check()
        quiet = self._quiet()
        return len(quiet) < len(self._sources) or any([source.subscriber._arm() for source in quiet])

    def _look_in(self) -> float | None:
        left = self._deadline_left()
        return FOLLOW_S if left is None else min(FOLLOW_S, left)

    def _deadline_left(self) -> float | None:
        """Seconds until the first deadline of any topic that has nothing."""
        self._check()
        if self._deadline is None:
            return None
        times = (source.subscriber._deadline_left() for source in self._quiet())
        return min((left for left in times if left is not None), default=None)

    def fileno(self) -> int:
        """A file descriptor for select and its kin: readable while there may be something to take, or a new topic.

        When it is, call take() until it returns None. Each topic takes three descriptors of the process.
        """
        region = self._check()
        with self._lock:
            self._check()
            if self._polled is None:
                polled = _Polled(region)
                for source in self._sources.values():
                    polled.add(source.subscriber)
                self._polled = polled
                self._look_whole()
            return self._polled.fileno()

    def listen(
        self, callback: Callable[[shm.Sample[T]], object], on_deadline: Callable[[], object] | None = None
    ) -> Listener[T]:
        """Call back for each message, from a thread of the listener's own, as Subscriber.listen does."""

        return Listener(self, callback, on_deadline)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> shm.Sample[T]:
        try:
            return self.receive()
        except ClosedError:
            if not self._closed:
                raise
            raise StopIteration from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> shm.Sample[T]:
        """The next message; StopAsyncIteration after close(), DeadlineMissed when a topic's deadline passes."""
        from rtmw.waiting import next_sample

        return self._overdue() or await next_sample(self, self._domain.region)

    # ---- what it says of itself ----

    def _why(self) -> str:
        """Why nothing comes; empty: a topic has publishers that match."""
        with self._lock:
            sources = list(self._sources.items())
        reasons: list[str] = []
        for name, source in sources:
            why = source.subscriber._why_silent()
            if not why:
                return ""
            reasons.append(f"{name!r}: {why}")
        return "; ".join(reasons[:_NAMED_MOST]) or f"no topic of domain {self._domain.id} is meant"

    def _log_silence(self) -> None:
        with suppress(ClosedError):
            self._told.note("" if self._closed else self._why())

    def _counted(self, source: Source[T]) -> SubscriberStats:
        """What was taken ahead waits, as for the program."""
        found = source.subscriber.stats()
        return replace(
            found,
            received=found.received - source.held - source.expired,
            bytes=found.bytes - source.held_bytes - source.expired_bytes,
            waiting=found.waiting + source.held,
            missed=found.missed + source.missed,
            expired=found.expired + source.expired,
        )

    def stats(self) -> PatternStats:
        """Counters since it was opened, of all topics and of each, and who does not reach it at present."""
        self._check()
        with self._lock:
            found = {name: self._counted(source) for name, source in self._sources.items()}
            total = _sum([self._past, *found.values()])
        unheard = tuple(f"{name!r}: {why}" for name, one in found.items() for why in one.unheard)
        sums: dict[str, Any] = {field.name: getattr(total, field.name) for field in fields(total)}
        sums.update(unheard=unheard, topics=found)
        return PatternStats(**sums)

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._closed

    def close(self) -> None:
        """Leave all topics. Threads that wait are woken. Samples stay valid; what was taken ahead is dropped."""
        self._closed = True
        with self._lock:
            for source in self._sources.values():
                source.subscriber.close()
            if self._polled is not None:
                self._polled.close()
            self._sources, self._polled = {}, None
        self._shut()

    def __repr__(self) -> str:
        name = "*" if isinstance(self.type, AnyType) else shown_name(self.type.name)
        return f"<rtmw.PatternSubscriber {self.topic!r} {name}{', closed' if self._closed else ''}>"


def _sum(parts: list[SubscriberStats]) -> SubscriberStats:
    names = [field.name for field in fields(SubscriberStats) if field.name not in ("latency", "unheard")]
    totals = {name: sum(getattr(part, name) for part in parts) for name in names}
    return SubscriberStats(**totals, latency=sum((part.latency for part in parts), Latency()), unheard=())


class _Polled:
    """One descriptor for those of all topics, and for endpoints that come or go: a thread looks for those."""

    def __init__(self, region: shm.Region) -> None:
        self._epoll = select.epoll()
        self._news = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._news).atexit = False  # the thread goes on until the process ends
        self.is_closed = False
        self._epoll.register(self._news, select.EPOLLIN)
        watch = weakref.ref(self), weakref.ref(region), region.endpoints_fingerprint()
        threading.Thread(target=_watch, args=watch, name="rtmw patterns", daemon=True).start()

    def fileno(self) -> int:
        return self._epoll.fileno()

    def add(self, subscriber: Subscriber[Any]) -> None:
        self._epoll.register(subscriber.fileno(), select.EPOLLIN)

    def remove(self, subscriber: Subscriber[Any]) -> None:
        """To be called before it is closed: a child of fork() may have a copy of its descriptor."""
        self._epoll.unregister(subscriber.fileno())

    def quiet(self) -> None:
        """Endpoints that have come or gone by now are no news any more."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._news)

    def tell(self) -> None:
        """An endpoint has come or gone."""
        os.eventfd_write(self._news, 1)

    def close(self) -> None:
        self.is_closed = True
        self._epoll.close()


def _watch(of: weakref.ref[_Polled], at: weakref.ref[shm.Region], seen: int) -> None:
    """Ends when either is gone. Whoever drops them tells this thread nothing: a collector of garbage may run in it."""
    while True:
        sleep(FOLLOW_S)
        polled, region = of(), at()
        if polled is None or region is None or polled.is_closed:
            return
        endpoints = region.endpoints_fingerprint()
        if endpoints != seen:
            polled.tell()
        seen = endpoints
        del polled, region  # they may go while this thread sleeps
