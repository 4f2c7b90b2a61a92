"""Letters that have the same state next: their records as one object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat, takewhile
from operator import eq
from struct import Struct

from rtmw.transfer.record_bytes import ITEM, U64, pack
from rtmw.transfer.records import Change, Take

__all__ = ["ChangeRun", "changes_in"]


@dataclass(slots=True, eq=False)
class ChangeRun:
    """Goes through its records, of a kind that names one transfer, as bytes."""

    model: Take | Change
    """Any of them."""
    items: Sequence[int]
    """Number of the transfer of each."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[bytes]:
        """As `record_bytes.pack` makes each of them."""
        data = pack(self.model)
        head, tail = data[:ITEM], data[ITEM + 8 :]
        row = Struct(f"<{ITEM}sQ{len(tail)}s")
        return map(row.pack, repeat(head), self.items, repeat(tail))


def changes_in(first: Take | Change, records: Sequence[bytes]) -> ChangeRun:
    """The longest run at the front of these records, of which `first` is the first one."""
    items = [U64.unpack_from(data, ITEM)[0] for data in records if len(data) >= ITEM + 8]
    count = sum(takewhile(bool, map(eq, ChangeRun(first, items), records)))
    return ChangeRun(first, items[:count])
