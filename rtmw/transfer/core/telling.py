"""Moves of transfers, told to their senders: gathered over a batch of frames, so that many moves are one frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

from rtmw.transfer.address import Life
from rtmw.transfer.core.effects import Steps, Tell
from rtmw.transfer.core.report import Progress
from rtmw.transfer.events import Moved, MovedRun
from rtmw.transfer.frames import Frame
from rtmw.transfer.messages import Advanced, Move, Moves, MovesRun
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, TransferId, TransferState

__all__ = ["Telling"]

MOST_MOVES: Final = 256
"""Largest number of moves in one frame."""


class Seated(Protocol):
    """A member, as far as it can be told something."""

    @property
    def slot(self) -> int: ...


class Telling:
    """Tells all senders of moves. `members`: those that are there now."""

    def __init__(self, members: Mapping[Life, Seated]) -> None:
        self._members = members
        self._moves: dict[Life, list[Move | MovesRun | Advanced]] = {}
        self._logged = False
        """One of the moves has to be durable."""
        self._followers: dict[TransferId, set[Life]] = {}
        """Senders that have sent again what another one had sent with the same id."""

    def gather(self, note: Moved, item: Item, logged: bool) -> None:
        """Gather a move for its sender, if that lives. That it was accepted at first is the answer to its Send."""
        request = item.record.request
        is_first = note.state is TransferState.ACCEPTED and not item.record.txn and not item.deliveries
        if request is None or is_first:
            return
        for life in self._meant(request.producer, note):
            if life in self._members:
                self._moves.setdefault(life, []).append(Move(note.id, note.state, note.cause))
                self._logged |= logged

    def gather_run(self, run: MovedRun, logged: bool) -> None:
        if self._followers:
            for note, item in zip(run, run.items, strict=True):
                self.gather(note, item, logged)
            return
        for (life, node, incarnation), same in groupby(run.items, _origin):
            if life is not None and life in self._members:
                sequences = tuple(item.record.id.sequence for item in same)
                self._moves.setdefault(life, []).append(MovesRun(node, incarnation, run.state, sequences))
                self._logged |= logged

    def _meant(self, producer: Life, note: Moved) -> set[Life]:
        if not self._followers:
            return {producer}
        is_over = note.state is None or note.state in ENDED
        followers = self._followers.pop(note.id, set()) if is_over else self._followers.get(note.id, set())
        return followers | {producer}

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


def _messages(moves: Sequence[Move | MovesRun | Advanced]) -> Iterator[Moves | MovesRun | Advanced]:
    alone: list[Move] = []
    for move in moves:
        if isinstance(move, Move):
            alone.append(move)
        if alone and (not isinstance(move, Move) or len(alone) == MOST_MOVES):
            yield Moves(tuple(alone))
            alone = []
        if not isinstance(move, Move):
            yield move
    if alone:
        yield Moves(tuple(alone))
