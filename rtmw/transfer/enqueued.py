"""Letters that were enqueued as a run: their common part once, and beside it the sequence and the body of each.

Their headers differ in the length of the body alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat, takewhile
from operator import add, eq
from struct import Struct

from rtmw.transfer.header import LENGTH, resized
from rtmw.transfer.record_bytes import NUMBER, SEQUENCE, U64, pack
from rtmw.transfer.records import LARGEST_INLINE, NONE, Enqueue, Request, TransferId

__all__ = ["EnqueuedRun", "letters_in", "may_follow"]


@dataclass(slots=True, eq=False)
class EnqueuedRun:
    """Goes through its ENQUEUE records as bytes. `model`: that of the first letter."""

    model: Enqueue
    sequences: Sequence[int]
    """Of the ids of the letters."""
    bodies: list[bytes]
    """Empty: of a letter that was taken from the run."""
    lsns: Sequence[int] = ()
    """Of the records, once they are logged, in ascending order."""

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def ids(self) -> tuple[TransferId, ...]:
        """Of its letters."""
        first = self.model.id
        return tuple(TransferId(first.node, first.incarnation, sequence) for sequence in self.sequences)

    def __iter__(self) -> Iterator[bytes]:
        """As `record_bytes.pack` makes each of them."""
        return self.rows(pack(self.model))

    def rows(self, data: bytes, form: str = "", *columns: Iterable[object]) -> Iterator[bytes]:
        """The records, each behind its values in these columns, which `form` packs. `data`: that of the first one."""
        header = self.model.header
        end = len(data) - header.length
        length = end - 1 - len(header.pack()) + LENGTH  # a byte that says where the body lies is behind the header
        head, middle, tail, last = data[:SEQUENCE], data[SEQUENCE + 8 : NUMBER], data[NUMBER + 8 : length], length + 8
        row = Struct(f"<{form}{len(head)}sQ{len(middle)}sQ{len(tail)}sQ{end - last}s")
        numbers = repeat(head), self.sequences, repeat(middle), self._requests(), repeat(tail), map(len, self.bodies)
        return map(add, map(row.pack, *columns, *numbers, repeat(data[last:end])), self.bodies)

    def _requests(self) -> Sequence[int]:
        """The numbers of the requests; letters of other nodes have none."""
        request = self.model.request
        return [NONE] * len(self) if request is None else range(request.number, request.number + len(self))

    def take(self, lsn: int) -> Enqueue:
        """The record of a letter, as `record_bytes.unpack` reads it; the run gives its body away."""
        at, model = bisect_left(self.lsns, lsn), self.model
        body, self.bodies[at] = self.bodies[at], b""
        id = TransferId(model.id.node, model.id.incarnation, self.sequences[at])
        request = None if model.request is None else Request(model.request.producer, model.request.number + at)
        return Enqueue(NONE, NONE, id, resized(model.header, len(body)), body, model.sender, request=request)


def letters_in(first: Enqueue, records: Sequence[bytes]) -> EnqueuedRun:
    """The longest run at the front of these records, of which `first` is the first one. Letters of this host have their
    sequences one after the other, as they have their requests."""
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
    """Into a record."""
    return 0 < len(body) <= LARGEST_INLINE
