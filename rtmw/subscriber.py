"""Subscriber: take, receive, iterate, listen. Taking is the core's own; waiting is built on it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack, overload

from rtmw import shm
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_of
from rtmw.errors import RegionDamaged
from rtmw.latency import Latency
from rtmw.matching import Offer, unheard
from rtmw.publisher import check_count, wire_type
from rtmw.qos import Reliability, check_reliability, check_seconds, check_times
from rtmw.types import AnyType, MessageType, from_description, resolve, shown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rtmw.aio import Reader
    from rtmw.listener import Listener

    S = TypeVar("S", bound=np.generic)

T = TypeVar("T")


@dataclass(frozen=True)
class SubscriberStats:
    """What a subscriber got, and what it did not get, each message under one cause."""

    received: int
    """Messages taken."""
    bytes: int
    """Payload bytes of these."""
    waiting: int
    """Messages in the queues that it has not come to yet."""
    missed: int
    """Evicted before it came to them: beyond the depth, or the pool was full; RELIABLE: lost between hosts, too."""
    expired: int
    """Passed over because their lifetime was over."""
    thinned: int
    """Passed over because they came inside `min_interval`."""
    unmatched: int
    """Passed over because their publisher offers less than the RELIABLE that is asked for."""
    other_types: int
    """Passed over because they are of another type of the topic."""
    deadlines_missed: int
    """Deadlines that passed without a message."""
    lapses: int
    """Times that the lease ran out."""
    latency: Latency
    """How long messages took from publish to take: all that it received since it was opened."""
    unheard: tuple[str, ...]
    """Publishers of the topic that are not matched, and why."""


class _Decoders:
    """For `rtmw.ANY`: decodes by the description that lies in the region, compiled once a type."""

    def __init__(self, region: shm.Region) -> None:
        self._region = region
        self._types: dict[int, MessageType | None] = {shm.TYPE_RAW: None}

    def __call__(self, index: int, data: shm.Sample[Any]) -> Any:
        if index not in self._types:
            self._types[index] = from_description(self._described(index))
        type = self._types[index]
        return bytes(data) if type is None or type.decode is None else type.decode(data)

    def _described(self, index: int) -> bytes:
        described = self._region.types().get(index)
        if described is None:
            raise RegionDamaged(f"a message of type {index}, which the region does not have; run `rtmw clean`")
        return described[1]


@cache
def _next_sample() -> Callable[..., Coroutine[Any, Any, Any]]:
    """Imported by who waits for the first time: importing rtmw has to be quick."""
    from rtmw.aio import next_sample

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
    """Takes messages of one type (or `rtmw.ANY`) from a topic, the highest priority first.

    `min_interval`: seconds after a message in which nothing is received. `deadline`: seconds without a message after
    which `receive` raises DeadlineMissed, `min_interval` or more. `depth`: unread messages kept for it; `history`:
    messages from before it came that it wants. `lease` (RELIABLE only): seconds that a publisher waits for it while it
    stands still, None: no limit. `spin`: seconds to spin before sleeping, 0: none, None: adaptive.

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
        self.type: MessageType | AnyType = type if isinstance(type, AnyType) else resolve(type)
        self.reliability = check_reliability(reliability)
        check_times(min_interval, deadline, lease, self.reliability)
        check_seconds("spin", spin)
        self._domain = domain_of(domain)
        self._reader: Callable[[], Reader | None] = lambda: None
        region = self._domain.region
        super().__init__(
            region,
            topic,
            ... if isinstance(self.type, AnyType) else wire_type(self.type),
            _Decoders(region) if isinstance(self.type, AnyType) else self.type.decode,
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
        request = Offer(self.topic, self.type, self.reliability)
        latency = Latency(tuple(self._latency()))
        return SubscriberStats(*self._counters(), latency, unheard(self._domain.region, request))

    def listen(
        self, callback: Callable[[shm.Sample[T]], object], on_deadline: Callable[[], object] | None = None
    ) -> Listener[T]:
        """Call back for each message, from a thread of the listener's own; see Listener."""
        from rtmw.listener import Listener

        return Listener(self, callback, on_deadline)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, shm.Sample[T]]:
        """The next message; StopAsyncIteration after close(), DeadlineMissed when the deadline passes."""
        return _next_sample()(self, self._domain.region)

    def __repr__(self) -> str:
        name = "*" if isinstance(self.type, AnyType) else shown_name(self.type.name)
        return f"<rtmw.Subscriber {self.topic!r} {name}{', closed' if self.closed else ''}>"
