"""Lanes of a link: which routes a topic needs, from what programs here publish and subscribe and from what the peer
wants, and the effects by which they open and close.

`Control` asks for effects, and the node carries them out in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from rtmw.net.link.messages import WANTED_MOST, Answer, Open, Wanted
from rtmw.net.neighbours import Publishing, Subscribing
from rtmw.net.security.rules import Verdict
from rtmw.qos import Reliability
from rtmw.types import AnyType, MessageType

ANY_NAME: Final = "*"


class Lane(NamedTuple):
    """A lane has a route of its own: publishers of one topic and type that offer the same."""

    topic: str
    type: int
    """The identity of the type."""
    reliability: Reliability
    keeps: bool
    """Messages for late subscribers: one of its publishers does."""

    @property
    def base(self) -> Lane:
        """The lane, whether it keeps messages or not: there is one route for both, for each of two would carry all."""
        return self._replace(keeps=False)


@dataclass(frozen=True)
class Offer:
    """The offer of all publishers of a node in a lane."""

    type: MessageType
    priority: int
    depth: int
    history: int
    lifetime_ns: int


def wanted_of(subscribers: Iterable[Subscribing]) -> tuple[Wanted, ...]:
    """The requests of subscribers, a row for each type; of more types than an interest names, as if all wanted any."""
    found = dict[int | None, Wanted]()
    for one in subscribers:
        row = _wanted(one)
        before = found.get(row.type)
        found[row.type] = row if before is None else _both(before, row)
    rows = [*found.values()]
    if len(rows) > WANTED_MOST:
        rows = [_all(replace(row, type=None, name=ANY_NAME) for row in rows)]
    return tuple(sorted(rows, key=lambda row: (row.type is not None, row.type)))


def _wanted(one: Subscribing) -> Wanted:
    type_, name = (None, ANY_NAME) if isinstance(one.type, AnyType) else (one.type.identity, one.type.name)
    return Wanted(type_, name, one.reliability, one.depth, one.history, one.min_interval_ns, one.deadline_ns)


def _both(one: Wanted, other: Wanted) -> Wanted:
    """The request that satisfies both."""
    return replace(
        one,
        reliability=max(one.reliability, other.reliability),
        depth=max(one.depth, other.depth),
        history=max(one.history, other.history),
        min_interval_ns=min(one.min_interval_ns, other.min_interval_ns),
        deadline_ns=min((ns for ns in (one.deadline_ns, other.deadline_ns) if ns), default=0),
    )


def _all(rows: Iterable[Wanted]) -> Wanted:
    first, *others = rows
    for row in others:
        first = _both(first, row)
    return first


def asked_of(wanted: Sequence[Wanted], type_: int) -> Wanted | None:
    """The request of the subscribers that take messages of this type; None: there is none."""
    found = [row for row in wanted if row.type in (None, type_)]
    return _all(found) if found else None


def lanes_of(topic: str, publishers: Iterable[Publishing]) -> dict[Lane, Offer]:
    """The lanes of a topic, with what each offers: the most that one of its publishers does."""
    groups = dict[Lane, list[Publishing]]()
    for one in publishers:
        groups.setdefault(Lane(topic, one.type.identity, one.reliability, False), []).append(one)
    offers = {lane: _offer(of) for lane, of in groups.items()}
    return {lane._replace(keeps=offer.history > 0): offer for lane, offer in offers.items()}


def _offer(publishers: Sequence[Publishing]) -> Offer:
    lifetimes = [one.lifetime_ns for one in publishers]
    return Offer(
        publishers[0].type,
        max(one.priority for one in publishers),
        max(one.depth for one in publishers),
        max(one.history for one in publishers),
        max(lifetimes) if all(lifetimes) else 0,
    )


class Say(NamedTuple):
    """Give these bytes to the peer."""

    data: bytes


class OpenOut(NamedTuple):
    """Send a lane by this route, and then say `asks` to the peer, which takes nothing of it before it has agreed."""

    route: int
    lane: Lane
    offer: Offer
    asked: Wanted
    verdict: Verdict
    """Its ceilings hold for what is sent."""
    is_followed: bool
    """The peer has wanted the lane ever since an earlier route of this line: what was published since is new to it."""

    def asks(self, begins: int) -> Open:
        """`begins`: messages of the lane before this route."""
        lane, offer = self.lane, self.offer
        return Open(
            *(self.route, lane.topic, lane.reliability, offer.priority, offer.depth, offer.history, offer.lifetime_ns),
            *(offer.type.description, begins),
        )


class AdjustOut(NamedTuple):
    """The peer wants it in another way, or the offer is another one."""

    route: int
    offer: Offer
    asked: Wanted
    verdict: Verdict


class LeaveOut(NamedTuple):
    """Messages that were published before are still sent, for the lease at most; then `Control.left` is to be
    called."""

    route: int


class PartOut(NamedTuple):
    """The peer ends: send what was taken from the bus, and have the bus keep the rest for the peer that follows, for so
    long at most. Then `Control.left` is to be called."""

    route: int
    for_ns: int


class StayOut(NamedTuple):
    """Keep the route open: it is needed again, before it was closed."""

    route: int


class DropOut(NamedTuple):
    """Send nothing more by it, from now on; then `Control.left` is to be called."""

    route: int


class OpenIn(NamedTuple):
    """Publish what comes by this route of the peer, and say `agrees` to it."""

    route: int
    open: Open
    type: MessageType
    asked: Wanted
    verdict: Verdict
    """Its ceilings hold for what comes."""
    later: bool = False
    """The route takes a publisher, and the slot of its type, with the first message. Then call `Control.first`."""

    def agrees(self) -> Answer:
        return Answer(self.route, "", "")


class BeginIn(NamedTuple):
    """Take the publisher of a route that was opened for later."""

    route: int


class AdjustIn(NamedTuple):
    """Other ceilings hold for what comes from now on, whatever the peer makes of it."""

    route: int
    verdict: Verdict


class DrainIn(NamedTuple):
    """The peer has sent so many messages by it, and sends no more. Call `Control.drained` when all have come to their
    end here, and after the lease at the latest."""

    route: int
    sent: int


class TellIn(NamedTuple):
    """Subscribers here did not get so many messages of it, which the peer has not sent."""

    route: int
    expired: int
    thinned: int


class CloseIn(NamedTuple):
    """Publish nothing more of it, from now on."""

    route: int


class Denial(NamedTuple):
    """Say once that the peer denies what programs here publish."""

    topic: str
    cause: str
    why: str


class Over(NamedTuple):
    """End the line with the peer, which broke a rule, or said what could not be answered."""

    words: str


Effect = (
    Say | OpenOut | AdjustOut | LeaveOut | PartOut | StayOut | DropOut | OpenIn | BeginIn | AdjustIn | DrainIn
    | TellIn | CloseIn | Denial | Over
)  # fmt: skip
INBOUND = (OpenIn, BeginIn, AdjustIn, DrainIn, TellIn, CloseIn)
"""Effects on routes of the peer."""
