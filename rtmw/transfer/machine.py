"""The transfers of a core, without I/O: `step(event, now)` is a generator of effects; it returns the answer.

A step looks, decides, and logs what it has decided (`Append`); what it logged changes the state (`State.apply`).
Nothing else does, so a step that cannot log changes nothing. One step runs at a time, to its end.

Undoing goes as in ARIES: backwards by UndoNxtLSN, a compensation record (CLR) for each record, none for a CLR. A
rollback to a savepoint, an abort and the restart after a crash use the same steps, and each of them may be interrupted
anywhere: what has its CLR in the log is not undone again.

A run is letters of one sender, whose requests and ids are numbered one after the other. Their headers are one, or those
of one sender on this host differ in their length alone. They go the common way: for any receiver of a service, a BUF
that lies in its record, in no transaction, without a lifetime and without an id of the sender. One ENQUEUE has all of
them. Letters for another node go there as runs, and come as runs.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from rtmw.transfer.address import Life, check_receiver, lives_meant
from rtmw.transfer.duplicates import LARGEST_SEQUENCE
from rtmw.transfer.errors import TransactionAborted, TransferRefused
from rtmw.transfer.events import (
    Aborted,
    AbortTransaction,
    Append,
    BeginTransaction,
    CommitTransaction,
    DestroySavepoint,
    EndsConfirmed,
    Event,
    Now,
    PassOver,
    ReceiverJoined,
    ReceiverLeft,
    RollBack,
    SendTransfers,
    Sent,
    SetSavepoint,
    SettleTransfers,
    Steps,
    TakeTransfers,
    Tick,
)
from rtmw.transfer.header import Delivery, Header
from rtmw.transfer.limits import Limits
from rtmw.transfer.queues import Item, next_states
from rtmw.transfer.records import (
    LARGEST_INLINE,
    NONE,
    Abort,
    AbortCause,
    Change,
    Clr,
    Commit,
    End,
    Enqueue,
    Forget,
    Record,
    Release,
    Request,
    Savepoint,
    Settled,
    Take,
    TransferId,
    TransferState,
    Undone,
    is_plain,
)
from rtmw.transfer.state import Phase, State, Transaction

__all__ = [
    "Machine",
    "abort",
    "append",
    "confirm_ends",
    "undo_losers",
    "undo_until",
    "undone",
]


_CAUSES: Final = {
    AbortCause.ASKED: "its program asked for it",
    AbortCause.AGE: "it was open for too long",
    AbortCause.SIZE: "it became too large",
    AbortCause.ENDED: "its program has ended",
    AbortCause.RESTART: "the core was started anew",
}


def undone(txn: int, cause: AbortCause) -> TransactionAborted:
    """Return the error for a program whose transaction the core has undone."""
    return TransactionAborted(f"transaction {txn} was undone, because {_CAUSES[cause]}; begin a new one")


def append(state: State, *records: Record) -> Steps[list[int]]:
    """Log records in one batch, and apply them. Returns their LSNs."""
    lsns = yield Append(records)
    assert lsns is not None, "the driver of a step answers an Append with the LSNs of its records"
    for lsn, record in zip(lsns, records, strict=True):
        yield from state.apply(lsn, record)
    return list(lsns)


def undo_until(state: State, row: Transaction, lsn: int, deliveries: int) -> Steps[None]:
    """Undo what the transaction logged behind this LSN."""
    while row.undo_next > lsn:
        entry = row.undoable[row.undo_next]
        what = entry.what
        if what is Undone.TAKE and state.items[entry.item].deliveries >= deliveries:
            what = Undone.TAKE_DEAD
        yield from append(state, Clr(row.txn, row.last_lsn, row.undo_next, entry.next, what))


def abort(state: State, row: Transaction, cause: AbortCause, deliveries: int) -> Steps[None]:
    """Undo all of a transaction; goes on where an abort was interrupted."""
    if row.phase is Phase.RUNNING:
        yield from append(state, Abort(row.txn, row.last_lsn, cause))
    yield from undo_until(state, row, NONE, deliveries)
    yield from append(state, End(row.txn, row.last_lsn))


def undo_losers(state: State, deliveries: int) -> Steps[None]:
    """End the transactions that a crash has interrupted: what was committed is ended, and all else undone, the youngest
    one first.

    ARIES undoes in one sweep backwards over all transactions, because they may have changed the same pages. A transfer
    is held by one transaction at a time, so here they may go one by one.
    """
    for row in sorted(state.table.values(), key=lambda row: -row.txn):
        if row.phase is Phase.COMMITTED:
            yield from append(state, End(row.txn, row.last_lsn))
        else:
            yield from abort(state, row, AbortCause.RESTART, deliveries)


def confirm_ends(state: State, ids: Collection[TransferId]) -> Steps[None]:
    """Log in one batch that the node where these transfers began knows their ends."""
    ended = [Settled(id) for id in ids if id in state.owed and not state.numbers(id)]
    if ended:
        yield from append(state, *ended)


def _why_not(item: Item | None, lsn: int, event: SettleTransfers) -> str:
    """Return why a transfer cannot change its state so."""
    if item is None:
        return f"there is no transfer {lsn}; it has ended, or never was"
    if item.txn:
        return f"transfer {item.record.id} is in the open transaction {item.txn}; end that first"
    if event.by not in (None, item.taker):
        return f"transfer {item.record.id} is not {event.by}'s: {item.taker or 'nobody'} has taken it"
    return f"transfer {item.record.id} is {item.state.name}, and cannot become {event.state.name}"


@dataclass(slots=True)
class _Open:
    """State of a transaction that is not in the log."""

    owner: Life | None
    begun_ns: int
    """Time of the monotonic clock."""
    broken: bool = False
    """The disk became full in the middle of a send: it can only be undone."""


class Machine:
    """The transfers of a core; see the head of this file. `state`: what recovery has left, after its START is
    logged."""

    def __init__(self, state: State, limits: Limits | None = None) -> None:
        self.state = state
        self.limits = limits or Limits()
        self.open: dict[int, _Open] = {}
        self.receivers: dict[str, set[Life]] = {}
        self.carried: set[int] = set()
        """Numbers of transfers that another node may have: that node says how they end, even by their lifetime."""
        self._aborted: dict[int, AbortCause] = {}
        """Why the core has undone transactions, for their owners; the last ones."""
        self._deadlines = [
            (item.record.deadline_ns, lsn) for lsn, item in state.items.made.items() if item.record.deadline_ns
        ]
        heapq.heapify(self._deadlines)
        self._last_txn = state.last_txn

    def step(self, event: Event, now: Now) -> Steps[object]:
        """Return the step of an event. The step raises ValueError, TransferRefused, TransactionAborted; then nothing
        was done but what the error says."""
        match event:
            case BeginTransaction(owner=owner):
                return self._begin(owner, now)
            case SendTransfers():
                return self._send(event, now)
            case TakeTransfers():
                return self._take(event, now)
            case SettleTransfers():
                return self._settle(event)
            case SetSavepoint(txn=txn, name=name):
                return self._savepoint(txn, name)
            case RollBack(txn=txn, to=to):
                return self._roll_back(txn, to)
            case DestroySavepoint(txn=txn, savepoint=savepoint):
                return self._release(txn, savepoint)
            case CommitTransaction(txn=txn, request=request):
                return self._commit(txn, request)
            case AbortTransaction(txn=txn):
                return self._abort(txn, AbortCause.ASKED)
            case ReceiverJoined():
                return self._join(event)
            case ReceiverLeft(life=life):
                return self._leave(life)
            case Tick():
                return self._tick(now)
            case EndsConfirmed(ids=ids):
                return confirm_ends(self.state, ids)
            case PassOver(item=item):
                return self._pass_over(item)

    # ---- transactions ----

    def _begin(self, owner: Life | None, now: Now) -> Steps[int]:
        if len(self.open) >= self.limits.transactions:
            raise TransferRefused(f"{len(self.open)} transactions are open, and no more may be; end one of them")
        self._last_txn += 1
        self.open[self._last_txn] = _Open(owner, now.monotonic_ns)
        return self._last_txn
        yield  # a step is a generator, also one that does nothing

    def _row(self, txn: int) -> Transaction:
        """Return the row of a transaction that is open and may go on. Raises ValueError, TransactionAborted."""
        if txn not in self.open:
            self.check_undone(txn)
            raise ValueError(f"there is no open transaction {txn}; it has been committed or undone, or never was")
        row = self.row(txn)
        if row.phase is not Phase.RUNNING or self.open[txn].broken:
            raise TransactionAborted(f"transaction {txn} is being undone; begin a new one")
        return row

    def check_undone(self, txn: int) -> None:
        """Raises TransactionAborted, with the cause, if it is one of the last that the core has undone."""
        if txn in self._aborted:
            raise undone(txn, self._aborted[txn])

    def row(self, txn: int) -> Transaction:
        """Return the transaction's row of the transaction table; an empty one, if nothing was logged for it yet."""
        return self.state.table.get(txn) or Transaction(txn)

    def age_ns(self, txn: int, monotonic_ns: int) -> int:
        return monotonic_ns - self.open[txn].begun_ns

    def _row_with_room(self, txn: int, more: int = 0) -> Steps[Transaction]:
        """Return the row of a transaction. One that would become larger than it may is undone: TransactionAborted."""
        row = self._row(txn)
        if len(row.undoable) < self.limits.transaction_records and row.bytes + more <= self.limits.transaction_bytes:
            return row
        had = f"{len(row.undoable)} records and {row.bytes + more} bytes"
        yield from self._abort(txn, AbortCause.SIZE)
        raise TransactionAborted(
            f"transaction {txn} was undone, because it became too large: {had}, where "
            f"{self.limits.transaction_records} and {self.limits.transaction_bytes} are possible; commit more often"
        )

    def _savepoint(self, txn: int, name: str | None) -> Steps[int]:
        row = yield from self._row_with_room(txn)
        chosen = f"savepoint {sum(1 for _ in row.savepoints()) + 1}" if name is None else name
        (lsn,) = yield from append(self.state, Savepoint(txn, row.last_lsn, chosen))
        return lsn

    def _roll_back(self, txn: int, to: str | int) -> Steps[None]:
        row = self._row(txn)
        lsn = NONE if to == NONE else row.find(to).log_lsn
        yield from undo_until(self.state, row, lsn, self.limits.deliveries)

    def _release(self, txn: int, savepoint: str | int) -> Steps[None]:
        row = self._row(txn)
        yield from append(self.state, Release(txn, row.last_lsn, row.find(savepoint).log_lsn))

    def _commit(self, txn: int, request: Request | None) -> Steps[None]:
        if request is not None and request in self.state.requests:
            return
        row = self._row(txn)
        if txn not in self.state.table:
            del self.open[txn]
            return
        held = [entry.item for entry in row.undoable.values()]
        yield from append(self.state, Commit(txn, row.last_lsn, row.items, request))
        del self.open[txn]
        yield from append(self.state, End(txn, row.last_lsn))
        for item in [self.state.items[lsn] for lsn in held if lsn in self.state.items]:
            to, life = item.record.header.to, item.record.life
            if life is not None and life not in self.receivers.get(to.service, ()):
                yield from append(self.state, self._bury(item, life))

    def _bury(self, item: Item, life: Life) -> Change:
        return Change((item.lsn,), TransferState.DEAD, f"its receiver {life} has ended")

    def _abort(self, txn: int, cause: AbortCause) -> Steps[None]:
        if txn not in self.open:
            self._row(txn)
        row = self.state.table.get(txn)
        if row is None:
            yield Aborted(txn, cause)  # nothing of it is in the log
        else:
            yield from abort(self.state, row, cause, self.limits.deliveries)
        del self.open[txn]
        if cause is not AbortCause.ASKED:
            self._aborted[txn] = cause
            while len(self._aborted) > self.limits.transactions:
                del self._aborted[next(iter(self._aborted))]

    # ---- transfers ----

    def _send(self, event: SendTransfers, now: Now) -> Steps[Sent]:
        before = self._sent_before(event)
        if before is not None:
            return Sent(1, before, is_new=False)
        header = replace(event.header, delivery=Delivery.LOG) if event.txn else event.header
        if event.txn and event.header.delivery is Delivery.SMALL_RAW:
            raise ValueError("SMALL_RAW in a transaction is not possible, because it is not logged; use Delivery.LOG")
        if event.is_carried or (header.to.node and self.is_here(header.to.node)):
            header = replace(header, to=replace(header.to, node=self._carried_to(event)))
        count = min(self._room(event), self._together(event, header))
        lives = lives_meant(header.to, self.receivers)
        ids = [event.ids[0] if event.ids else self._own_id(number) for number in range(len(lives))]
        deadline = now.wall_ns + header.lifetime_ns if header.lifetime_ns else NONE
        bodies = tuple(event.bodies[:count])
        others = tuple([id.sequence for id in event.ids[1:count]]) if event.ids else ()
        enqueues: list[Enqueue] = []
        for number, (id, life) in enumerate(zip(ids, lives, strict=True)):
            copy = number if event.ids else 0
            told = (id, header, bodies, event.sender, life, deadline, copy, event.request, event.once, others)
            enqueues.append(Enqueue(event.txn, NONE, *told))
        if event.txn:
            lsns = yield from self._enqueue_in(event.txn, enqueues)
        else:
            lsns = yield from append(self.state, *enqueues)
        if deadline:
            for lsn in lsns:
                heapq.heappush(self._deadlines, (deadline, lsn))
        return Sent(count, ids)

    def _sent_before(self, event: SendTransfers) -> list[TransferId] | None:
        """Return the transfers that the first body has made before; None: it is new. TransferRefused: another open
        transaction has made them, which may be undone."""
        if event.ids and self.state.has_come(event.ids[0]):
            return []
        if event.request is not None and event.request.number and event.request in self.state.requests:
            return self.state.asked_before(event.request)
        entry = self.state.once.find(event.sender, event.once) if event.once else None
        if entry is None:
            return None
        for item in filter(None, map(self.state.find, entry.ids)):
            if item.state is TransferState.HELD and item.txn != event.txn:
                raise TransferRefused(
                    f"this id was sent in transaction {item.txn}, which is open; send it again when that has ended"
                )
        return list(entry.ids)

    def _room(self, event: SendTransfers) -> int:
        """Return how many transfers may be parked beside those that are: one at least. Raises TransferRefused."""
        room = self.limits.parked - len(self.state.items)
        if room <= 0:
            raise TransferRefused(
                f"{len(self.state.items)} transfers are parked, and no more may be; take some of them"
            )
        if event.ids:
            self.state.seen.check(event.ids[0])
        return room

    def _together(self, event: SendTransfers, header: Header) -> int:
        """Return how many of the bodies, from the first one on, go into one record; see the head of this file."""
        bodies, ids, state = event.bodies, event.ids, self.state
        if len(bodies) == 1 or event.txn or event.once or event.is_carried or not is_plain(header):
            return 1
        if max(map(len, cast("Sequence[bytes]", bodies))) > LARGEST_INLINE:
            return 1
        if ids:
            is_known = ids[0].node == state.node or header.to.node or max(ids).sequence > LARGEST_SEQUENCE
            return 1 if is_known or any(map(state.has_come, ids[1:])) else len(bodies)
        return len(bodies) if event.request is not None and state.requests.is_new(event.request) else 1

    def _enqueue_in(self, txn: int, enqueues: list[Enqueue]) -> Steps[list[int]]:
        """Log ENQUEUEs one by one: each names the one before it. The transaction makes them visible together."""
        lsns: list[int] = []
        yield from self._row_with_room(txn, sum(one.header.length for one in enqueues))
        try:
            for one in enqueues:
                lsns += yield from append(self.state, replace(one, prev=self.row(txn).last_lsn))
        finally:
            if 0 < len(lsns) < len(enqueues):
                self.open[txn].broken = True
        return lsns

    def _own_id(self, number: int) -> TransferId:
        state = self.state
        return TransferId(state.node, state.incarnation, (state.life << 32) + state.sequence + 1 + number)

    def is_here(self, node: str) -> bool:
        return node in ("", self.state.node)

    def _carried_to(self, event: SendTransfers) -> str:
        """Return the node that is to carry the transfer, which may be this one; empty: nobody has to."""
        return (event.header.to.node or self.state.node) if event.is_carried else ""

    def _take(self, event: TakeTransfers, now: Now) -> Steps[list[Item]]:
        check_receiver(event.life, event.service, self.receivers)
        prev, queue, items = NONE, self.state.queues.get(event.service), self.state.items
        if event.txn:
            row = yield from self._row_with_room(event.txn)
            prev = row.last_lsn
        most = 1 if event.txn else event.most
        while queue is not None and (found := queue.front(event.life, items, most)):
            if 0 < found[0].record.deadline_ns <= now.wall_ns:
                yield from append(self.state, Change((found[0].lsn,), TransferState.EXPIRED))
                continue
            yield from append(self.state, Take(event.txn, prev, [item.lsn for item in found], event.life))
            return found
        return []

    def _pass_over(self, number: int) -> Steps[None]:
        item = self.state.items.get(number)
        if item is not None:
            yield from self.state.pass_over(item)

    def _settle(self, event: SettleTransfers) -> Steps[dict[int, str]]:
        refused: dict[int, str] = {}
        outcome = wanted, _ = event.state, event.cause
        changes: dict[tuple[TransferState, str], list[int]] = {}
        get, by = self.state.items.get, event.by
        for lsn in event.items:
            item = get(lsn)
            if item is None or item.txn or by not in (None, item.taker) or wanted not in next_states(item):
                refused[lsn] = _why_not(item, lsn, event)
                continue
            if wanted is TransferState.ACCEPTED:
                outcome = self._outcome(item, wanted, event.cause)
            changes.setdefault(outcome, []).append(lsn)
        if changes:
            yield from append(self.state, *[Change(lsns, *outcome) for outcome, lsns in changes.items()])
        return refused

    def _outcome(self, item: Item, wanted: TransferState, cause: str) -> tuple[TransferState, str]:
        """Return `wanted`, or DEAD for a letter that was given back too often; and its cause."""
        back = wanted is TransferState.ACCEPTED and item.state is TransferState.DELIVERED and item.taker is not None
        if back and item.deliveries >= self.limits.deliveries:
            cause = f"delivered {item.deliveries} times, and each time given back{': ' if cause else ''}{cause}"
            return TransferState.DEAD, cause
        return wanted, cause

    # ---- receivers and time ----

    def _join(self, event: ReceiverJoined) -> Steps[None]:
        self.receivers.setdefault(event.service, set()).add(event.life)
        if event.takes_files:
            self.state.hold_again(event.service)
        return
        yield  # a step is a generator, also one that does nothing

    def _leave(self, life: Life) -> Steps[None]:
        for service in [service for service, lives in self.receivers.items() if life in lives]:
            self.receivers[service].discard(life)
            if not self.receivers[service]:
                del self.receivers[service]
        for txn in [txn for txn, open in self.open.items() if open.owner == life]:
            yield from self._abort(txn, AbortCause.ENDED)
        for _, item in sorted(self.state.items.made.items()):
            if item.txn:
                continue
            if item.record.life == life and item.state in (TransferState.ACCEPTED, TransferState.DELIVERED):
                yield from append(self.state, self._bury(item, life))
            elif item.taker == life and item.state is TransferState.DELIVERED:
                back = self._outcome(item, TransferState.ACCEPTED, f"its receiver {life} has ended")
                yield from append(self.state, Change((item.lsn,), *back))
        if life in self.state.requests.marks:
            yield from append(self.state, Forget(life))

    def lives_named(self) -> set[Life]:
        """Return the receivers that have transfers, or that transfers name, and the producers. Whether they live is
        asked after a restart."""
        items: Iterable[Item] = self.state.items.made.values()
        receivers = {life for item in items for life in (item.record.life, item.taker) if life is not None}
        return receivers | set(self.state.requests.marks)

    def _tick(self, now: Now) -> Steps[list[int]]:
        carried = yield from self._expire(now)
        for row in [row for row in self.state.table.values() if row.phase is Phase.COMMITTED]:
            yield from append(self.state, End(row.txn, row.last_lsn))
        for txn, open in list(self.open.items()):
            is_old = self.age_ns(txn, now.monotonic_ns) > self.limits.transaction_age * 1e9
            if is_old or open.broken or self.row(txn).phase is Phase.ABORTING:
                yield from self._abort(txn, AbortCause.AGE if is_old else AbortCause.ASKED)
        return carried

    def _expire(self, now: Now) -> Steps[list[int]]:
        """Expire transfers whose lifetime is over. Returns those that another node may have: it has to say how they
        end. One whose end cannot be logged expires at the next tick."""
        later: list[tuple[int, int]] = []
        try:
            while self._deadlines and self._deadlines[0][0] <= now.wall_ns:
                lsn = self._deadlines[0][1]
                item = self.state.items.get(lsn)
                if item is not None and item.state is not TransferState.DEAD:
                    if item.txn or item.state is TransferState.DELIVERED or lsn in self.carried:
                        later.append(self._deadlines[0])  # it expires if it comes back
                    else:
                        yield from append(self.state, Change((lsn,), TransferState.EXPIRED))
                heapq.heappop(self._deadlines)
        finally:
            for entry in later:
                heapq.heappush(self._deadlines, entry)
        return [lsn for _, lsn in later if lsn in self.carried]
