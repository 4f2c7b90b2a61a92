"""Transfers under way between two cores: how far each is, in which order they come whole, and what shares a frame.

One that is sent to a peer:

    WAITING ──OFFER──► OFFERED ──GO──► CATCHING_UP ──► SENDING ──WHOLE──► WHOLE ──REPORT──► AT_PEER ──its end──► ENDED
       ▲                  └──── small: at once ───────────┘                                    │
       └── LATER, or a new stream                                                 a new stream: ASK

WHOLE leaves when the transfer is the front of its lane. CATCHING_UP reads what the peer has already, from the last
block on of which the value is known, so that the chain of hashes goes on; nothing of it is sent.

One that comes from a peer:

    BEGINNING ──Begun──► ARRIVING ──WHOLE──► COMPLETING ──StatesFound──► it is here, and not of this half any more
        │ PutOff, StatesFound │ PutOff             │ PutOff
        ▼                    ▼                    ▼
    LATER or REPORT: what is durable stays with the store, and the next OFFER begins again

While it is COMPLETING it is completed at once, and handed over when all before it in its lane were: those of which a
WHOLE, or a letter, came before.

A lane has the transfers of one sender to one service, of one priority and class. They come whole at their receiver in
the order of sending. Its first transfer that has not gone to the peer holds the later ones back. What cannot be taken
now (LATER) holds back none: it is passed over. Only the front of a lane sends what makes a transfer whole (a letter, or
WHOLE). The peer works in the order of these frames, so nothing waits for an answer of the peer. The bytes of a few
transfers behind the front are sent meanwhile, if they are no letters.

What follows each other and has much in common goes in one frame (`runs_of`): letters, and what is said of several
transfers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.records import LARGEST_INLINE, TransferId
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.frames import Chain, Mark, value_of

__all__ = [
    "MOST_AHEAD",
    "MOST_FILES",
    "Arriving",
    "Lane",
    "LaneKey",
    "Letters",
    "Outgoing",
    "Phase",
    "Stage",
    "lane_key",
    "runs_of",
]


V = TypeVar("V", bound=Hashable)

MOST_AHEAD: Final = 16
"""Largest number of transfers of a lane that are sent at a time, the front included."""
MOST_FILES: Final = 128
"""Largest number of transfers without an answer for which the peer opens files. Those behind a front stop at half of
this, so that a front finds room."""

_LEAST: Final = 64
"""Largest number of entries of a lane that are kept without removing those that do not count."""


class LaneKey(NamedTuple):
    """Names a lane."""

    sender: str
    service: str
    priority: int
    is_logged: bool


def lane_key(sender: str, header: Header) -> LaneKey:
    return LaneKey(sender, header.to.service, header.priority, header.delivery is Delivery.LOG)


class Lane:
    """One lane of a sending half, on one stream."""

    def __init__(self) -> None:
        self._queued: list[tuple[int, int, int, Outgoing]] = []
        """A heap of transfers that were not offered. An entry without `is_queued` does not count."""
        self._ahead: list[tuple[int, int, int, Outgoing]] = []
        """A heap of other transfers that hold back; an entry without `holds_back` does not count."""
        self._entries, self._most = 0, _LEAST

    def queue(self, one: Outgoing) -> None:
        """Let a transfer wait to be offered."""
        heapq.heappush(self._queued, self._entry(one))

    def hold(self, one: Outgoing) -> None:
        """Let later transfers wait for this one, while it holds back."""
        if len(self._ahead) > self._most:
            self._ahead = sorted(entry for entry in self._ahead if entry[-1].holds_back)
            self._most = max(_LEAST, 2 * len(self._ahead))
        heapq.heappush(self._ahead, self._entry(one))

    def _entry(self, one: Outgoing) -> tuple[int, int, int, Outgoing]:
        self._entries += 1
        return one.add.id.incarnation, one.add.id.sequence, self._entries, one

    @property
    def next(self) -> Outgoing | None:
        """The first transfer that waits to be offered; None: there is none."""
        while self._queued and not self._queued[0][-1].is_queued:
            heapq.heappop(self._queued)
        return self._queued[0][-1] if self._queued else None

    @property
    def front(self) -> Outgoing | None:
        """The transfer for which all later ones wait; None: there is none."""
        while self._ahead and not self._ahead[0][-1].holds_back:
            heapq.heappop(self._ahead)
        if self.next is None or (self._ahead and self._ahead[0] < self._queued[0]):
            return self._ahead[0][-1] if self._ahead else None
        return self._queued[0][-1]

    @property
    def has_many_ahead(self) -> bool:
        """Do MOST_AHEAD transfers hold back? Then no other one is offered behind them."""
        holding = (entry for entry in self._ahead if entry[-1].holds_back)
        return sum(1 for _ in islice(holding, MOST_AHEAD)) == MOST_AHEAD


class Stage(Enum):
    """The stage of a transfer that comes; see the head of this file."""

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
    """The ref on this stream; 0: it was not offered on it."""
    durable: int = 0
    marked: int = 0
    """Position of the last mark that is on its way to the disk."""
    told: int = 0
    """The value of `received` in the last ACK."""
    run: int = 0
    """Number of times that it has begun again with its first byte."""
    is_asked: bool = False
    """The sender has asked for its state, before Begun or while it is COMPLETING."""
    is_whole: bool = False
    """WHOLE has come: it has its place in its lane."""
    is_completed: bool = False
    is_placed: bool = False
    """It was completed before a crash."""
    is_handed: bool = False
    """HandOver, or TakeLetters, was said for it."""
    early: list[f.Piece | f.Whole] = field(default_factory=list[f.Piece | f.Whole])
    """Bytes that came before Begun."""

    @property
    def lane(self) -> LaneKey:
        return lane_key(self.offer.sender, self.offer.header)

    @property
    def received(self) -> int:
        return self.chain.position


class Phase(Enum):
    """The phase of a transfer that is sent; see the head of this file."""

    WAITING = "waiting"
    """It waits for a stream, for its turn, or for the end of a rest."""
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
    """While catching up: the position up to which the peer has it."""
    value: bytes = b""
    """While catching up: the value of the chain at the peer, at the last block before the goal."""
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
    """Its turn for the next bytes to be read; 0: it waits for none."""
    in_doubt: bool = False
    """The peer may have all of it."""
    marks: dict[int, Mark] = field(default_factory=dict[int, Mark])
    """Marks at ends of blocks that were read in this life, by position."""
    kept: int = 0
    """Position of the mark that is logged."""
    received: int = 0
    """Bytes that the peer has, as it has said last."""
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
        """Does the peer open files for it?"""
        is_file = any(part.kind is Kind.FILE for part in self.add.parts)
        return self.add.letter is None and (is_file or self.size > LARGEST_INLINE)

    @property
    def is_sent(self) -> bool:
        """Are all bytes sent, and is WHOLE next?"""
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
        """Return the last end of a block of which the value is known, up to the block in which the position lies."""
        last, logged = position // block * block, self.add.mark
        if last in self.marks:
            return self.marks[last]
        return Mark(logged.position - block, logged.before) if 0 < logged.position <= last else Mark()

    def rate(self, now: float) -> float | None:
        """Return bytes a second since SENDING began on this stream; None: nothing of it is sent."""
        if self.phase is not Phase.SENDING or self.chain is None or now <= self.began[0]:
            return None
        return (self.chain.position - self.began[1]) / (now - self.began[0])

    @property
    def sent(self) -> int:
        return self.chain.position if self.chain is not None and self.phase is not Phase.CATCHING_UP else self.goal


LARGEST_RUN: Final = 32 << 10
"""Bytes of the letters of a run, about: other frames go between runs."""


MOST_IDS: Final = 4096
"""Largest number of transfers of which one frame says something."""


def runs_of(states: Mapping[TransferId, V]) -> Iterator[tuple[V, tuple[TransferId, ...]]]:
    """Yield the transfers of one incarnation that have one state, together."""
    found: dict[tuple[V, str, int], list[TransferId]] = {}
    for id, state in states.items():
        found.setdefault((state, id.node, id.incarnation), []).append(id)
    for key, ids in found.items():
        for at in range(0, len(ids), MOST_IDS):
            yield key[0], tuple(ids[at : at + MOST_IDS])


class Letters:
    """Letters that are offered, in the order of their refs, until they are written. `write`: writes a frame."""

    def __init__(self, write: Callable[[f.Frame], None]) -> None:
        self._write_frame = write
        self._common: tuple[str, Header, str, int] | None = None
        """Sender, header, node and incarnation of all of them."""
        self._first = self._size = 0
        """The ref of the first one; bytes of all."""
        self._letters: dict[TransferId, bytes] = {}

    def add(self, ref: int, add: e.Add, body: bytes) -> None:
        common = add.sender, add.header, add.id.node, add.id.incarnation
        if common != self._common or self._size > LARGEST_RUN:
            self.write()
            self._first, self._common = ref, common
        self._letters[add.id] = body
        self._size += len(body)

    def write(self) -> None:
        """Write the letters: before anything else is offered, and at the end of a step."""
        if self._common is not None:
            sender, header, *_ = self._common
            self._write_frame(f.LetterRun(self._first, value_of(self._letters), sender, header, self._letters))
            self._letters, self._common, self._size = {}, None, 0
