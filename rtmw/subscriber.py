"""Subscriber: take, receive, iterate, listen. Taking is the core's own; waiting is built on it.

A Listener calls back for each message, from a thread of its own (requirement P7); a WaitSet waits for any of several
subscribers at once.
"""

from __future__ import annotations

import builtins
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from inspect import isasyncgenfunction, iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_of
from rtmw.errors import ClosedError, DeadlineMissed, LeaseExpired, RegionDamaged
from rtmw.latency import Latency
from rtmw.matching import TELL_AFTER_S, LongWait, Offer, WaitLog, heard, silence, unheard
from rtmw.notebook import ShownByFields
from rtmw.publisher import check_count, wire_type
from rtmw.qos import Reliability, check_reliability, check_seconds, check_times, limited
from rtmw.text.patterns import check_levels, is_own
from rtmw.types import AnyType, MessageType, from_description, resolve, shown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rtmw.waiting import Reader

    S = TypeVar("S", bound=np.generic)
    import logging


T = TypeVar("T")


@dataclass(frozen=True)
class SubscriberStats(ShownByFields):
    """Counters of a subscriber since it was opened: each message is counted once, as received or by the cause for which
    it was not.
    """

    received: int
    """Messages taken."""
    bytes: int
    """Payload bytes of these."""
    waiting: int
    """Messages in the queues that it gets, and has not taken yet."""
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
    """Deadlines that passed without a message."""
    lapses: int
    """Times that the lease ran out."""
    latency: Latency
    """Time from publish to take of all messages that it received."""
    unheard: tuple[str, ...]
    """Publishers of the topic that are not matched, and why."""


_DECODERS_MOST: Final = 256
"""How many types' decoders are remembered: the number of types that a region has at most at a time."""


class _Decoders:
    """Decodes messages for `rtmw.ANY` by the description that lies in the region, compiled once a type for all
    subscribers."""

    def __init__(self, region: shm.Region) -> None:
        self._region = weakref.ref(region)
        self._types: dict[int, MessageType] = {}
        """Types by their number in the region."""

    def __call__(self, life: int, data: shm.Sample[Any]) -> Any:
        if life == shm.TYPE_RAW:
            return bytes(data)
        type = self._types.get(life) or self._meet(life)
        return bytes(data) if type.decode is None else type.decode(data)

    def _meet(self, life: int) -> MessageType:
        """Types come and go; of those that nobody uses any more few are remembered."""
        region = self._region()
        described = region.types().get(life) if region is not None else None  # which each sample keeps
        if described is None:
            raise RegionDamaged(f"a message of type {life}, which the region does not have; run `rtmw clean`")
        if len(self._types) >= _DECODERS_MOST:
            self._types.clear()  # in one step: other threads decode meanwhile
        self._types[life] = type = from_description(described[1])
        return type


_decoders: weakref.WeakKeyDictionary[shm.Region, _Decoders] = weakref.WeakKeyDictionary()


@cache
def _next_sample() -> Callable[..., Coroutine[Any, Any, Any]]:
    """Imported by the first call that waits: importing rtmw has to be quick."""
    from rtmw.waiting import next_sample

    return next_sample


class SubscriberOptions(TypedDict, total=False):
    """Keywords of Subscriber."""

    domain: int | Domain | None
    min_interval: float
    deadline: float | None
    reliability: Reliability
    depth: int
    history: int
    lease: float | None
    spin: float | None


