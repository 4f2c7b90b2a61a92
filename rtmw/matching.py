"""Which publishers and subscribers of a topic are matched, and why others are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.qos import Reliability
from rtmw.types import AnyType, MessageType, shown_name

TELL_AFTER_S: Final = 2.0
"""Seconds after which a wait without limit logs why it goes on, where there is a reason."""


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
    return next((row.life for row in shm.topics(region) if row.name == topic), None)


def _peers(region: shm.Region, rows: Iterable[shm.PublisherRow | shm.SubscriberRow], topic: str) -> Iterator[Peer]:
    life, types = topic_life(region, topic), region.types()
    for row in rows:
        if row.topic == life and row.is_alive:
            yield Peer(row.pid, row.type, type_name_of(types, row.type), Reliability(row.reliability))


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
    if peer.type_name == mine.type_name:
        return f"its type {peer.type_name} has the same name and another structure"
    return f"its type is {peer.type_name}, this one's {mine.type_name}"


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
    rows = [
        row
        for row in shm.subscribers(region)
        if not row.is_exact
        or row.reliability == offer.reliability  # else another subscriber of its process has this one's messages
    ]
    return _unmatched(region, offer, _peers(region, rows, offer.topic), is_publisher=True)


def unheard(region: shm.Region, request: Offer) -> tuple[str, ...]:
    """Publishers that do not reach a subscriber of this request, and why."""
    return _unmatched(region, request, _peers(region, shm.publishers(region), request.topic), is_publisher=False)


def silence(region: shm.Region, request: Offer, domain: int) -> str:
    """Why a subscriber of this request gets nothing; empty: there are publishers, and each is matched."""
    if any(_peers(region, shm.publishers(region), request.topic)):
        return "; ".join(unheard(region, request))
    return f"nobody publishes on it in domain {domain}"


class LongWait:
    """A wait without limit. Who waits calls `look` now and then; the first call after TELL_AFTER_S calls `tell`."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._at = CLOCK.monotonic() + TELL_AFTER_S

    def look(self) -> None:
        if CLOCK.monotonic() >= self._at:
            self._at = math.inf
            self._tell()


def log_wait(topic: str, awaited: str, reason: str) -> None:
    """Log that a wait without limit goes on, and why."""
    import logging  # where there is something to log: importing rtmw has to be quick

    logging.getLogger("rtmw").warning("topic %r: %s is still waited for: %s", topic, awaited, reason)
