"""All that a core knows of its transfers, as its log says it: `State.apply` is the only place that changes it.

The same function runs when a record was just logged, and when it is read again after a crash. It checks what it is
told: a record that contradicts those before it raises TransfersDamaged, with its position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from rtmw.transfer.address import Life
from rtmw.transfer.answers import Answers
from rtmw.transfer.effects import Aborted, Came, Effect, Free, Moved, MovedRun
from rtmw.transfer.enqueued import EnqueuedRun
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.items import Items
from rtmw.transfer.once import Ending, Once
from rtmw.transfer.queues import Item, Queue, next_states, queue_name
from rtmw.transfer.records import (
    ENDED,
    NONE,
    Abort,
    Change,
    Checkpoint,
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
    Spooled,
    Start,
    Take,
    TransferId,
    TransferState,
    Undone,
    is_arriving,
    own_id,
)
from rtmw.transfer.seen import Requests, Seen
from rtmw.transfer.table import Phase, SavepointEntry, Transaction

__all__ = ["Ending", "State"]

MOST_ENDS: Final = 4096
"""Transfers of programs of this host whose end is remembered; then the oldest is forgotten."""


class State:
    """See the head of this file."""

    def __init__(self) -> None:
        self.items = Items()
        self.foreign: dict[TransferId, tuple[int, ...]] = {}
        """LSNs by id, of transfers that did not begin in this store: the copies for `service/*` of what came from
        another node share an id."""
        self.owed: dict[TransferId, tuple[TransferState, str]] = {}
        """How transfers of other nodes have ended that have not said that they know it. Of copies: CONSUMED, if all
        were; it holds when none is left."""
        self.queues: dict[str, Queue] = {}
        self.bodies: Counter[str] = Counter()
        """Files of the spool, and how many transfers have each: the copies for `service/*` share one."""
        self.table: dict[int, Transaction] = {}
        self.seen = Seen()
        self.requests = Requests()
        self.answers = Answers()
        self.last_txn = 0
        self.node: str = ""
        """Whose transfers these are."""
        self.incarnation = 0
        """Of the ids that this store gives: when it was made, or found to be a copy, in nanoseconds since 1970."""
        self.incarnations: set[int] = set()
        """It, and those before of which there are transfers yet."""
        self.life = 0
        """How often a core has begun with it."""
        self.sequence = 0
        """Of the last transfer that began here in this life."""
        self.counts: Counter[TransferState] = Counter()
        """Transfers that have ended, by how."""
        self.ends: dict[TransferId, Ending] = {}
        """Of the last ones: the core may end before it has told their senders, who ask the next core."""
        self.once = Once()

    def apply(self, lsn: int, record: Record) -> list[Effect]:
        """Applies a record; gives the effects for others. Raises TransfersDamaged."""
        row = self._row(lsn, record) if record.txn != NONE else None
        effects = list(self._change(lsn, record, row))
        if row is not None:
            row.last_lsn = lsn
        return effects

    def _row(self, lsn: int, record: Record) -> Transaction:
        """Of the record's transaction. The first record of a transaction makes the row."""
        row = self.table.get(record.txn)
        if row is None:
            if record.prev != NONE or not isinstance(record, Enqueue | Take | Savepoint):
                self._wrong(lsn, f"{type(record).__name__} of transaction {record.txn}, which has not begun")
            row = self.table[record.txn] = Transaction(record.txn)
            self.last_txn = max(self.last_txn, record.txn)
        if record.prev != row.last_lsn:
            self._wrong(lsn, f"prevLSN {record.prev}, where transaction {record.txn} was at {row.last_lsn}")
        late = isinstance(record, Clr | End) or (isinstance(record, Abort) and row.phase is Phase.RUNNING)
        if row.phase is not Phase.RUNNING and not late:
            self._wrong(lsn, f"{type(record).__name__} of transaction {record.txn}, which is {row.phase.name}")
        return row

    def _wrong(self, lsn: int, reason: str) -> NoReturn:
        raise TransfersDamaged(f"the record at {lsn} contradicts those before it: {reason}", lsn)

    def _change(self, lsn: int, record: Record, row: Transaction | None) -> Iterator[Effect]:
        match record:
            case Enqueue():
                yield from self._enqueue(lsn, record, row)
            case Take():
                yield from self._take(lsn, record, row)
            case Change():
                yield from self._settle(lsn, record)
            case Start():
                self._start(lsn, record)
            case Forget(producer=producer):
                if self.requests.marks.pop(producer, None) is None:
                    self._wrong(lsn, f"FORGET of {producer}, which has asked for nothing")
                self.answers.forget(producer)
            case Settled(id=id):
                if self.numbers(id) or self.owed.pop(id, None) is None:
                    self._wrong(lsn, f"SETTLED of {id}, whose end nobody waits to know")
            case Checkpoint():
                self._wrong(lsn, "a part of a checkpoint where none was begun")
            case _:
                assert row is not None, "records.unpack lets none pass that has no transaction"
                yield from self._of_transaction(lsn, record, row)

    def _start(self, lsn: int, record: Start) -> None:
        follows = not self.life or (record.node == self.node and record.incarnation >= self.incarnation)
        if record.life <= self.life or not follows:
            self._wrong(lsn, f"life {record.life} of {record.node!r} after {self.life} of {self.node!r}")
        self.node, self.incarnation, self.life, self.sequence = record.node, record.incarnation, record.life, 0
        self.incarnations.add(record.incarnation)

    def _of_transaction(self, lsn: int, record: Record, row: Transaction) -> Iterator[Effect]:
        match record:
            case Savepoint(name=name):
                row.save_list = SavepointEntry(name, lsn, row.save_list)
                row.add_undoable(lsn, Undone.SAVEPOINT, lsn)
            case Release(savepoint=savepoint):
                if all(entry.log_lsn != savepoint for entry in row.savepoints()):
                    self._wrong(lsn, f"transaction {row.txn} has no savepoint {savepoint}")
                row.destroy(savepoint)
            case Clr():
                yield from self._undo(lsn, record, row)
            case Commit(effects=effects, request=request):
                yield from self._commit(lsn, effects, row)
                if request is not None:
                    self.requests.add(request)
            case Abort(cause=cause):
                row.phase, row.save_list = Phase.ABORTING, None
                yield Aborted(row.txn, cause)
            case _:
                if row.phase is Phase.RUNNING or (row.phase is Phase.ABORTING and row.undo_next != NONE):
                    self._wrong(lsn, f"END of transaction {row.txn}, which is {row.phase.name} up to {row.undo_next}")
                del self.table[row.txn]

    # ---- transfers ----

    def _show(self, lsn: int, item: Item) -> Moved:
        """It is ACCEPTED: in its place, for anybody to take."""
        item.state, item.txn, item.taker, item.visible = TransferState.ACCEPTED, NONE, None, lsn
        self.put(item)
        return _moved(item, item.state)

    def put(self, item: Item) -> None:
        """An ACCEPTED transfer stands in its queue."""
        to = item.record.header.to
        self._queue(queue_name(to)).put(item)
        if to.node and to.node == self.node:
            self._queue(to.service).depart(item)
        elif item.sent:
            self._queue(to.service).arrive(item.line, item.sent)

    def _queue(self, name: str) -> Queue:
        return self.queues.get(name) or self.queues.setdefault(name, Queue())

    def pass_over(self, item: Item) -> Iterator[Effect]:
        """No receiver can take it now: what was sent behind it is not held for it. No record says so, since it is found
        anew after a crash."""
        to = item.record.header.to
        if to.node and to.node == self.node and self._queue(to.service).pass_over(item):
            yield Came(to.service)

    def _is_there(self, item: Item) -> Iterator[Effect]:
        """Nothing waits for it any more: it is in its receiver's queue, or has ended."""
        to = item.record.header.to
        if to.node and to.node == self.node:
            queue = self._queue(to.service)
            queue.passed.discard(item.lsn)
            if queue.arrive(item.line, item.lsn):
                yield Came(to.service)

    def hold_again(self, service: str) -> None:
        """A receiver has come that may take what was passed over. That comes, or is passed over again."""
        queue = self._queue(service)
        for item in filter(None, map(self.items.get, list(queue.passed))):
            queue.depart(item)

    def held_for(self, item: Item) -> Item | None:
        """The transfer that was sent before it, and has to come first."""
        queue = self.queues.get(item.record.header.to.service)
        before = queue.before(item) if queue is not None else None
        return None if before is None else self.items.get(before)

    def _go(self, item: Item, state: TransferState | None) -> None:
        """None: it is undone."""
        del self.items[item.lsn]
        self._forget(item)
        if state is not None:
            self.counts[state] += item.counts_at(self.node)
            self._remember(item, state)
            self._owe(item, state)

    def _end(self, item: Item, state: TransferState | None) -> Iterator[Effect]:
        self._go(item, state)
        yield _moved(item, state)
        yield from self._is_there(item)
        body = item.record.body
        if isinstance(body, Spooled):
            self.bodies[body.name] -= 1
            if self.bodies[body.name]:
                return
            del self.bodies[body.name]
        yield Free(item.lsn, body)

    def _remember(self, item: Item, state: TransferState) -> None:
        record = item.record
        if record.request is not None:
            ending = self.ends[record.id] = Ending(state, item.cause, record.request)
            if len(self.ends) > MOST_ENDS:
                del self.ends[next(iter(self.ends))]
            if record.once:
                self.once.end(record.sender, record.once, record.id, ending)

    def _enqueue(self, lsn: int, record: Enqueue, row: Transaction | None) -> Iterator[Effect]:
        if record.copy == 0:
            if self.has_come(record.id):
                self._wrong(lsn, f"transfer {record.id} comes again")
            self.seen.add(record.id)
        if record.request is not None and record.request.number:
            self.requests.add(record.request)
        if self.is_own(record.id):
            self.sequence = max(self.sequence, record.id.sequence & 0xFFFF_FFFF)
        if record.once:
            self.once.add(record.sender, record.once, record.id)
        item = Item(lsn, record, TransferState.HELD, record.txn)
        self.keep(item)
        if row is None:
            yield self._show(lsn, item)
            return
        row.add_undoable(lsn, Undone.ENQUEUE, lsn)
        row.items += 1
        row.bytes += record.header.length

    def apply_run(self, run: EnqueuedRun, request: Request) -> Came:
        """Make the changes of `apply` for the ENQUEUE of each of these own letters. `request`: of the first one."""
        count, first, to = len(run), run.model.id, run.model.header.to
        self.seen.add_run(first, count)
        self.requests.add_run(request, count)
        self.sequence = max(self.sequence, (first.sequence & 0xFFFF_FFFF) + count - 1)
        self.keep_run(run)
        return Came(to.service, to.node, run.lsns if to.node else ())

    def apply_arrivals(self, run: EnqueuedRun, ids: tuple[TransferId, ...]) -> Came:
        """The same of letters that came from another node."""
        for id in ids:
            self.seen.add(id)
        self.keep_run(run)
        return Came(run.model.header.to.service, ids=ids)

    def hand_run(self, items: Sequence[Item], taker: Life) -> MovedRun:
        """The same of the TAKE of each of these letters, outside of transactions."""
        for item in items:
            item.state, item.taker, item.cause = TransferState.DELIVERED, taker, ""
            item.deliveries += 1
        return MovedRun(items, TransferState.DELIVERED)

    def settle_run(self, items: Sequence[Item], state: TransferState) -> MovedRun:
        """The same of the CHANGE of each of these letters, for no cause. They are small, and not ACCEPTED next."""
        for item in items:
            self._come_to(item, state, "")
            if state in ENDED:
                self._go(item, state)
        return MovedRun(items, state)

    def keep_run(self, run: EnqueuedRun) -> None:
        """Letters that wait."""
        header, id = run.model.header, run.model.id
        self.incarnations.update((id.incarnation,) if run.is_own else ())
        if not run.is_own:
            self.foreign.update((id, (lsn,)) for id, lsn in zip(run.ids, run.lsns, strict=True))
        self.note_answer(run.model.request, id, len(run))
        self.items.put_run(run)
        self._queue(queue_name(header.to)).put_run(header.priority, run.lsns)

    def keep(self, item: Item) -> None:
        """A transfer that has not ended."""
        id = item.record.id
        if is_arriving(id, self.node):
            item.sent = max(self.numbers(own_id(id)), default=0)
        self.items[item.lsn] = item
        self.note_answer(item.record.request, id)
        if id.node == self.node and not is_arriving(id, self.node):
            self.incarnations.add(id.incarnation)
            self.items.own[id.sequence] = item.lsn
        else:
            self.foreign[id] = (*self.foreign.get(id, ()), item.lsn)
        if isinstance(item.record.body, Spooled):
            self.bodies[item.record.body.name] += 1

    def note_answer(self, request: Request | None, id: TransferId, count: int = 1) -> None:
        """So many requests have made transfers, for which their producer may ask again. `request`, `id`: the first."""
        if request is not None and request.number and request.producer in self.requests.marks:
            self.answers.add(request, id, count)

    def asked_before(self, request: Request) -> list[TransferId]:
        """The transfers that this request enqueued: those that have not ended, and the last of those that have."""
        return [id for id in self.answers.find(request) if self.numbers(id) or id in self.ends]

    def _forget(self, item: Item) -> None:
        id = item.record.id
        if self.is_own(id):
            del self.items.own[id.sequence]
            return
        left = tuple(lsn for lsn in self.foreign.pop(id) if lsn != item.lsn)
        if left:
            self.foreign[id] = left

    def numbers(self, id: TransferId) -> tuple[int, ...]:
        """LSNs of the transfers with this id that have not ended."""
        if not self.is_own(id):
            return self.foreign.get(id, ())
        lsn = self.items.number_of(id.sequence)
        return () if lsn is None else (lsn,)

    def find(self, id: TransferId) -> Item | None:
        """A transfer that has not ended; of copies the first one."""
        lsns = self.numbers(id)
        return self.items[lsns[0]] if lsns else None

    def has_come(self, id: TransferId) -> bool:
        """Was it enqueued once? What ended, and of which its node knows how, may be forgotten."""
        return id in self.seen or bool(self.numbers(id)) or id in self.owed

    def is_own(self, id: TransferId) -> bool:
        """Did it begin in this store?"""
        return id.node == self.node and id.incarnation in self.incarnations

    def _owe(self, item: Item, state: TransferState) -> None:
        """The node where it began is to be told how it has ended."""
        id = item.record.id
        before = self.owed.get(id, (TransferState.CONSUMED, ""))
        if not self.is_own(id):
            self.owed[id] = (state, item.cause) if before[0] is TransferState.CONSUMED else before

    def _take(self, lsn: int, record: Take, row: Transaction | None) -> Iterator[Effect]:
        item = self.items.get(record.item)
        if item is None or item.state is not TransferState.ACCEPTED:
            self._wrong(lsn, f"TAKE of {record.item}, which is {item.state.name if item else 'not there'}")
        if item.record.life not in (None, record.life):
            self._wrong(lsn, f"TAKE of {record.item} by {record.life}; it is for {item.record.life}")
        item.state, item.taker, item.txn, item.cause = TransferState.DELIVERED, record.life, record.txn, ""
        item.deliveries += 1
        if row is not None:
            row.add_undoable(lsn, Undone.TAKE, record.item)
            row.items += 1
        yield _moved(item, item.state)

    def _settle(self, lsn: int, record: Change) -> Iterator[Effect]:
        item = self.items.get(record.item)
        if item is None or item.txn != NONE or record.state not in next_states(item):
            before = "not there" if item is None else f"{item.state.name}, of transaction {item.txn}"
            self._wrong(lsn, f"transfer {record.item} becomes {record.state.name}; it is {before}")
        self._come_to(item, record.state, record.cause)
        if record.state is TransferState.ACCEPTED:
            yield self._show(lsn, item)
        elif record.state in ENDED:
            yield from self._end(item, record.state)
        else:
            yield _moved(item, item.state)
            yield from self._is_there(item)

    def _come_to(self, item: Item, state: TransferState, cause: str) -> None:
        item.deliveries = 0 if item.state is TransferState.DEAD else item.deliveries
        item.state, item.cause, item.taker = state, cause, item.taker if state is TransferState.DELIVERED else None

    # ---- transactions ----

    def _commit(self, lsn: int, effects: int, row: Transaction) -> Iterator[Effect]:
        if effects != row.items:
            self._wrong(lsn, f"COMMIT of {effects} sends and takes; transaction {row.txn} has {row.items}")
        for entry in row.undoable.values():
            item = self.items.get(entry.item)
            if item is None:  # a savepoint
                continue
            if entry.what is Undone.ENQUEUE:
                yield self._show(lsn, item)
            else:
                yield from self._end(item, TransferState.CONSUMED)
        row.phase, row.save_list, row.undo_next = Phase.COMMITTED, None, NONE
        row.undoable.clear()
        row.items = row.bytes = 0

    def _undo(self, lsn: int, record: Clr, row: Transaction) -> Iterator[Effect]:
        """Takes back a record; UndoNxtLSN goes behind it."""
        entry = row.undoable.get(record.undone)
        same = entry is not None and (entry.what is record.what or (entry.what, record.what) == _DEAD)
        if entry is None or not same or record.undone != row.undo_next or record.undo_next != entry.next:
            self._wrong(lsn, f"{record.what.name} at {record.undone} undone; UndoNxtLSN is {row.undo_next}: {entry}")
        del row.undoable[record.undone]
        row.undo_next = record.undo_next
        if record.what is Undone.SAVEPOINT:
            row.destroy(record.undone)
            return
        row.items -= 1
        item = self.items[entry.item]
        if record.what is Undone.ENQUEUE:
            row.bytes -= item.record.header.length
            if item.record.copy == 0:
                self.seen.discard(item.record.id)
            if item.record.once:
                self.once.discard(item.record.sender, item.record.once, item.record.id)
            yield from self._end(item, None)
        elif record.what is Undone.TAKE:
            yield self._show(lsn, item)
        else:
            item.state, item.txn, item.taker = TransferState.DEAD, NONE, None
            item.cause = f"delivered {item.deliveries} times, and each time undone"
            yield _moved(item, item.state)


def _moved(item: Item, state: TransferState | None) -> Moved:
    return Moved(item.record.id, state, item.cause, item)


_DEAD = (Undone.TAKE, Undone.TAKE_DEAD)