class Subscriber(shm.Subscriber[T], Closing):
    """Takes messages of one type from a topic, the highest priority first, and within a priority in order.

    - `topic`: a name, as of Publisher.
    - `type`: that of the messages, as of Publisher; or `rtmw.ANY`, for messages of all types.
    - `domain`: as of Publisher.
    - `min_interval`: seconds after a message in which no other is received; those in between are counted as thinned.
    - `deadline`: seconds without a message after which `receive` raises DeadlineMissed; at least `min_interval`.
    - `reliability`: what it asks for; with RELIABLE it is matched with RELIABLE publishers only.
    - `depth`: unread messages of each priority that are kept for it.
    - `history`: messages from before it came that it wants, of publishers that keep some.
    - `lease`: with RELIABLE, seconds for which a publisher waits, or tries again and again, while this one stands
      still. Then it misses messages, and its next call raises LeaseExpired. None: no limit.
    - `spin`: seconds to spin before sleeping; 0: none, None: as long as has been worth it.

    Errors: TopicNameError, UnsupportedType, ValueError, LimitReached, and those of Domain.
    """

    @overload
    def __init__(self: Subscriber[bytes], topic: str, **options: Unpack[SubscriberOptions]) -> None: ...
    @overload
    def __init__(
        self: Subscriber[NDArray[S]],
        topic: str,
        type: np.dtype[S] | builtins.type[S],
        **options: Unpack[SubscriberOptions],
    ) -> None: ...
    @overload
    def __init__(self: Subscriber[Any], topic: str, type: AnyType, **options: Unpack[SubscriberOptions]) -> None: ...
    @overload
    def __init__(
        self: Subscriber[dict[str, Any]],
        topic: str,
        type: builtins.type[dict[str, Any]],
        **options: Unpack[SubscriberOptions],
    ) -> None: ...
    @overload
    def __init__(self, topic: str, type: builtins.type[T], **options: Unpack[SubscriberOptions]) -> None: ...

    def __init__(
        self,
        topic: str,
        type: Any = bytes,
        *,
        domain: int | Domain | None = None,
        min_interval: float = 0.0,
        deadline: float | None = None,
        reliability: Reliability = Reliability.ADAPTIVE,
        depth: int = 64,
        history: int = 0,
        lease: float | None = None,
        spin: float | None = None,
    ) -> None:
        check_levels(topic)
        self.type: MessageType | AnyType = type if isinstance(type, AnyType) else resolve(type)
        self.reliability = check_reliability(reliability)
        check_times(min_interval, deadline, lease, self.reliability)
        check_seconds("spin", spin)
        self._domain = domain_of(domain)
        self._reader: Callable[[], Reader | None] = lambda: None
        self._tells_after_ns = round(TELL_AFTER_S * 1e9)
        self._silence: tuple[tuple[int, int], str] | None = None
        self._told = WaitLog(topic, "a message")
        region = self._domain.region
        super().__init__(
            region,
            topic,
            ... if isinstance(self.type, AnyType) else wire_type(self.type),
            _decoders.setdefault(region, _Decoders(region)) if isinstance(self.type, AnyType) else self.type.decode,
            int(self.reliability),
            check_count("depth", depth, 1),
            check_count("history", history, 0),
            min_interval,
            deadline,
            lease,
            spin,
        )
        self._domain.adopt(self)

    def stats(self) -> SubscriberStats:
        """Counters since it was opened, and who does not reach it at present."""
        latency = Latency(tuple(self._latency()))
        return SubscriberStats(*self._counters(), latency, unheard(self._domain.region, self._request()))

    @property
    def publishers(self) -> int:
        """Publishers that are matched with it at present; one on another host counts once the node here publishes for
        it.
        """
        if self.closed:
            raise ClosedError(f"topic {self.topic!r}: used after close()")
        return heard(self._domain.region, self._request())

    def wait_for_publishers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` publishers are matched, as `Publisher.wait_for_subscribers` does."""
        check_seconds("timeout", timeout)
        end = None if timeout is None else CLOCK.monotonic() + timeout
        told = WaitLog(self.topic, "a publisher")
        waiting = LongWait(lambda: told.note(self._why_silent()))
        while self.publishers < count:
            if self.closed:
                raise ClosedError(f"topic {self.topic!r}: closed while a publisher was waited for")
            if end is None:
                waiting.look()
            left = 0.01 if end is None else min(0.01, end - CLOCK.monotonic())
            if left <= 0:
                return False
            time.sleep(left)
        return True

    def _request(self) -> Offer:
        return Offer(self.topic, self.type, self.reliability)

    def _why_silent(self) -> str:
        """Looked up when an endpoint came or went, and each second, for deaths: receive(0) in a loop stays cheap."""
        region = self._domain.region
        now = region.endpoints_fingerprint(), int(CLOCK.monotonic())
        if self._silence is None or self._silence[0] != now:
            self._silence = now, silence(region, self._request(), self._domain.id)
        return self._silence[1]

    def _log_silence(self) -> None:
        """Log why a wait without limit hears nothing, if there is a new reason. Topics of rtmw itself are silent for
        long, as the queue of a core for which no program has work. That it was closed the wait itself says."""
        if is_own(self.topic):
            return
        with suppress(ClosedError):
            self._told.note("" if self.closed else self._why_silent())

    def listen(
        self, callback: Callable[[shm.Sample[T]], object], on_deadline: Callable[[], object] | None = None
    ) -> Listener[T]:
        """Call back for each message, from a thread of the listener's own; see Listener. TypeError for a coroutine
        function, for which there is `async for`.
        """

        return Listener(self, callback, on_deadline)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, shm.Sample[T]]:
        """The next message; StopAsyncIteration after close(), DeadlineMissed when the deadline passes."""
        return _next_sample()(self, self._domain.region)

    def __repr__(self) -> str:
        name = "*" if isinstance(self.type, AnyType) else shown_name(self.type.name)
        return f"<rtmw.Subscriber {self.topic!r} {name}{', closed' if self.closed else ''}>"


# ---- Listener and WaitSet ----


class Receiving(Protocol[T]):
    """The part of a subscriber that a listener needs."""

    @property
    def topic(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def receive(self, timeout: float | None = None) -> shm.Sample[T]: ...

    def _log_silence(self) -> None: ...


def _log() -> logging.Logger:
    """Imported when there is something to log: importing rtmw has to be quick."""
    import logging

    return logging.getLogger("rtmw")


def is_async(callback: object) -> bool:
    """Does calling it make a coroutine, or an asynchronous generator?"""
    function: Any = callback
    while isinstance(function, partial):
        function = function.func
    return any(iscoroutinefunction(one) or isasyncgenfunction(one) for one in (function, type(function).__call__))


def _check_callback(callback: object) -> None:
    """Raise TypeError for what cannot be called, or makes a coroutine, which a thread without an event loop would not
    await."""
    if not callable(callback):
        raise TypeError(f"listen cannot call {callback!r} back; give it a function of one sample")
    if is_async(callback):
        raise TypeError(
            f"listen calls back from a thread, and nothing there would await {callback!r}; in a coroutine use "
            "`async for sample in subscriber`, or give listen a function that is not async"
        )


class Listener(Closing, Generic[T]):
    """Made by `Subscriber.listen`. The callback runs in the listener's thread, one message at a time. It is a function
    that is not async: TypeError for another one.

    An exception of the callback is logged with its traceback and counted in `errors`; the listener goes on. That
    holds for SystemExit, too. A callback may close the listener or the subscriber.
    """

    def __init__(
        self,
        subscriber: Receiving[T],
        callback: Callable[[shm.Sample[T]], object],
        on_deadline: Callable[[], object] | None = None,
    ) -> None:
        _check_callback(callback)
        if on_deadline is not None:
            _check_callback(on_deadline)
        if subscriber.closed:
            raise ClosedError(f"{subscriber!r}: listen after close() would never call back")
        self.errors = 0
        """Exceptions that callbacks have raised."""
        self._subscriber = subscriber
        self._callback = callback
        self._on_deadline = on_deadline
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rtmw {subscriber.topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        waiting: LongWait | None = None
        while not self._stopped.is_set():
            try:
                sample = self._subscriber.receive(timeout=0.1)
            except TimeoutError:
                waiting = waiting or LongWait(self._subscriber._log_silence)
                waiting.look()
                continue
            except ClosedError:
                return
            except LeaseExpired as error:
                _log().warning("%s", error)
                continue
            except DeadlineMissed:
                sample = None
            waiting = None
            # Outside of the handlers, so that the traceback of a callback is its own alone.
            if sample is not None:
                self._deliver(sample)
            elif self._on_deadline is not None:
                self._call(self._on_deadline)
            del sample  # its memory comes back now, and not with the next message

    def _deliver(self, sample: shm.Sample[T]) -> None:
        self._call(lambda: self._callback(sample))

    def _call(self, function: Callable[[], object]) -> None:
        try:
            made = function()
            if iscoroutine(made):  # of a lambda, say
                made.close()
                raise TypeError("the callback gave a coroutine, which nothing awaits here; use `async for`")
        except BaseException as error:  # SystemExit too, with which Python ends a thread in silence
            self.errors += 1
            what = type(error).__name__
            _log().exception("rtmw: the listener of topic %r raised %s; it goes on", self._subscriber.topic, what)

    def close(self) -> None:
        """Stop calling back; waits for a callback that runs, unless called from it. The subscriber stays open."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


class WaitSet:
    """A fixed set of subscribers, of any topics, types and domains.

    Sleeps on all of them with one system call (Linux 5.16, up to 128); beyond that it looks twice a millisecond.
    """

    def __init__(self, *subscribers: Subscriber[Any]) -> None:
        for subscriber in subscribers:
            if not isinstance(subscriber, Subscriber):
                raise TypeError(f"a WaitSet is made of subscribers, and was given {subscriber!r}")
        self._subscribers = subscribers

    def wait(self, timeout: float | None = None) -> list[Subscriber[Any]]:
        """Returns the subscribers with something to take, or whose deadline passed (then `receive(0)` says so); []
        after `timeout`.

        Raises ClosedError when one of them is closed. Without a limit it logs why nothing comes, as `receive` does.
        """
        waiting = LongWait(self._log_silence) if limited(timeout) is None else None
        while not (ready := shm.wait_any(self._subscribers, timeout if waiting is None else waiting.left)) and waiting:
            waiting.look()
        for subscriber in ready:
            if subscriber.closed:
                raise ClosedError(f"topic {subscriber.topic!r}: closed while a WaitSet waited for it")
        return ready

    def _log_silence(self) -> None:
        for subscriber in self._subscribers:
            subscriber._log_silence()
