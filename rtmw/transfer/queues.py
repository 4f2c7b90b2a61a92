"""Queues of parked transfers, by receiving service: priority first, then the order in which they were enqueued.

The place of a transfer in its queue follows from its priority and the LSN of its ENQUEUE alone. So an undone TAKE is
back in its place, and so is a transfer that was given back, whatever came meanwhile.

A node carries files to itself, and they come into the queue when they are in the receiver's folder. Their place is that
of their sending. What the same sender has sent behind them, with the same priority, is held until then, or until they
are passed over because no receiver can take them now.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from rtmw.transfer.address import Address, Life
from rtmw.transfer.records import NONE, Enqueue, TransferState, is_arriving, is_letter

__all__ = ["NEXT", "Item", "Queue", "Run", "next_states", "queue_name"]

Place: TypeAlias = tuple[int, int]
Line: TypeAlias = tuple[str, str, int]
"""Node, sender and priority: transfers of one line come in the order of sending."""

_LOGGED = frozenset(TransferState) - {TransferState.HELD, TransferState.UNKNOWN}
NEXT: Final = {
    TransferState.ACCEPTED: _LOGGED - {TransferState.ACCEPTED},
    TransferState.SENT: _LOGGED - {TransferState.SENT, TransferState.CANCELLED},
    TransferState.DELIVERED: frozenset(
        {TransferState.ACCEPTED, TransferState.CONSUMED, TransferState.REFUSED, TransferState.DEAD}
    ),
    TransferState.DEAD: frozenset({TransferState.ACCEPTED, TransferState.CANCELLED}),
}
"""The states that may follow a state, where no transaction has to do with it."""


@dataclass(slots=True, eq=False)
class Run:
    """The letters of one ENQUEUE, of which some have not ended."""

    lsn: int
    record: Enqueue
    bodies: Sequence[bytes]
    """The bodies, which are those of the record; empty, where the letter has ended. Until the first one ends they may
    be a tuple, which the garbage collector does not go through."""
    left: int
    """Number of letters that have not ended."""
    asked: int = 0
    """Number of those that have an `Item`."""

    def index(self, lsn: int) -> int | None:
        """Return the index of a letter; None: it is not of this run, or has ended."""
        at = lsn - self.lsn
        return at if 0 <= at < len(self.bodies) and self.bodies[at] else None

    def end(self, lsn: int) -> None:
        """Give the body of a letter away, which has an `Item` and ends."""
        if not isinstance(self.bodies, list):
            self.bodies = list(self.bodies)
            self.record = replace(self.record, bodies=self.bodies)
        self.bodies[lsn - self.lsn] = b""
        self.left -= 1
        self.asked -= 1

    @property
    def waiting(self) -> Iterator[int]:
        """The numbers of the letters that have not ended."""
        return (lsn for lsn, body in enumerate(self.bodies, self.lsn) if body)

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Yield the letters in a row that have not ended: the indexes of the first one, and behind the last one."""
        if self.left == len(self.bodies):
            yield 0, self.left
            return
        begin = None
        for at, body in enumerate((*self.bodies, b"")):
            if body and begin is None:
                begin = at
            elif not body and begin is not None:
                yield begin, at
                begin = None


@dataclass(slots=True)
class Item:
    """A transfer that has not ended."""

    lsn: int
    """The number of the transfer: the LSN of its ENQUEUE and its index there."""
    record: Enqueue
    """Its ENQUEUE, as it would be for it alone."""
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
    sent: int = 0
    """LSN of the ENQUEUE of its sending half, if this is what the node has carried to itself; else 0."""
    run: Run | None = None
    """The letters with which it came; None: it came alone."""

    @property
    def is_untouched(self) -> bool:
        """Is it as its ENQUEUE alone has left it?"""
        is_new = self.state is TransferState.ACCEPTED and self.visible == self.lsn and not self.deliveries
        return is_new and self.txn == NONE and not self.cause

    @property
    def place(self) -> Place:
        return -self.record.header.priority, self.sent or self.lsn

    @property
    def line(self) -> Line:
        return self.record.id.node, self.record.sender, self.record.header.priority

    def counts_at(self, node: str) -> bool:
        """Is it counted at this node? The arriving half is not, of what a node carries to itself: both are one."""
        return not is_arriving(self.record.id, node)


def next_states(item: Item) -> frozenset[TransferState]:
    """Return the states that may follow. The state of a transfer for another node is told by that node, and its reports
    may be lost: so any state may follow one that is no end."""
    if item.record.header.to.node and item.state in NEXT:
        return _LOGGED - {item.state}
    return NEXT.get(item.state, frozenset())


def queue_name(to: Address) -> str:
    """Return `service`, or `service@node` for a queue of another node."""
    return f"{to.service}@{to.node}" if to.node else to.service


