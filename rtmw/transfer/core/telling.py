"""Moves of transfers, told to their senders: gathered over a batch of frames, so that many moves are one frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

from rtmw.transfer.address import Life
from rtmw.transfer.core.effects import Steps, Tell
from rtmw.transfer.core.report import Progress
from rtmw.transfer.events import Moved
from rtmw.transfer.frames import Frame
from rtmw.transfer.messages import Advanced, Move, Moves
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, TransferId, TransferState

__all__ = ["Telling"]

MOST_MOVES: Final = 256
"""With so many transfers that have moved, a frame is full."""


class Seated(Protocol):
    """A member, as far as it can be told something."""

    @property
    def slot(self) -> int: ...


class Telling:
    """Tells all senders of moves. `members`: those that are there now."""

    def __init__(self, members: Mapping[Life, Seated]) -> None:
        self._members = members
        self._moves: dict[Life, list[Move | Advanced]] = {}
        self._logged = False
        """One of the moves has to be durable."""
        self._followers: dict[TransferId, set[Life]] = {}
        """Senders that have sent again what another one had sent with the same id."""

    def gather(self, note: Moved, logged: bool) -> None:
        """Gather moves for their senders, if they live. That a transfer was accepted at first is the answer to its
        Send."""
        items, state, cause = note
        if state is TransferState.ACCEPTED:
            items = [item for item in items if item.record.txn or item.deliveries]
        for (life, *_), same in groupby(items, _origin):
            if life is None:
                continue
            ids = tuple(item.record.id for item in same)
            self._add(life, Move(ids, state, cause), logged)
            for id in ids if self._followers else ():
                is_over = state is None or state in ENDED
                for other in self._followers.pop(id, ()) if is_over else self._followers.get(id, ()):
                    self._add(other, Move((id,), state, cause), logged)

    def _add(self, life: Life, move: Move, logged: bool) -> None:
        if life in self._members:
            self._moves.setdefault(life, []).append(move)
            self._logged |= logged

    def advance(self, item: Item, progress: Progress) -> None:
        """Gather how far a transfer is, for all who are told of it."""
        request, id = item.record.request, item.record.id
        producers = set[Life]() if request is None else {request.producer}
        for life in (producers | self._followers.get(id, set())) & self._members.keys():
            self._moves.setdefault(life, []).append(Advanced(id, progress.got, progress.size))

    def follow(self, id: TransferId, life: Life) -> None:
        """Let a sender be told of this transfer, too."""
        self._followers.setdefault(id, set()).add(life)

    def forget(self, life: Life) -> None:
        """Forget a sender that has left."""
        self._moves.pop(life, None)
        for id in [id for id, lives in self._followers.items() if life in lives]:
            self._followers[id].discard(life)
            if not self._followers[id]:
                del self._followers[id]

    def tell(self) -> Steps:
        """Tell all that was gathered."""
        moves, self._moves = self._moves, {}
        logged, self._logged = self._logged, False
        for life, all in moves.items():
            slot = self._members[life].slot
            for message in _messages(all):
                yield Tell(Frame(life, slot, 0, message), logged)


def _origin(item: Item) -> tuple[Life | None, str, int]:
    """Return who has sent a transfer, and where its id is from; None: nobody of this host."""
    record = item.record
    return record.request and record.request.producer, record.id.node, record.id.incarnation


def _messages(moves: Sequence[Move | Advanced]) -> Iterator[Moves | Advanced]:
    together, count = list[Move](), 0
    for move in (*moves, None):
        if together and (not isinstance(move, Move) or count >= MOST_MOVES):
            yield Moves(tuple(together))
            together, count = [], 0
        if isinstance(move, Move):
            together.append(move)
            count += len(move.ids)
        elif move is not None:
            yield move
