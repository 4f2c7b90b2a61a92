"""Publisher: encode → claim a block → fill → append. The hot methods are the core's own."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, Unpack, overload

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_of
from rtmw.errors import TopicNameError
from rtmw.matching import LongWait, Offer, WaitLog, refusals
from rtmw.notebook import ShownByFields
from rtmw.qos import Reliability, check_priority, check_reliability, check_seconds, is_whole
from rtmw.text.patterns import OWN_PREFIX, check_levels, is_own
from rtmw.types import MessageType, resolve, shown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rtmw.waiting import Turns

    S = TypeVar("S", bound=np.generic)

T = TypeVar("T")

LONGEST_QUEUE = 1 << 20


@dataclass(frozen=True)
class PublisherStats(ShownByFields):
    """Counters of a publisher since it was opened."""

    published: int
    """Messages that it appended to the topic's queues."""
    bytes: int
    """Payload bytes of these messages."""
    timed_out: int
    """Messages refused: a RELIABLE subscriber's queue stayed full for `max_blocking`."""
    exhausted: int
    """Messages refused: no memory could be had."""
    held_by_history: int
    """How many of `exhausted` were refused while the `history` of topics kept more of the memory than RELIABLE
    subscribers need."""
    subscribers: int
    """Subscribers that are matched with it at present."""
    refused: tuple[str, ...]
    """Subscribers of the topic that are not matched, and why."""
    in_the_way: tuple[str, ...]
    """RELIABLE subscribers in the way of the message that was refused last, 64 at most: their programs, and how much is
    unread. If that message lacked memory: those of any topic.
    """


def check_count(name: str, value: int, least: int) -> int:
    if not is_whole(value, least, LONGEST_QUEUE):
        raise ValueError(f"{name}={value!r} is not possible; it must be a whole number from {least} to {LONGEST_QUEUE}")
    return value


def wire_type(type: MessageType) -> tuple[str, int, bytes] | None:
    """A type as the core wants it; None for raw bytes."""
    return None if type.kind == "bytes" else (type.name, type.identity, type.description)


class PublisherOptions(TypedDict, total=False):
    """Keywords of Publisher."""

    domain: int | Domain | None
    priority: int
    lifetime: float | None
    reliability: Reliability
    depth: int
    history: int
    max_blocking: float | None


class MessageOptions(TypedDict, total=False):
    """Keywords of `publish`."""

    priority: int | None
    lifetime: float | None
    valid_until: float | None


@cache
def _published_in_turn() -> Callable[..., Coroutine[Any, Any, bool]]:
    """Imported by the first message that waits: importing rtmw has to be quick."""
    from rtmw.waiting import published_in_turn

    return published_in_turn


