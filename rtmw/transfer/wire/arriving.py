"""A transfer that comes from a peer, and how far it is.

BEGINNING ──Begun──► ARRIVING ──WHOLE──► COMPLETING ──StateFound──► it is here, and not of this half any more
    │ PutOff, StateFound │ PutOff             │ PutOff
    ▼                    ▼                    ▼
LATER or REPORT: what is durable stays with the store, and the next OFFER begins again

While it is COMPLETING it is completed at once, and handed over when all before it in its lane were: those of which a
WHOLE, or a letter, came before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.lanes import LaneKey, lane_key
from rtmw.transfer.wire.terms import Chain

__all__ = ["Arriving", "Stage"]


class Stage(Enum):
    """See the head of this file."""

    BEGINNING = "beginning"
    ARRIVING = "arriving"
    COMPLETING = "completing"


@dataclass(slots=True)
class Arriving:
    """A transfer of which not all is here."""

    offer: f.Offer
    chain: Chain
    stage: Stage = Stage.BEGINNING
    ref: int = 0
    """On this stream; 0: it was not offered on it."""
    durable: int = 0
    marked: int = 0
    """Position of the last mark that is on its way to the disk."""
    told: int = 0
    """The value of `received` in the last ACK."""
    run: int = 0
    """How often it has begun with its first byte."""
    is_asked: bool = False
    """Before Begun, or while it is COMPLETING."""
    is_whole: bool = False
    """WHOLE has come: it has its place in its lane."""
    is_completed: bool = False
    is_placed: bool = False
    """It was completed before a crash."""
    is_handed: bool = False
    """HandOver, or TakeLetters, was said."""
    early: list[f.Piece | f.Whole] = field(default_factory=list[f.Piece | f.Whole])
    """Bytes that came before Begun."""

    @property
    def lane(self) -> LaneKey:
        return lane_key(self.offer.sender, self.offer.header)

    @property
    def received(self) -> int:
        return self.chain.position
