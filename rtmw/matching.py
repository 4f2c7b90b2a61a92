"""Which publishers and subscribers of a topic are matched, and why others are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rtmw import shm
from rtmw.clock import CLOCK, Clock
from rtmw.qos import Reliability
from rtmw.types import AnyType, MessageType, shown_name

TELL_AFTER_S: Final = 2.0
"""Seconds after which a wait without limit logs why it goes on, where there is a reason."""
TELL_MOST_S: Final = 64.0
"""Seconds after which it looks again at most, and logs another reason."""


@dataclass(frozen=True)
class Offer:
    """One side of a match."""

    topic: str
    type: MessageType | AnyType
    reliability: Reliability

    @property
    def type_name(self) -> str:
        return "*" if isinstance(self.type, AnyType) else shown_name(self.type.name)


@dataclass(frozen=True)
class Peer:
    """The other side, as its control block shows it."""

    pid: int
    type: int
    type_name: str
    reliability: Reliability


def topic_life(region: shm.Region, topic: str) -> int | None:
    """The identity of a topic in rows of the region: another one once the topic was given up and made again."""
    return region.topic_life(topic) or None


def _peers(region: shm.Region, rows: Iterable[shm.PublisherRow | shm.SubscriberRow]) -> Iterator[Peer]:
    types = region.types()
    for row in rows:
        if row.is_alive:
            yield Peer(row.pid, row.type, type_name_of(types, row.type), Reliability(row.reliability))


def _publishers(region: shm.Region, topic: str) -> Iterator[Peer]:
    life = region.topic_life(topic)
    return _peers(region, shm.publishers(region, life) if life else ())


def type_name_of(types: dict[int, tuple[str, bytes]], life: int) -> str:
    """Name of a type for people, by its life in the region; `?` when it is not among `types`: it was made later, or
    nobody uses it any more."""
    if life == shm.TYPE_ANY:
        return "*"
    return "bytes" if life == shm.TYPE_RAW else shown_name(types.get(life, ("?", b""))[0])


def _same_type(types: dict[int, tuple[str, bytes]], life: int, type: MessageType | AnyType) -> bool:
    if life == shm.TYPE_ANY or isinstance(type, AnyType):
        return True
    if life == shm.TYPE_RAW or type.kind == "bytes":
        return life == shm.TYPE_RAW and type.kind == "bytes"
    return types.get(life) == (type.name, type.description)


def _type_reason(types: dict[int, tuple[str, bytes]], mine: Offer, peer: Peer) -> str | None:
    if _same_type(types, peer.type, mine.type):
        return None
    return _type_words(peer.type_name, mine.type_name)


def _type_words(its: str, mine: str) -> str:
    if its == mine:
        return f"its type {its} has the same name and another structure"
    return f"its type is {its}, this one's {mine}"


def _unmatched(region: shm.Region, mine: Offer, peers: Iterator[Peer], is_publisher: bool) -> tuple[str, ...]:
    types, reasons = region.types(), list[str]()
    for peer in peers:
        offered, asked = (mine, peer) if is_publisher else (peer, mine)
        reason = _type_reason(types, mine, peer)
        if reason is None and asked.reliability is Reliability.RELIABLE is not offered.reliability:
            one, other = ("asks for", "offers") if is_publisher else ("offers", "asks for")
            side = "publisher" if is_publisher else "subscriber"
            reason = f"{one} {peer.reliability.name}, this {side} {other} {mine.reliability.name}"
        if reason is not None:
            reasons.append(f"{'subscriber' if is_publisher else 'publisher'} of process {peer.pid}: {reason}")
    return tuple(reasons)


def refusals(region: shm.Region, offer: Offer) -> tuple[str, ...]:
    """Subscribers that a publisher of this offer does not reach, and why."""
    life = region.topic_life(offer.topic)
    rows = [
        row
        for row in (shm.subscribers(region, life) if life else ())
        if not row.is_exact
        or row.reliability == offer.reliability  # else another subscriber of its process has this one's messages
    ]
    return _unmatched(region, offer, _peers(region, rows), is_publisher=True)


def unheard(region: shm.Region, request: Offer) -> tuple[str, ...]:
    """Publishers that do not reach a subscriber of this request, and why."""
    return _unmatched(region, request, _publishers(region, request.topic), is_publisher=False)


def heard(region: shm.Region, request: Offer) -> int:
    """How many publishers reach a subscriber of this request."""
    there = len([*_publishers(region, request.topic)])
    return max(0, there - len(unheard(region, request)))


def apart(publisher: Peer, subscriber: Peer) -> str | None:
    """Why a subscriber does not get what a publisher publishes, in the words of `unheard`; None: it does."""
    if subscriber.type not in (publisher.type, shm.TYPE_ANY):
        reason = _type_words(publisher.type_name, subscriber.type_name)
    elif subscriber.reliability is Reliability.RELIABLE is not publisher.reliability:
        reason = f"offers {publisher.reliability.name}, this subscriber asks for {subscriber.reliability.name}"
    else:
        return None
    return f"publisher of process {publisher.pid}: {reason}"


def silence(region: shm.Region, request: Offer, domain: int) -> str:
    """Why a subscriber of this request gets nothing; empty: there are publishers, and each is matched."""
    if any(_publishers(region, request.topic)):
        return "; ".join(unheard(region, request))
    return f"nobody publishes on it in domain {domain}"


class LongWait:
    """A wait without limit. Who waits calls `look` now and then, or when `left` is over; it calls `tell` after
    TELL_AFTER_S, and each time after twice as long, at most a minute."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell, self._rest = tell, TELL_AFTER_S
        self._at = CLOCK.monotonic() + self._rest

    @property
    def left(self) -> float:
        """Seconds until the next look counts."""
        return max(0.0, self._at - CLOCK.monotonic())

    def look(self) -> None:
        if CLOCK.monotonic() >= self._at:
            self._rest = min(2 * self._rest, TELL_MOST_S)
            self._at = CLOCK.monotonic() + self._rest
            self._tell()


class WaitLog:
    """The log of waits without limit for one thing: why they go on. A reason is logged when it is another one than the
    last, and after each line it takes twice as long until there may be another, at most a minute."""

    def __init__(self, topic: str, awaited: str, clock: Clock = CLOCK) -> None:
        self._topic, self._awaited, self._clock = topic, awaited, clock
        self._reason, self._rest, self._next = "", TELL_AFTER_S, 0.0

    def note(self, reason: str) -> None:
        """Empty: there is no reason."""
        if reason == self._reason or (reason and self._clock.monotonic() < self._next):
            return
        self._reason = reason
        if not reason:
            return
        self._rest = min(2 * self._rest, TELL_MOST_S)
        self._next = self._clock.monotonic() + self._rest
        import logging  # where there is something to log: importing rtmw has to be quick

        text = "topic %r: %s is still waited for: %s"
        logging.getLogger("rtmw").warning(text, self._topic, self._awaited, reason)