class Publisher(shm.Publisher[T], Closing):
    """Publishes messages of one type to a topic.

    - `topic`: a name of 1 to 191 bytes of UTF-8, without control characters, `*`, `?` and `[`, and without levels that
      are `#` or `+`. Names under `rtmw/` are those of rtmw itself, and refused.
    - `type`: `bytes`, `str`, `dict` (any JSON value), a numpy dtype, or a class with members: a dataclass, a
      msgspec.Struct, a pydantic.BaseModel, or an IdlStruct of `cyclonedds.idl`. docs/types.md says what members may be.
    - `domain`: a number, or a Domain; None: the environment's RTMW_DOMAIN, else 0.
    - `priority`: 0 to 7; subscribers take the highest first. A message may have another one.
    - `lifetime`: seconds for which a message is valid; no subscriber gets an expired message. None: no limit. A message
      may have another one.
    - `reliability`: what gives way when a queue or the pool is full, see Reliability.
    - `depth`: messages of at most 128 bytes that stay for late subscribers while memory and topics are plenty.
    - `history`: messages that stay for late subscribers in any case while the topic has a publisher; after that until
      messages of the same or a higher priority need the memory, or a new topic the slot.
    - `max_blocking`: seconds for which `publish` waits for a RELIABLE subscriber whose queue is full; None: no limit;
      0: it only tries. A try, too, sees whether the subscriber in its way lives, and goes on if that is dead.

    Errors: TopicNameError, UnsupportedType, ValueError, LimitReached, and those of Domain.
    """

    _may_be_own: ClassVar[bool] = False

    @overload
    def __init__(self: Publisher[bytes], topic: str, **options: Unpack[PublisherOptions]) -> None: ...
    @overload
    def __init__(
        self: Publisher[NDArray[S]],
        topic: str,
        type: np.dtype[S] | builtins.type[S],
        **options: Unpack[PublisherOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Publisher[dict[str, Any]],
        topic: str,
        type: builtins.type[dict[str, Any]],
        **options: Unpack[PublisherOptions],
    ) -> None: ...
    @overload
    def __init__(self, topic: str, type: builtins.type[T], **options: Unpack[PublisherOptions]) -> None: ...

    def __init__(
        self,
        topic: str,
        type: Any = bytes,
        *,
        domain: int | Domain | None = None,
        priority: int = 0,
        lifetime: float | None = None,
        reliability: Reliability = Reliability.ADAPTIVE,
        depth: int = 64,
        history: int = 0,
        max_blocking: float | None = 0.1,
    ) -> None:
        if is_own(str(topic)) and not self._may_be_own:
            raise TopicNameError(
                f"{topic!r} cannot be published on: on topics under {OWN_PREFIX!r} the node and the transfers of rtmw "
                "talk; choose another name"
            )
        check_levels(topic)
        check_priority(priority)
        message_type = resolve(type)
        self.type = message_type
        """The message type, with its name and its identity."""
        self.reliability = check_reliability(reliability)
        """The reliability that was given."""
        check_seconds("lifetime", lifetime, "above 0")  # the core has 0 for none
        check_seconds("max_blocking", max_blocking)
        self._priority, self._max_blocking = priority, max_blocking
        self._turns: Turns | None = None
        self._domain = domain_of(domain)
        in_place = message_type.in_place
        super().__init__(
            self._domain.region,
            topic,
            wire_type(message_type),
            in_place.begin if in_place else message_type.encode,
            in_place.write if in_place else None,
            int(self.reliability),
            priority,
            check_count("depth", depth, 1),
            check_count("history", history, 0),
            lifetime,
            max_blocking,
        )
        self._domain.adopt(self)

    async def publish_async(self, value: T, **options: Unpack[MessageOptions]) -> bool:
        """`publish`, for asyncio: the event loop goes on while it waits for a RELIABLE subscriber whose queue is full.

        Messages of one priority that wait are published in the order of the calls. `value` must not change meanwhile.
        Cancelled, the message is published or not, and never twice.
        """
        if self._turns is None:  # nobody has ever waited
            published = self._try(self._max_blocking, value, **options)
            if published is not None:
                return published
        return await _published_in_turn()(self, self._max_blocking, value, options)

    def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` subscribers are matched. False: not within `timeout` seconds; None: no limit, and
        the reason is logged after 2 s.
        """
        check_seconds("timeout", timeout)
        end = None if timeout is None else CLOCK.monotonic() + timeout
        told = WaitLog(self.topic, "a subscriber")
        waiting = LongWait(lambda: told.note(self._why_absent(count)))
        while self.subscribers < count:
            if end is None:
                waiting.look()
            left = 0.01 if end is None else min(0.01, end - CLOCK.monotonic())
            if left <= 0:
                return False
            time.sleep(left)
        return True

    def _why_absent(self, count: int) -> str:
        """Says which subscribers do not match, or how many there are."""
        stats = self.stats()
        found = f"{stats.subscribers} of {count} subscribe to it in domain {self._domain.id}"
        return "; ".join(stats.refused) or found

    def close(self, *, forget: bool = False) -> None:
        """Give the endpoint back. What is unread stays, and what it keeps stays for late subscribers as `history` says.
        `forget`: late subscribers get nothing of that, unless the topic has another publisher.
        """
        if forget:
            self._forget()
        else:
            super().close()

    def stats(self) -> PublisherStats:
        """Counters since it was opened, and the subscribers that are matched at present, or not and why."""
        offer = Offer(self.topic, self.type, self.reliability)
        refused = refusals(self._domain.region, offer)
        return PublisherStats(*self._counters(), self.subscribers, refused, shm.blocker_words(self._blockers()))

    def __repr__(self) -> str:
        return f"<rtmw.Publisher {self.topic!r} {shown_name(self.type.name)}{', closed' if self.closed else ''}>"


class OwnPublisher(Publisher[bytes]):
    """Publishes bytes on a topic of rtmw itself, which `Publisher` refuses: for the node and for transfers."""

    _may_be_own = True
