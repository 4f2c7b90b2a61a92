"""Inboxes take letters of a core, and settle them, within transactions or without.

`Handing` finds the letter that a receiver is handed next, of both machines, and has its form as it is handed over.
`Owners` knows whose the open transactions are, and what their programs ask of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from rtmw.errors import LogFull
from rtmw.transfer import messages
from rtmw.transfer.address import Life
from rtmw.transfer.core.effects import Do, Steps, failed, tell
from rtmw.transfer.errors import TransactionAborted, TransferRefused
from rtmw.transfer.events import (
    AbortTransaction,
    CommitTransaction,
    DestroySavepoint,
    Event,
    RollBack,
    SetSavepoint,
    SettleTransfers,
    TakeTransfers,
)
from rtmw.transfer.frames import LARGEST_BYTES, Frame
from rtmw.transfer.header import Delivery, Header
from rtmw.transfer.machine import Machine
from rtmw.transfer.messages import Done, Handed, HandedRun, Settle, Settled, Take
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Request, Spooled, TransferState, own_id
from rtmw.transfer.store import Machines, is_volatile

__all__ = ["Handing", "Owners", "Receiving", "transaction_event"]


def _kind(item: Item) -> tuple[Header, str, str, int]:
    record = item.record
    return record.header, record.sender, record.id.node, record.id.incarnation


class Handing:
    """Hands letters of one core to receivers. `path`: the file of a body in the spool, as programs find it."""

    def __init__(self, machines: Machines, path: Callable[[Spooled], Path]) -> None:
        self._machines, self._path = machines, path
        self._turn = False

    def head(self, service: str, life: Life, txn: int) -> Item | None:
        """Return the first transfer of both machines: priority decides, then they take turns. A transaction takes what
        is logged, since only that can be undone. None: there is none."""
        machines = (self._machines.logged,) if txn else (self._machines.logged, self._machines.volatile)
        found: list[Item] = []
        for machine in machines:
            queue = machine.state.queues.get(service)
            head = queue.first(life, machine.state.items) if queue is not None else None
            if head is not None:
                found.append(head)
        if len(found) == 2 and found[0].place[0] == found[1].place[0]:
            self._turn = not self._turn
            return found[self._turn]
        return min(found, key=lambda item: item.place[0]) if found else None

    def has_one_machine(self, service: str, life: Life) -> bool:
        """Is all that this receiver may have in the machine that has the first one?"""
        machines = self._machines.logged, self._machines.volatile
        queues = [(machine.state.queues.get(service), machine.state.items) for machine in machines]
        return sum(queue is not None and queue.first(life, items) is not None for queue, items in queues) == 1

    def handed_all(self, items: Sequence[Item]) -> Iterator[Handed | HandedRun]:
        """Yield messages that hand over these letters: one for those in a row that have one sender and header."""
        if len(items) == 1:
            yield self.handed(items[0])
            return
        for (header, sender, node, incarnation), same in groupby(items, key=_kind):
            letters = [(one.lsn, one.record.id.sequence, one.record.body) for one in same]
            for at in range(0, len(letters), most := max(1, LARGEST_BYTES // header.length)):
                yield HandedRun(node, incarnation, sender, header, tuple(letters[at : at + most]))  # type: ignore[arg-type]

    def handed(self, item: Item) -> Handed:
        """Return the message that hands over a letter: a small body in memory, a large one as a file."""
        record, body = item.record, item.record.body
        if isinstance(body, Spooled):
            path = self._path(body)
            body = path.read_bytes() if body.size <= LARGEST_BYTES else Spooled(str(path), body.size)
        id = own_id(record.id) if record.id.node == self._machines.logged.state.node else record.id
        return Handed(item.lsn, item.deliveries - 1, id, record.sender, record.header, body)


class Owners:
    """The programs that own the open transactions of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._lives: dict[int, Life] = {}

    def begin(self, txn: int, life: Life) -> None:
        self._lives[txn] = life

    def check(self, frame: Frame, txn: int) -> None:
        """Raises TransactionAborted, unless the transaction is of the process that has sent the frame."""
        owner = self._lives.get(txn)
        if owner is None:
            self._machine.check_undone(txn)
        if owner is None or (owner.pid, owner.start) != (frame.life.pid, frame.life.start):
            raise TransactionAborted(
                f"transaction {txn} is not open: it was committed or undone, or its core was started anew; begin "
                "a new one"
            )

    def of(self, txn: int) -> Life | None:
        return self._lives.get(txn)

    def end(self, txn: int) -> None:
        self._lives.pop(txn, None)

    def leave(self, life: Life) -> None:
        """Forget the transactions of a program that has left; they are undone."""
        self._lives = {txn: owner for txn, owner in self._lives.items() if owner != life}


def transaction_event(frame: Frame) -> Event:
    """Return the event that a program asks for of its transaction. Raises ValueError: it asks for none."""
    match frame.message:
        case messages.Savepoint(txn=txn, name=name):
            return SetSavepoint(txn, name or None)
        case messages.RollBack(txn=txn, savepoint=savepoint):
            return RollBack(txn, savepoint)
        case messages.Release(txn=txn, savepoint=savepoint):
            return DestroySavepoint(txn, savepoint)
        case messages.Commit(txn=txn):
            return CommitTransaction(txn, Request(frame.life, frame.number))
        case messages.Abort(txn=txn):
            return AbortTransaction(txn)
        case _:
            raise ValueError(f"{type(frame.message).__name__} is nothing that a program says to its core")