@dataclass(slots=True)
class Queue:
    """The transfers of one service that are ACCEPTED. Entries of others are passed over when they come first."""

    lists: dict[Life | None, dict[int, list[int]]] = field(default_factory=dict[Life | None, dict[int, list[int]]])
    """LSNs, as in `place`, of transfers for any receiver, and of those for one alone: a heap for each priority, the
    highest priority first."""
    carried: dict[tuple[Life | None, int], int] = field(default_factory=dict[tuple[Life | None, int], int])
    """Numbers of transfers that the node has carried to itself, by whom they are for and the LSN in their place."""
    on_the_way: dict[Line, list[int]] = field(default_factory=dict[Line, list[int]])
    """Numbers of transfers that the node carries to itself for this service."""
    passed: set[int] = field(default_factory=set[int])
    """Numbers of transfers that the node would carry, and that no receiver can take now."""
    held: dict[Line, list[tuple[int, Life | None]]] = field(default_factory=dict[Line, list[tuple[int, "Life | None"]]])
    """Heaps of transfers that had come first and are behind those: the LSN in their place, and whom they are for."""

    def _list(self, life: Life | None, priority: int) -> list[int]:
        lists = self.lists.setdefault(life, {})
        if priority not in lists:
            self.lists[life] = lists = dict(sorted([*lists.items(), (priority, [])], reverse=True))
        return lists[priority]

    def put(self, item: Item) -> None:
        if not item.listed:
            item.listed = True
            life, (_, lsn) = item.record.life, item.place
            if item.sent:
                self.carried[life, lsn] = item.lsn
            heapq.heappush(self._list(life, item.record.header.priority), lsn)

    def put_run(self, priority: int, lsns: Iterable[int]) -> None:
        """List letters for any receiver that were just enqueued. Their LSNs ascend, and are above all others, so a heap
        with them behind it is a heap."""
        self._list(None, priority).extend(lsns)

    # ---- what the node carries to itself ----

    def before(self, item: Item) -> int | None:
        """Return the number of the first transfer on the way for which this one is held; None: there is none."""
        lsn = item.place[1]
        first = self.on_the_way.get(item.line, (lsn,))[0]
        return first if first < lsn else None

    def depart(self, item: Item) -> None:
        """Note that a transfer is on its way: those behind it are held."""
        self.passed.discard(item.lsn)
        numbers = self.on_the_way.setdefault(item.line, [])
        if item.lsn not in numbers:
            insort(numbers, item.lsn)

    def pass_over(self, item: Item) -> bool:
        """Pass over a transfer that no receiver can take now. Returns what `arrive` does."""
        self.passed.add(item.lsn)
        return self.arrive(item.line, item.lsn)

    def arrive(self, line: Line, number: int) -> bool:
        """Note that what was on its way has come, or will not come. Are others let go by that?"""
        numbers = self.on_the_way.get(line, [])
        if number not in numbers:
            return False
        numbers.remove(number)
        held, had = self.held.get(line, []), len(self.held.get(line, ()))
        while held and (not numbers or held[0][0] < numbers[0]):
            lsn, life = heapq.heappop(held)
            heapq.heappush(self._list(life, line[-1]), lsn)
        if not numbers:
            del self.on_the_way[line]
            self.held.pop(line, None)
        return len(held) < had

    # ---- taking ----

    def first(self, life: Life | None, items: Mapping[int, Item]) -> Item | None:
        """Return the first letter that this receiver may have. It stays listed until it is not ACCEPTED any more."""
        heads = [head for one in {None, life} if (head := self._head(one, items)) is not None]
        return min(heads, key=lambda item: item.place) if heads else None

    def front(self, life: Life, items: Mapping[int, Item], most: int) -> list[Item]:
        """Return the first transfer that this receiver may have, and those behind it, at most `most`, as far as all of
        them are letters for any receiver that nobody was handed before. They stay listed."""
        first = item = self.first(life, items)
        if first is None or most == 1 or self._head(life, items) is not None:
            return [] if first is None else [first]
        found: list[Item] = []
        while item is not None and not item.deliveries and is_letter(item.record.header):
            found.append(item)
            heapq.heappop(self._list(None, item.record.header.priority))
            item = self._head(None, items) if len(found) < most else None
        for item in found:
            heapq.heappush(self._list(None, item.record.header.priority), item.place[1])
        return found or [first]

    def _head(self, life: Life | None, items: Mapping[int, Item]) -> Item | None:
        for priority, lsns in list(self.lists.get(life, {}).items()):
            while lsns:
                item = items.get(self.carried.get((life, lsns[0]), lsns[0]) if self.carried else lsns[0])
                if item is not None and item.state is TransferState.ACCEPTED:
                    if not self.on_the_way or self.before(item) is None:
                        return item
                    heapq.heappush(self.held.setdefault(item.line, []), (heapq.heappop(lsns), life))
                    continue
                self.carried.pop((life, heapq.heappop(lsns)), None)
                if item is not None:
                    item.listed = False
            del self.lists[life][priority]
        self.lists.pop(life, None)
        return None
