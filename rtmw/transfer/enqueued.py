"""Letters that were enqueued as a run: their common part once, and beside it the sequence and the body of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from struct import Struct

from rtmw.transfer.record_bytes import NUMBER, SEQUENCE, pack
from rtmw.transfer.records import NONE, Enqueue, Request, TransferId

__all__ = ["EnqueuedRun"]


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

    def __iter__(self) -> Iterator[bytes]:
        """As `record_bytes.pack` makes each of them."""
        return self.rows(pack(self.model))

    def rows(self, data: bytes, form: str = "", *columns: Iterable[object]) -> Iterator[bytes]:
        """The records, each behind its values in these columns, which `form` packs. `data`: that of the first one."""
        size = self.model.header.length
        head, middle, tail = data[:SEQUENCE], data[SEQUENCE + 8 : NUMBER], data[NUMBER + 8 : len(data) - size]
        row = Struct(f"<{form}{len(head)}sQ{len(middle)}sQ{len(tail)}s{size}s")
        record = repeat(head), self.sequences, repeat(middle), self._requests(), repeat(tail), self.bodies
        return map(row.pack, *columns, *record)

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
        return Enqueue(NONE, NONE, id, model.header, body, model.sender, request=request)