class Named(Protocol):
    """A member, as far as it can take."""

    @property
    def name(self) -> str: ...


class Receiving:
    """Serves all inboxes. `members`: those that are there now; `handing`: says which transfer is next."""

    def __init__(self, members: Mapping[Life, Named], machines: Machines, handing: Handing, owners: Owners) -> None:
        self._members, self._machines, self._handing, self._owners = members, machines, handing, owners
        self._waiting: dict[str, deque[Frame]] = {}
        """The Takes that wait, by service."""
        self._stalled: set[str] = set()
        """Services for which a full disk let nothing be taken."""
        self.redelivered = 0
        """Number of letters that were handed over once more."""

    def forget(self, life: Life, service: str) -> None:
        """Forget the Takes of an inbox that has left."""
        waiting = self._waiting.get(service)
        if waiting is not None:
            self._waiting[service] = deque(frame for frame in waiting if frame.life != life)

    def take(self, frame: Frame, take: Take) -> Steps:
        if take.txn:
            self._owners.check(frame, take.txn)
        service, count = self._members[frame.life].name, 0
        try:
            count = yield from self._hand(frame, take)
        except LogFull:
            if not take.waits:
                raise
            self._stalled.add(service)
        if count or not take.waits:
            yield tell(frame, Done(count))
        else:
            self._waiting.setdefault(service, deque()).append(frame)

    def untake(self, frame: Frame, take: int) -> Steps:
        waiting = self._waiting.get(self._members[frame.life].name, deque())
        for one in list(waiting):
            if (one.life, one.number) == (frame.life, take):
                waiting.remove(one)
                yield tell(one, Done(0))

    def _hand(self, frame: Frame, take: Take) -> Generator[Any, Any, int]:
        """Hand over letters, and return how many. A letter that comes again comes alone: letters behind it must not
        share its fate if it ends its receiver. If a full disk has no room for as many, fewer are taken. Raises LogFull:
        it lets none be taken."""
        service, count, most = self._members[frame.life].name, 0, take.most
        while count < take.most and (head := self._handing.head(service, frame.life, take.txn)) is not None:
            if count and head.deliveries:
                break
            try:
                items = yield from self._take(head, frame, take, min(most, take.most - count))
            except LogFull:
                most //= 2
                if most:
                    continue
                if count:
                    break
                raise
            count += len(items)
            if items and items[0].deliveries > 1:
                break
        return count

    def _take(self, head: Item, frame: Frame, take: Take, most: int) -> Generator[Any, Any, Sequence[Item]]:
        """Hand over what comes first in the machine of the first one: that alone, if what is in the other machine may
        come between; none, if its time was over."""
        service, logged = self._members[frame.life].name, not is_volatile(head.lsn)
        most = most if self._handing.has_one_machine(service, frame.life) else 1
        items: Sequence[Item] = yield Do(TakeTransfers(service, frame.life, take.txn, most), logged)
        self.redelivered += sum(item.deliveries > 1 for item in items)
        for message in self._handing.handed_all(items):
            yield tell(frame, message, logged)
        raws = [item.lsn for item in items if item.record.header.delivery is Delivery.SMALL_RAW]
        if raws:
            yield Do(SettleTransfers(raws, TransferState.CONSUMED), logged)
        return items

    def serve(self, service: str) -> Steps:
        """Hand over what has come for this service: the inbox that has waited longest is first."""
        waiting = self._waiting.get(service)
        for frame in list(waiting or ()):
            assert isinstance(frame.message, Take)
            try:
                count = yield from self._hand(frame, frame.message)
            except LogFull:
                self._stalled.add(service)
                return
            if count and waiting is not None:
                waiting.remove(frame)
                yield tell(frame, Done(count))

    def serve_stalled(self) -> Steps:
        """Serve the services for which a full disk let nothing be taken: there may be room again."""
        stalled, self._stalled = self._stalled, set()
        for service in stalled:
            yield from self.serve(service)

    def settle(self, frame: Frame, settle: Settle) -> Steps:
        """Settle letters, in one step of each machine. One that is gone was settled before a crash that lost the
        answer: no other receiver can have had it meanwhile."""
        volatile = [item for item in settle.items if is_volatile(item)]
        logged = [item for item in settle.items if not is_volatile(item)] if volatile else settle.items
        refused: dict[int, str] = {}
        for items, is_logged in ((logged, True), (volatile, False)):
            if items:
                state = TransferState(settle.state)
                refused.update((yield Do(SettleTransfers(items, state, settle.cause, frame.life), is_logged)))
        failures = [
            (index, failed(TransferRefused(refused[item])))
            for index, item in enumerate(settle.items if refused else ())
            if item in refused and item in self._machines.of(item).state.items
        ]
        yield tell(frame, Settled(tuple(failures)), bool(logged))
