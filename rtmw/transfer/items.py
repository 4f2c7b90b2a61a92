"""The transfers that have not ended, by number: most of them as the run in which they were enqueued.

A letter of the common way (`runs`) waits in its queue and has nothing but what its ENQUEUE says. Its `Item` is made
when somebody asks for it; a million letters that nobody has asked for are a million byte strings.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Final, TypeVar, overload

from rtmw.transfer.enqueued import EnqueuedRun
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferState

__all__ = ["Items"]

T = TypeVar("T")

LEAST_BYTES: Final = 128
"""That a transfer takes in a checkpoint beside its body."""


class Items(MutableMapping[int, Item]):
    """Numbers are given out in ascending order, and iteration is in this order. Going through all of them makes all
    of them: use `made` and `runs` where less is needed."""

    def __init__(self) -> None:
        self.made: dict[int, Item] = {}
        self.runs: dict[int, EnqueuedRun] = {}
        """Of each letter that is ACCEPTED, for any receiver, in no transaction, never taken, and whose number made it
        visible; each has its entry in the queue."""
        self.inline_bytes = 0
        """Of all bodies that lie in their records."""

    @property
    def least_bytes(self) -> int:
        """Of these transfers in a checkpoint."""
        return self.inline_bytes + LEAST_BYTES * len(self)

    def put_run(self, run: EnqueuedRun) -> None:
        self.runs.update(dict.fromkeys(run.lsns, run))
        self.inline_bytes += sum(map(len, run.bodies))

    @overload
    def get(self, lsn: int, default: None = None, /) -> Item | None: ...
    @overload
    def get(self, lsn: int, default: Item | T, /) -> Item | T: ...
    def get(self, lsn: int, default: Item | T | None = None, /) -> Item | T | None:
        """Without an exception where there is none: it is asked for each letter, several times."""
        item = self.made.get(lsn)
        if item is None:
            return self._make(lsn) if lsn in self.runs else default
        return item

    def __getitem__(self, lsn: int) -> Item:
        item = self.made.get(lsn)
        return self._make(lsn) if item is None else item

    def _make(self, lsn: int) -> Item:
        record = self.runs.pop(lsn).take(lsn)
        item = self.made[lsn] = Item(lsn, record, TransferState.ACCEPTED, visible=lsn, listed=True)
        return item

    def for_nodes(self) -> list[tuple[int, str]]:
        """Number and node of each transfer that is for another node and in no open transaction, in their order."""
        nodes = [
            *((lsn, item.record.header.to.node, item.state) for lsn, item in self.made.items()),
            *((lsn, run.model.header.to.node, TransferState.ACCEPTED) for lsn, run in self.runs.items()),
        ]
        return sorted((lsn, node) for lsn, node, state in nodes if node and state is not TransferState.HELD)

    def __setitem__(self, lsn: int, item: Item) -> None:
        self.made[lsn] = item
        self.inline_bytes += _size(item)

    def __delitem__(self, lsn: int) -> None:
        self.inline_bytes -= _size(self[lsn])
        del self.made[lsn]

    def __contains__(self, lsn: object) -> bool:
        return lsn in self.made or lsn in self.runs

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self.made, *self.runs]))

    def __len__(self) -> int:
        return len(self.made) + len(self.runs)


def _size(item: Item) -> int:
    """Of its body, if that lies in its record."""
    body = item.record.body
    return 0 if isinstance(body, Spooled) else len(body)
