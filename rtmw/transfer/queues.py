"""Queues of parked transfers, by receiving service: priority first, then the order in which they were enqueued.

The place of a transfer in its queue follows from its priority and the LSN of its ENQUEUE alone. So an undone TAKE is
back in its place, and so is a transfer that was given back, whatever came meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rtmw.transfer.address import Address, Life
from rtmw.transfer.records import Enqueue, TransferState, is_arriving, is_letter

__all__ = ["NEXT", "Item", "Queue", "next_states", "queue_name"]

Place: TypeAlias = tuple[int, int]

_LOGGED = frozenset(TransferState) - {TransferState.HELD, TransferState.UNKNOWN}
NEXT: Final = {
    TransferState.ACCEPTED: _LOGGED - {TransferState.ACCEPTED},
    TransferState.SENT: _LOGGED - {TransferState.SENT, TransferState.CANCELLED},
    TransferState.DELIVERED: frozenset(
        {TransferState.ACCEPTED, TransferState.CONSUMED, TransferState.REFUSED, TransferState.DEAD}
    ),
    TransferState.DEAD: frozenset({TransferState.ACCEPTED, TransferState.CANCELLED}),
}
"""Which states may follow which, where no transaction has to do with it."""


@dataclass(slots=True)
class Item:
    """A transfer that has not ended."""

    lsn: int
    """Of its ENQUEUE: its number."""
    record: Enqueue
    state: TransferState
    txn: int = 0
    """The open transaction that has sent or taken it; 0: none has."""
    taker: Life | None = None
    deliveries: int = 0
    """How often it was taken, also in transactions that were undone."""
    cause: str = ""
    """Why it is a dead letter, or why it was given back."""
    visible: int = 0
    """LSN of the record that made it visible last: nobody is given it before that is durable."""
    listed: bool = False
    """It has an entry in the queue, in force or not."""

    @property
    def place(self) -> Place:
        return -self.record.header.priority, self.lsn

    def counts_at(self, node: str) -> bool:
        """The half that arrives of what this node carries to itself does not: both are one transfer."""
        return not is_arriving(self.record.id, node)


def next_states(item: Item) -> frozenset[TransferState]:
    """The states that may follow. The state of a transfer for another node is told by that node, and its reports may
    be lost: so any state may follow one that is no end."""
    if item.record.header.to.node and item.state in NEXT:
        return _LOGGED - {item.state}
    return NEXT.get(item.state, frozenset())


def queue_name(to: Address) -> str:
    """`service`, or `service@node` for one of another node."""
    return f"{to.service}@{to.node}" if to.node else to.service


@dataclass(slots=True)
class Queue:
    """The transfers of one service that are ACCEPTED. Entries of others are passed over when they come first."""

    lists: dict[Life | None, dict[int, list[int]]] = field(default_factory=dict[Life | None, dict[int, list[int]]])
    """Those for any receiver, and those for one alone; by priority, the highest first: heaps of LSNs."""

    def _list(self, life: Life | None, priority: int) -> list[int]:
        lists = self.lists.setdefault(life, {})
        if priority not in lists:
            self.lists[life] = lists = dict(sorted([*lists.items(), (priority, [])], reverse=True))
        return lists[priority]

    def put(self, item: Item) -> None:
        if not item.listed:
            item.listed = True
            heapq.heappush(self._list(item.record.life, item.record.header.priority), item.lsn)

    def put_run(self, priority: int, lsns: Iterable[int]) -> None:
        """Of letters for any receiver, which were just enqueued: their LSNs ascend, and are above all others, so a heap
        with them behind it is a heap."""
        self._list(None, priority).extend(lsns)

    def first(self, life: Life | None, items: Mapping[int, Item]) -> Item | None:
        """The first letter that this receiver may have. It stays listed until it is not ACCEPTED any more."""
        heads = [head for one in {None, life} if (head := self._head(one, items)) is not None]
        return items[min(heads)[1]] if heads else None

    def first_letters(self, life: Life, items: Mapping[int, Item], most: int) -> list[Item]:
        """As `first`, the letters that come first and that nobody was handed before, at most so many; none, if this
        receiver is the only one that may have the first transfer, or that is no letter. They stay listed."""
        found: list[Item] = []
        if self._head(life, items) is None:
            while len(found) < most and (place := self._head(None, items)) is not None:
                item = items[place[1]]
                if item.deliveries or not is_letter(item.record.header):
                    break
                found.append(item)
                heapq.heappop(self._list(None, -place[0]))
        for item in found:
            heapq.heappush(self._list(None, item.record.header.priority), item.lsn)
        return found

    def _head(self, life: Life | None, items: Mapping[int, Item]) -> Place | None:
        for priority, lsns in list(self.lists.get(life, {}).items()):
            while lsns:
                item = items.get(lsns[0])
                if item is not None and item.state is TransferState.ACCEPTED:
                    return -priority, lsns[0]
                heapq.heappop(lsns)
                if item is not None:
                    item.listed = False
            del self.lists[life][priority]
        self.lists.pop(life, None)
        return None
