"""The transfers that have not ended, by number: most of them as the run in which they were enqueued.

A letter of the common way (`runs`) waits in its queue and has nothing but what its ENQUEUE says. Its `Item` is made
when somebody asks for it; a million letters that nobody has asked for are a million byte strings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, MutableMapping
from itertools import compress
from typing import Final, TypeVar, overload

from rtmw.transfer.enqueued import EnqueuedRun
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Enqueue, Spooled, TransferState

__all__ = ["Items"]

T = TypeVar("T")

LEAST_BYTES: Final = 128
"""That a transfer takes in a checkpoint beside its body."""


class Runs:
    """Runs of letters that wait, in the order of their numbers. Between two letters of a run lie no others. The ids of
    this store's own letters are in the same order, and each run of them has ids one after the other."""

    def __init__(self) -> None:
        self._runs: list[EnqueuedRun] = []
        self._firsts: list[int] = []
        """The first number of each."""
        self._left: list[int] = []
        """How many letters of each nobody has taken."""
        self._own: list[EnqueuedRun] = []
        """Those of this store's own letters."""
        self._sequences: list[int] = []
        """The first sequence of each of these."""
        self.letters = 0
        """That nobody has taken."""

    def put(self, run: EnqueuedRun) -> None:
        """Its numbers are above all others."""
        self._runs.append(run)
        self._firsts.append(run.lsns[0])
        self._left.append(len(run))
        self.letters += len(run)
        if run.is_own:
            self._own.append(run)
            self._sequences.append(run.sequences[0])

    def _find(self, lsn: int) -> tuple[int, int] | None:
        """The indexes of the run and of the letter in it."""
        at = bisect_right(self._firsts, lsn) - 1
        index = self._runs[at].find(lsn) if at >= 0 else None
        return None if index is None else (at, index)

    def take(self, lsn: int) -> Enqueue | None:
        """The record of a letter, which is taken; None: there is no such letter."""
        place = self._find(lsn)
        if place is None:
            return None
        at, index = place
        record = self._runs[at].take(index)
        self.letters -= 1
        self._left[at] -= 1
        if not self._left[at]:
            self._drop(at)
        return record

    def _drop(self, at: int) -> None:
        run = self._runs[at]
        del self._runs[at], self._firsts[at], self._left[at]
        if run.is_own:
            own = bisect_left(self._sequences, run.sequences[0])
            del self._own[own], self._sequences[own]

    def waiting(self) -> Iterator[tuple[EnqueuedRun, int, int]]:
        """Each run, how many of its letters nobody has taken, and the number of the first of these."""
        for run, left in zip(self._runs, self._left, strict=True):
            yield run, left, next(compress(run.lsns, run.bodies))

    def number_of(self, sequence: int) -> int | None:
        """Of the own letter whose id has this sequence; None: there is none, or it was taken."""
        at = bisect_right(self._sequences, sequence) - 1
        if at < 0:
            return None
        run, index = self._own[at], sequence - self._sequences[at]
        return run.lsns[index] if index < len(run) and run.bodies[index] else None

    def __contains__(self, lsn: int) -> bool:
        return self._find(lsn) is not None

    def __iter__(self) -> Iterator[EnqueuedRun]:
        return iter(self._runs)


class Items(MutableMapping[int, Item]):
    """Numbers are given out in ascending order, and iteration is in this order. Going through all of them makes all
    of them: use `made` and `runs` where less is needed."""

    def __init__(self) -> None:
        self.made: dict[int, Item] = {}
        self.own: dict[int, int] = {}
        """The numbers of those in `made` that began in this store, by the sequences of their ids."""
        self.runs = Runs()
        """Of each letter that is ACCEPTED, for any receiver, in no transaction, never taken, and whose number made it
        visible; each has its entry in the queue."""
        self.inline_bytes = 0
        """Of all bodies that lie in their records."""

    @property
    def least_bytes(self) -> int:
        """Of these transfers in a checkpoint."""
        return self.inline_bytes + LEAST_BYTES * len(self)

    def put_run(self, run: EnqueuedRun) -> None:
        self.runs.put(run)
        self.inline_bytes += sum(map(len, run.bodies))

    @overload
    def get(self, lsn: int, default: None = None, /) -> Item | None: ...
    @overload
    def get(self, lsn: int, default: Item | T, /) -> Item | T: ...
    def get(self, lsn: int, default: Item | T | None = None, /) -> Item | T | None:
        """Without an exception where there is none: it is asked for each letter, several times."""
        return self.made.get(lsn) or self._make(lsn) or default

    def __getitem__(self, lsn: int) -> Item:
        item = self.get(lsn)
        if item is None:
            raise KeyError(lsn)
        return item

    def _make(self, lsn: int) -> Item | None:
        record = self.runs.take(lsn)
        if record is None:
            return None
        item = self.made[lsn] = Item(lsn, record, TransferState.ACCEPTED, visible=lsn, listed=True)
        if record.request is not None:
            self.own[record.id.sequence] = lsn
        return item

    def number_of(self, sequence: int) -> int | None:
        """Of the transfer that began in this store with this sequence; None: it has ended, or never was."""
        return self.own.get(sequence) or self.runs.number_of(sequence)

    def for_nodes(self) -> list[tuple[int, str]]:
        """Number and node of each transfer that is for another node and in no open transaction, in their order."""
        nodes = [
            *((lsn, item.record.header.to.node, item.state) for lsn, item in self.made.items()),
            *((lsn, run.model.header.to.node, TransferState.ACCEPTED) for run in self.runs for lsn in run.waiting),
        ]
        return sorted((lsn, node) for lsn, node, state in nodes if node and state is not TransferState.HELD)

    def __setitem__(self, lsn: int, item: Item) -> None:
        self.made[lsn] = item
        self.inline_bytes += _size(item)

    def __delitem__(self, lsn: int) -> None:
        self.inline_bytes -= _size(self[lsn])
        del self.made[lsn]

    def __contains__(self, lsn: object) -> bool:
        return isinstance(lsn, int) and (lsn in self.made or lsn in self.runs)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self.made, *(lsn for run in self.runs for lsn in run.waiting)]))

    def __len__(self) -> int:
        return len(self.made) + self.runs.letters


def _size(item: Item) -> int:
    """Of its body, if that lies in its record."""
    body = item.record.body
    return 0 if isinstance(body, Spooled) else len(body)
