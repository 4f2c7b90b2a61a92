"""A transfer that is sent to a peer, and how far it is.

    WAITING ──OFFER──► OFFERED ──GO──► CATCHING_UP ──► SENDING ──WHOLE──► WHOLE ──REPORT──► AT_PEER ──its end──► ENDED
       ▲                  └──── small: at once ───────────┘                                    │
       └── LATER, or a new stream                                                 a new stream: ASK

WHOLE leaves when the transfer is the front of its lane (lanes.py). CATCHING_UP reads what the peer has already, from
the last block on of which the value is known, so that the chain of hashes goes on; nothing of it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rtmw.transfer.header import Kind
from rtmw.transfer.records import LARGEST_INLINE
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire.terms import Chain, Mark

__all__ = ["Outgoing", "Phase"]


class Phase(Enum):
    """See the head of this file."""

    WAITING = "waiting"
    """For a stream, for its turn, or for the end of a rest."""
    OFFERED = "offered"
    CATCHING_UP = "catching up"
    SENDING = "sending"
    WHOLE = "whole"
    AT_PEER = "at the peer"
    RETURNING = "returning"
    """The peer has lost it. The core is told so, and adds it again."""
    ENDED = "ended"


_ON_THE_WAY: Final = frozenset({Phase.OFFERED, Phase.CATCHING_UP, Phase.SENDING, Phase.RETURNING})


@dataclass(slots=True)
class Outgoing:
    """A transfer that has not ended."""

    add: e.Add
    phase: Phase = Phase.WAITING
    ref: int = 0
    chain: Chain | None = None
    """Its position is the next byte to be read."""
    goal: int = 0
    """While catching up: what the peer has."""
    value: bytes = b""
    """While catching up: of the chain at the peer, at the last block before the goal."""
    limit: int = 0
    reading: int = 0
    """The ref under which bytes of the source were asked for; 0: none are."""
    reserved: int = 0
    """Bytes of the stream's room for the piece that is being read."""
    is_queued: bool = False
    """It waits to be offered."""
    is_asked: bool = False
    """The peer was asked on this stream what has become of it, and has not answered."""
    turn: int = 0
    """In which its next bytes are read; 0: it waits for none."""
    in_doubt: bool = False
    """The peer may have all of it."""
    marks: dict[int, Mark] = field(default_factory=dict[int, Mark])
    """Ends of blocks that were read in this life."""
    kept: int = 0
    """Position of the mark that is logged."""
    received: int = 0
    """What the peer has, as it has said last."""
    withdrawn: bool = False
    was_taken: bool = False
    """The peer has said so last: a receiver has it, or it is a dead letter, and it cannot be cancelled."""
    began: tuple[float, int] = (0.0, 0)
    """When SENDING began on this stream, and at which position."""

    @property
    def size(self) -> int:
        return sum(part.length for part in self.add.parts)

    @property
    def needs_file(self) -> bool:
        """The peer opens files for it."""
        is_file = any(part.kind is Kind.FILE for part in self.add.parts)
        return self.add.letter is None and (is_file or self.size > LARGEST_INLINE)

    @property
    def is_sent(self) -> bool:
        """All bytes are sent, and WHOLE is next."""
        return self.phase is Phase.SENDING and self.chain is not None and self.chain.position == self.size

    @property
    def holds_back(self) -> bool:
        """Do later transfers of its lane wait for it?"""
        return self.is_queued or self.is_asked or self.phase in _ON_THE_WAY

    @property
    def has_more(self) -> bool:
        """Are there bytes of its source to be read, of which none are asked for?"""
        if self.chain is None or self.reading:
            return False
        if self.phase is Phase.SENDING:
            return self.chain.position < min(self.limit, self.size)
        return self.phase is Phase.CATCHING_UP

    @property
    def is_as_logged(self) -> bool:
        """Is what was read of its source what was sent before a restart?"""
        logged = self.add.mark
        return self.marks.get(logged.position, logged).value == logged.value

    def known_before(self, position: int, block: int) -> Mark:
        """The last end of a block of which the value is known, up to the block in which the position lies."""
        last, logged = position // block * block, self.add.mark
        if last in self.marks:
            return self.marks[last]
        return Mark(logged.position - block, logged.before) if 0 < logged.position <= last else Mark()

    def rate(self, now: float) -> float | None:
        """Bytes a second since SENDING began on this stream; None: nothing of it is sent."""
        if self.phase is not Phase.SENDING or self.chain is None or now <= self.began[0]:
            return None
        return (self.chain.position - self.began[1]) / (now - self.began[0])

    @property
    def sent(self) -> int:
        return self.chain.position if self.chain is not None and self.phase is not Phase.CATCHING_UP else self.goal
