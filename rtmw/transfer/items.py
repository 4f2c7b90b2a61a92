"""The transfers that have not ended, by number: most of them as the bytes of the record that has enqueued them.

A letter of the common way (`runs`) waits in its queue and has nothing but what its ENQUEUE says. Its `Item` is made
when somebody asks for it, by the reader that recovery uses, so the two cannot differ; a million letters that nobody
has asked for are a million byte strings.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence

from rtmw.transfer.queues import Item
from rtmw.transfer.record_bytes import unpack
from rtmw.transfer.records import Enqueue, TransferState

__all__ = ["Items"]


class Items(MutableMapping[int, Item]):
    """Numbers are given out in ascending order, and iteration is in this order. Going through all of them makes all
    of them: use `made` and `rows` where less is needed."""

    def __init__(self) -> None:
        self.made: dict[int, Item] = {}
        self.rows: dict[int, bytes] = {}
        """Records of letters that are ACCEPTED, for any receiver, in no transaction, never taken, and whose number made
        them visible; each has its entry in the queue."""
        self.row_bytes = 0
        """Of the bodies of `rows`."""

    def put_rows(self, lsns: Sequence[int], rows: Sequence[bytes], body_bytes: int) -> None:
        """`body_bytes`: of all bodies together."""
        self.rows.update(zip(lsns, rows, strict=True))
        self.row_bytes += body_bytes

    def __getitem__(self, lsn: int) -> Item:
        item = self.made.get(lsn)
        return self._make(lsn) if item is None else item

    def _make(self, lsn: int) -> Item:
        record = unpack(self.rows.pop(lsn), lsn)
        assert isinstance(record, Enqueue), "rows are records of letters"
        self.row_bytes -= record.header.length
        item = self.made[lsn] = Item(lsn, record, TransferState.ACCEPTED, visible=lsn, listed=True)
        return item

    def __setitem__(self, lsn: int, item: Item) -> None:
        self.made[lsn] = item

    def __delitem__(self, lsn: int) -> None:
        self[lsn]
        del self.made[lsn]

    def __contains__(self, lsn: object) -> bool:
        return lsn in self.made or lsn in self.rows

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self.made, *self.rows]))

    def __len__(self) -> int:
        return len(self.made) + len(self.rows)
