"""Effects of the control of a link: `Control` asks for them, the node carries them out in this order."""

from __future__ import annotations

from typing import NamedTuple

from rtmw.net.link.matching import Lane, Offer
from rtmw.net.link.messages import Answer, Open, Wanted
from rtmw.net.security.rules import Verdict
from rtmw.types import MessageType


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
