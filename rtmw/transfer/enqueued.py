"""Letters as runs: `EnqueuedRun` has their common part once, and beside it the sequence and the body of each.

Their headers differ in the length of the body alone. A `ChangeRun` is one object for the records of letters that have
the same state next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, repeat, takewhile
from operator import add, eq
from struct import Struct
from typing import NamedTuple

from rtmw.transfer.address import Life
from rtmw.transfer.header import LENGTH, header_of, resized
from rtmw.transfer.records import (
    ITEM,
    LARGEST_INLINE,
    NONE,
    NUMBER,
    SEQUENCE,
    U64,
    Change,
    Enqueue,
    Request,
    Take,
    TransferId,
    pack,
)

__all__ = ["ChangeRun", "EnqueuedRun", "changes_in", "letters_in", "may_follow"]


@dataclass(slots=True, eq=False)
class EnqueuedRun:
    """A run of letters; iteration yields its ENQUEUE records as bytes. `model`: the record of the first letter."""

    model: Enqueue
    sequences: Sequence[int]
    """The sequences of the letters' ids."""
    bodies: Sequence[bytes]
    """The bodies of the letters; empty, where the letter was taken from the run. Until the first one is taken they may
    be a tuple, which the garbage collector does not go through."""
    lsns: Sequence[int] = ()
    """The LSNs of the records, once they are logged, in ascending order."""

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def is_own(self) -> bool:
        """Did its letters begin in this store? Those of other nodes have no requests."""
        return self.model.request is not None

    @property
    def ids(self) -> tuple[TransferId, ...]:
        """The ids of the letters."""
        first = self.model.id
        return tuple(TransferId(first.node, first.incarnation, sequence) for sequence in self.sequences)

    def __iter__(self) -> Iterator[bytes]:
        """Yield each record as `records.pack` makes it."""
        return self.rows()

    def rows(self, form: str = "", *columns: Iterable[object]) -> Iterator[bytes]:
        """Yield the records, each behind its values in these columns, which `form` packs."""
        head, middle, tail, last = parts = self._common
        row = _row(form, *map(len, parts))
        numbers = repeat(head), self.sequences, repeat(middle), self._requests(), repeat(tail), map(len, self.bodies)
        return map(add, map(row.pack, *columns, *numbers, repeat(last)), self.bodies)

    @property
    def beside_body(self) -> int:
        """Bytes of each record beside its body."""
        return sum(map(len, self._common)) + 3 * U64.size

    @property
    def _common(self) -> _Common:
        model, header = self.model, self.model.header.pack()
        producer = None if model.request is None else model.request.producer
        alike = header[:LENGTH], header[LENGTH + U64.size :]
        return _common(model.id.node, model.id.incarnation, model.sender, producer, *alike)

    def _requests(self) -> Iterable[int]:
        """The numbers of the requests; letters of other nodes have none."""
        request = self.model.request
        return repeat(NONE) if request is None else range(request.number, request.number + len(self))

    def find(self, lsn: int) -> int | None:
        """Return the index of a letter; None: it is not of this run, or was taken."""
        at = bisect_left(self.lsns, lsn)
        return at if at < len(self) and self.lsns[at] == lsn and self.bodies[at] else None

    @property
    def waiting(self) -> list[int]:
        """The LSNs of the letters that nobody has taken."""
        return list(compress(self.lsns, self.bodies))

    def take(self, at: int) -> Enqueue:
        """Return the record of the letter at this index, as `records.unpack` reads it, and give its body away."""
        model, bodies = self.model, self.bodies
        if not isinstance(bodies, list):
            self.bodies = bodies = list(bodies)
        body, bodies[at] = bodies[at], b""
        id = TransferId(model.id.node, model.id.incarnation, self.sequences[at])
        request = None if model.request is None else Request(model.request.producer, model.request.number + at)
        return Enqueue(NONE, NONE, id, resized(model.header, len(body)), body, model.sender, request=request)


class _Common(NamedTuple):
    """What the records of a run have in common: what lies before, between and behind their three numbers."""

    head: bytes
    middle: bytes
    """Between the sequence and the number of the request."""
    tail: bytes
    """Between the number of the request and the length of the body."""
    last: bytes


@lru_cache(maxsize=256)
def _common(node: str, incarnation: int, sender: str, producer: Life | None, front: bytes, back: bytes) -> _Common:
    """Return what letters of one sender have in common; remembered, because senders repeat themselves. `front`, `back`:
    the bytes of their headers before and behind the length."""
    header = header_of(front + U64.pack(1) + back)
    request = None if producer is None else Request(producer, NONE)
    data = pack(Enqueue(NONE, NONE, TransferId(node, incarnation, NONE), header, b"\0", sender, request=request))
    end = len(data) - header.length
    length = end - 1 - len(header.pack()) + LENGTH  # a byte that says where the body lies is behind the header
    parts = data[:SEQUENCE], data[SEQUENCE + U64.size : NUMBER], data[NUMBER + U64.size : length]
    return _Common(*parts, data[length + U64.size : end])


@lru_cache(maxsize=256)
def _row(form: str, head: int, middle: int, tail: int, last: int) -> Struct:
    return Struct(f"<{form}{head}sQ{middle}sQ{tail}sQ{last}s")


def letters_in(first: Enqueue, records: Sequence[bytes]) -> EnqueuedRun:
    """Return the longest run at the front of these records, of which `first` is the first one. Letters of this host
    have their sequences one after the other, as they have their requests."""
    begin = len(records[0]) - first.header.length
    bodies = list(takewhile(_fits, (data[begin:] for data in records)))
    sequences: Sequence[int] = range(first.id.sequence, first.id.sequence + len(bodies))
    if first.request is None:
        sequences = [U64.unpack_from(data, SEQUENCE)[0] for data in records[: len(bodies)]]
    count = sum(takewhile(bool, map(eq, EnqueuedRun(first, sequences, bodies), records)))
    return EnqueuedRun(first, sequences[:count], bodies[:count])


def may_follow(first: Enqueue, one: bytes, other: bytes) -> bool:
    """May the other record be of the run that begins with this one, which is `first`? A quick look: `letters_in`
    compares all of it."""
    length = len(one) - first.header.length - 1 - len(first.header.pack()) + LENGTH
    parts = slice(SEQUENCE + 8, NUMBER), slice(NUMBER + 8, length)
    return all(one[part] == other[part] for part in parts)


def _fits(body: bytes) -> bool:
    """Does the body fit into a record?"""
    return 0 < len(body) <= LARGEST_INLINE


@dataclass(slots=True, eq=False)
class ChangeRun:
    """A run of records of one kind, each of which names one transfer; iteration yields them as bytes."""

    model: Take | Change
    """Any of the records."""
    items: Sequence[int]
    """The number of the transfer of each record."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[bytes]:
        """Yield each record as `records.pack` makes it."""
        data = pack(self.model)
        head, tail = data[:ITEM], data[ITEM + 8 :]
        row = Struct(f"<{ITEM}sQ{len(tail)}s")
        return map(row.pack, repeat(head), self.items, repeat(tail))


def changes_in(first: Take | Change, records: Sequence[bytes]) -> ChangeRun:
    """Return the longest run at the front of these records, of which `first` is the first one."""
    items = [U64.unpack_from(data, ITEM)[0] for data in records if len(data) >= ITEM + 8]
    count = sum(takewhile(bool, map(eq, ChangeRun(first, items), records)))
    return ChangeRun(first, items[:count])
