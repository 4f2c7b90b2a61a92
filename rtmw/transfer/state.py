"""All that a core knows of its transfers, as its log says it: `State.apply` is the only place that changes it.

The same function runs when a record was just logged, and when it is read again after a crash. It checks what it is
told: a record that contradicts those before it raises TransfersDamaged, with its position.

`Items` has the transfers that have not ended, by number. Letters that came together (records.py) wait in their queue
and have nothing but what their ENQUEUE says. The `Item` of one is made when somebody asks for it; a million letters
that nobody has asked for are a million byte strings.

`Answers` has the ids that the core has given to what its programs have sent, by request: a program asks again for what
was not answered when its core ended. Only the last requests of each producer are kept. Answers go to a process in the
order of the log, and it sends no more while 1,024 of its requests are without one (docs/formats/transfer-queues.md), so
what is asked again is among the last ones of its producer.

The transaction table is the paper's (T10): TxnID, State, LastLSN, UndoNxtLSN, SaveList; savepoints: Spname, LogLsn,
Prev. For each record that can be undone the row also keeps what undoing it needs, so that a rollback reads no log. The
limits of a transaction bound that. The order of undoing follows from UndoNxtLSN alone: to the record that it names,
then to that one's predecessor. A CLR sets it behind what the CLR has undone, so nothing is undone twice, whenever a
crash comes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Final, NamedTuple, NoReturn, TypeVar, overload

from rtmw.transfer.address import Address, Life
from rtmw.transfer.duplicates import Ending, Once, Requests, Seen
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.events import Aborted, Came, Effect, Free, Moved
from rtmw.transfer.queues import Item, Queue, Run, next_states, queue_name
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

__all__ = ["MOST_ANSWERS", "Answers", "Ending", "Phase", "SavepointEntry", "State", "Transaction", "Undoable"]


class Phase(IntEnum):
    """The paper's State: "running, committed or aborting"."""

    RUNNING = 0
    COMMITTED = 1
    ABORTING = 2


@dataclass(frozen=True, slots=True)
class SavepointEntry:
    """The paper's savepoint structure."""

    spname: str
    log_lsn: int
    """LSN of its SAVEPOINT record: what the transaction logged after it has a larger one."""
    prev: SavepointEntry | None


class Undoable(NamedTuple):
    """A record that can be undone."""

    what: Undone
    item: int
    """LSN of the ENQUEUE of the transfer; for a savepoint, its own LSN."""
    next: int
    """LSN of the record that is undone next after it; 0: there is none."""


@dataclass(slots=True)
class Transaction:
    """A row of the table."""

    txn: int
    phase: Phase = Phase.RUNNING
    last_lsn: int = NONE
    undo_next: int = NONE
    save_list: SavepointEntry | None = None
    """The newest savepoint."""
    undoable: dict[int, Undoable] = field(default_factory=dict[int, Undoable])
    """The records that can be undone, by LSN."""
    bytes: int = 0
    """Bytes of the bodies that it has sent."""
    items: int = 0
    """Number of sends and takes that were not undone."""

    def savepoints(self) -> Iterator[SavepointEntry]:
        """Yield the savepoints, the newest one first."""
        entry = self.save_list
        while entry is not None:
            yield entry
            entry = entry.prev

    def find(self, wanted: str | int) -> SavepointEntry:
        """Return the newest savepoint of this name, or the one with this LogLsn. ValueError: there is none.

        The paper's loop for this compares no names, and so it finds none ever (docs/design/transfer.md).
        """
        for entry in self.savepoints():
            if wanted == (entry.log_lsn if isinstance(wanted, int) else entry.spname):
                return entry
        names = ", ".join(repr(entry.spname) for entry in self.savepoints()) or "none"
        raise ValueError(f"transaction {self.txn} has no savepoint {wanted!r}; it has {names}")

    def add_undoable(self, lsn: int, what: Undone, item: int) -> None:
        """Note that a record was logged that can be undone."""
        self.undoable[lsn] = Undoable(what, item, self.undo_next)
        self.undo_next = lsn

    def destroy(self, log_lsn: int) -> None:
        """Destroy the savepoint with this LogLsn, and those after it."""
        while self.save_list is not None and self.save_list.log_lsn >= log_lsn:
            self.save_list = self.save_list.prev


MOST_ANSWERS: Final = 4096
"""`Answers` keeps at least this many runs of requests of each producer, and at most twice as many."""


class _Asked(NamedTuple):
    """Requests one after the other, whose transfers have ids one after the other."""

    number: int
    end: int
    """The number behind the last one."""
    first: TransferId
    copies: int = 1
    """Number of transfers of the request, if the run is one request; their ids follow one after the other."""

    def is_before_copy(self, other: _Asked) -> bool:
        """Is the transfer of the other run the next copy of this request?"""
        is_same = self.number == other.number and self.end == other.end == self.number + 1
        return is_same and other.first == _behind(self.first, self.copies)


def _behind(id: TransferId, count: int) -> TransferId:
    return TransferId(id.node, id.incarnation, id.sequence + count)


_number_of: Final = attrgetter("number")


class Answers:
    """The transfers of requests, by producer that lives. A producer's runs are in the order of their numbers. Copies
    for `service/*` are one run of one number, or several runs, if their ids do not follow one after the other."""

    def __init__(self) -> None:
        self._runs: dict[Life, list[_Asked]] = {}

    def add(self, request: Request, first: TransferId, count: int = 1) -> None:
        """Add the transfers of `count` requests in a row. `request` and `first` (an id) are those of the first."""
        runs, run = self._runs.setdefault(request.producer, []), _Asked(request.number, request.number + count, first)
        if runs and runs[-1].is_before_copy(run):
            runs[-1] = runs[-1]._replace(copies=runs[-1].copies + 1)
        elif runs and runs[-1].number > run.number:
            insort(runs, run, key=_number_of)
        else:
            runs.append(run)
        if len(runs) > 2 * MOST_ANSWERS:
            del runs[:-MOST_ANSWERS]

    def find(self, request: Request) -> list[TransferId]:
        """Return the transfers of a request; none: it is not among the last ones, or was a COMMIT. The time does not
        grow with the number of transfers."""
        runs, number, ids = self._runs.get(request.producer, []), request.number, list[TransferId]()
        at = bisect_right(runs, number, key=_number_of) - 1
        while at >= 0 and number < runs[at].end:
            first = _behind(runs[at].first, number - runs[at].number)
            ids += (_behind(first, copy) for copy in range(runs[at].copies))
            at -= 1
        return sorted(ids)

    def forget(self, producer: Life) -> None:
        """Forget a producer that has ended: it asks for nothing again."""
        self._runs.pop(producer, None)


T = TypeVar("T")

LEAST_BYTES: Final = 128
"""Bytes that a transfer takes in a checkpoint beside its body, at least."""


class Runs:
    """Runs of letters, in the order of their numbers. Between two letters of a run lie no others. The ids of this
    store's own letters are in the same order, and each run of them has ids one after the other."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._firsts: list[int] = []
        """The LSN of each run."""
        self._own: list[Run] = []
        """The runs of this store's own letters."""
        self._sequences: list[int] = []
        """The first sequence of each run in `_own`."""
        self.letters = 0
        """Number of letters that have not ended."""

    def put(self, run: Run) -> None:
        """Add a run whose numbers are above all others."""
        self._runs.append(run)
        self._firsts.append(run.lsn)
        self.letters += run.left
        if run.record.request is not None:
            self._own.append(run)
            self._sequences.append(run.record.id.sequence)

    def find(self, lsn: int) -> tuple[Run, int] | None:
        """Return the run of a letter, and its index there; None: there is no such letter."""
        at = bisect_right(self._firsts, lsn) - 1
        index = self._runs[at].index(lsn) if at >= 0 else None
        return None if index is None else (self._runs[at], index)

    def end(self, run: Run, lsn: int) -> None:
        """End a letter."""
        run.end(lsn)
        self.letters -= 1
        if not run.left:
            at = bisect_left(self._firsts, run.lsn)
            del self._runs[at], self._firsts[at]
            if run.record.request is not None:
                own = bisect_left(self._sequences, run.record.id.sequence)
                del self._own[own], self._sequences[own]

    def number_of(self, sequence: int) -> int | None:
        """Return the number of the own letter whose id has this sequence; None: there is none, or it has ended."""
        at = bisect_right(self._sequences, sequence) - 1
        if at < 0:
            return None
        lsn = self._own[at].lsn + sequence - self._sequences[at]
        return None if self._own[at].index(lsn) is None else lsn

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)


class Items(MutableMapping[int, Item]):
    """Numbers are given out in ascending order, and iteration is in this order. Going through all of them makes all
    of them: use `made` and `waiting` where less is needed."""

    def __init__(self) -> None:
        self.made: dict[int, Item] = {}
        self.own: dict[int, int] = {}
        """The numbers of those that came alone and began in this store, by the sequences of their ids."""
        self.runs = Runs()
        """Letters that came together. Each has its entry in the queue."""
        self.inline_bytes = 0
        """Bytes of all bodies that lie in their records."""
        self._count = 0

    @property
    def least_bytes(self) -> int:
        """Bytes that these transfers take in a checkpoint, at least."""
        return self.inline_bytes + LEAST_BYTES * (self._count - self.runs.letters + len(self.runs))

    def put_run(self, run: Run) -> None:
        self.runs.put(run)
        self.inline_bytes += sum(map(len, run.bodies))
        self._count += run.left

    @overload
    def get(self, lsn: int, default: None = None, /) -> Item | None: ...
    @overload
    def get(self, lsn: int, default: Item | T, /) -> Item | T: ...
    def get(self, lsn: int, default: Item | T | None = None, /) -> Item | T | None:
        """Return the transfer with this number, or `default`. It does not raise: it is called often."""
        return self.made.get(lsn) or self._make(lsn) or default

    def __getitem__(self, lsn: int) -> Item:
        item = self.get(lsn)
        if item is None:
            raise KeyError(lsn)
        return item

    def _make(self, lsn: int) -> Item | None:
        found = self.runs.find(lsn)
        if found is None:
            return None
        run, at = found
        run.asked += 1
        item = Item(lsn, run.record.letter(at), TransferState.ACCEPTED, visible=lsn, listed=True, run=run)
        self.made[lsn] = item
        return item

    def number_of(self, sequence: int) -> int | None:
        """Return the number of the transfer that began here with this sequence; None: it has ended, or never was."""
        return self.own.get(sequence) or self.runs.number_of(sequence)

    def waiting(self) -> Iterator[tuple[Address, int, int]]:
        """Yield for each run with letters for which nobody has asked: to whom they are, how many there are, and the
        number of the first of them."""
        for run in self.runs:
            if run.asked < run.left:
                first = next(lsn for lsn in run.waiting if lsn not in self.made)
                yield run.record.header.to, run.left - run.asked, first

    def for_nodes(self) -> list[tuple[int, str]]:
        """Return number and node of each transfer for another node that is in no open transaction, sorted by number."""
        nodes = {
            lsn: run.record.header.to.node for run in self.runs if run.record.header.to.node for lsn in run.waiting
        }
        nodes.update((lsn, item.record.header.to.node) for lsn, item in self.made.items())
        held = {lsn for lsn, item in self.made.items() if item.state is TransferState.HELD}
        return sorted((lsn, node) for lsn, node in nodes.items() if node and lsn not in held)

    def __setitem__(self, lsn: int, item: Item) -> None:
        self._count += lsn not in self
        self.made[lsn] = item
        self.inline_bytes += _size(item)

    def __delitem__(self, lsn: int) -> None:
        item = self.made.pop(lsn)
        self._count -= 1
        if item.run is not None:
            self.inline_bytes -= item.record.header.length
            self.runs.end(item.run, lsn)
        else:
            self.inline_bytes -= _size(item)

    def __contains__(self, lsn: object) -> bool:
        return isinstance(lsn, int) and (lsn in self.made or self.runs.find(lsn) is not None)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({*self.made, *(lsn for run in self.runs for lsn in run.waiting)}))

    def __len__(self) -> int:
        return self._count


def _size(item: Item) -> int:
    """Return the bytes of a body that lies in its record; 0 for a body in the spool."""
    body = item.record.body
    return 0 if isinstance(body, Spooled) else len(body)


MOST_ENDS: Final = 4096
"""Number of transfers of programs of this host whose end is remembered; beyond it the oldest is forgotten."""


class State:
    """The state of a core's transfers; see the head of this file."""

    def __init__(self) -> None:
        self.items = Items()
        self.foreign: dict[TransferId, tuple[int, ...]] = {}
        """LSNs by id, of transfers that did not begin in this store. The copies for `service/*` of what came from
        another node share an id."""
        self.owed: dict[TransferId, tuple[TransferState, str]] = {}
        """How transfers of other nodes have ended, for those nodes that have not said that they know it. Copies count
        as CONSUMED if all were; the entry holds when no copy is left."""
        self.queues: dict[str, Queue] = {}
        self.bodies: Counter[str] = Counter()
        """Files of the spool, and how many transfers have each: the copies for `service/*` share one."""
        self.table: dict[int, Transaction] = {}
        self.seen = Seen()
        self.requests = Requests()
        self.answers = Answers()
        self.last_txn = 0
        self.node: str = ""
        """Name of the node whose transfers these are."""
        self.incarnation = 0
        """Incarnation of ids that this store gives: its making, or when it was found a copy, in ns since 1970."""
        self.incarnations: set[int] = set()
        """The present incarnation, and that of each own transfer that was kept."""
        self.life = 0
        """Number of the core's start with this store; the first one has 1."""
        self.sequence = 0
        """Lower 32 bits of the sequence of the last transfer that began here in this life."""
        self.counts: Counter[TransferState] = Counter()
        """Number of transfers that have ended, by how."""
        self.ends: dict[TransferId, Ending] = {}
        """How the last transfers ended. The core may end before it has told their senders, who ask the next core."""
        self.once = Once()

    def apply(self, lsn: int, record: Record) -> list[Effect]:
        """Apply a record, and return the effects for others. Raises TransfersDamaged."""
        row = self._row(lsn, record) if record.txn != NONE else None
        effects = list(self._change(lsn, record, row))
        if row is not None:
            row.last_lsn = lsn
        return effects

    def _row(self, lsn: int, record: Record) -> Transaction:
        """Return the row of the record's transaction; its first record makes the row. Raises TransfersDamaged."""
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

    def _show(self, lsn: int, item: Item) -> None:
        """Make a transfer ACCEPTED: it stands in its place, for anybody to take."""
        item.state, item.txn, item.taker, item.visible = TransferState.ACCEPTED, NONE, None, lsn
        self.put(item)

    def put(self, item: Item) -> None:
        """Put an ACCEPTED transfer into its queue."""
        to = item.record.header.to
        self._queue(queue_name(to)).put(item)
        if to.node and to.node == self.node:
            self._queue(to.service).depart(item)
        elif item.sent:
            self._queue(to.service).arrive(item.line, item.sent)

    def _queue(self, name: str) -> Queue:
        return self.queues.get(name) or self.queues.setdefault(name, Queue())

    def pass_over(self, item: Item) -> Iterator[Effect]:
        """Let go what is held for a transfer that no receiver can take now. That is not logged, but found anew after a
        crash."""
        to = item.record.header.to
        if to.node and to.node == self.node and self._queue(to.service).pass_over(item):
            yield Came(to.service)

    def _is_there(self, item: Item) -> Iterator[Effect]:
        """Let go what is held for a transfer that is in its receiver's queue, or has ended."""
        to = item.record.header.to
        if to.node and to.node == self.node:
            queue = self._queue(to.service)
            queue.passed.discard(item.lsn)
            if queue.arrive(item.line, item.lsn):
                yield Came(to.service)

    def hold_again(self, service: str) -> None:
        """Count what was passed over as on its way again, since a receiver has come that may take it. It comes, or is
        passed over again."""
        queue = self._queue(service)
        for item in filter(None, map(self.items.get, list(queue.passed))):
            queue.depart(item)

    def held_for(self, item: Item) -> Item | None:
        """Return the transfer that was sent before this one and has to come first; None: there is none."""
        queue = self.queues.get(item.record.header.to.service)
        before = queue.before(item) if queue is not None else None
        return None if before is None else self.items.get(before)

    def _go(self, item: Item, state: TransferState | None) -> None:
        """Remove a transfer that has ended in this state; None: it is undone."""
        del self.items[item.lsn]
        self._forget(item)
        if state is not None:
            self.counts[state] += item.counts_at(self.node)
            self._remember(item, state)
            self._owe(item, state)

    def _end(self, item: Item, state: TransferState | None) -> Iterator[Effect]:
        self._go(item, state)
        yield Moved((item,), state, item.cause)
        yield from self._let_go(item)

    def _let_go(self, item: Item) -> Iterator[Effect]:
        """Let go what a transfer has kept that has ended."""
        yield from self._is_there(item)
        body = item.record.body
        if isinstance(body, Spooled):
            self.bodies[body.name] -= 1
            if not self.bodies[body.name]:
                del self.bodies[body.name]
                yield Free(body)

    def _remember(self, item: Item, state: TransferState) -> None:
        record = item.record
        if record.request is not None:
            ending = self.ends[record.id] = Ending(state, item.cause, record.request)
            if len(self.ends) > MOST_ENDS:
                del self.ends[next(iter(self.ends))]
            if record.once:
                self.once.end(record.sender, record.once, record.id, ending)

    def _enqueue(self, lsn: int, record: Enqueue, row: Transaction | None) -> Iterator[Effect]:
        if len(record) > 1:
            yield self._enqueue_run(lsn, record)
            return
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
            self._show(lsn, item)
            yield Moved((item,), item.state, item.cause)
            return
        row.add_undoable(lsn, Undone.ENQUEUE, lsn)
        row.items += 1
        row.bytes += record.header.length

    def _enqueue_run(self, lsn: int, record: Enqueue) -> Came:
        """Enqueue several letters. Nobody has asked for one of them yet, so they have no `Item`."""
        count, first, request, to = len(record), record.id, record.request, record.header.to
        if (request is not None) != (first.node == self.node):
            self._wrong(lsn, f"letters of node {first.node!r} that {request} has sent")
        if request is not None:
            if not (self.seen.is_new(first) and self.requests.is_new(request)):
                self._wrong(lsn, f"transfer {first} comes again, or one of the {count} letters with it")
            self.seen.add(first, count)
            self.requests.add(request, count)
            self.sequence = max(self.sequence, (first.sequence & 0xFFFF_FFFF) + count - 1)
            self.keep_run(lsn, record)
            return Came(to.service, to.node, range(lsn, lsn + count) if to.node else ())
        ids = record.ids
        if len(set(ids)) < count or any(map(self.has_come, ids)):
            self._wrong(lsn, f"transfer {first} comes again, or one of the {count} letters with it")
        for id in ids:
            self.seen.add(id)
        self.keep_run(lsn, record)
        return Came(to.service, ids=ids)

    def keep_run(self, lsn: int, record: Enqueue) -> None:
        """Keep letters that have come together and wait."""
        header, id = record.header, record.id
        if record.request is not None:
            self.incarnations.add(id.incarnation)
            self.note_answer(record.request, id, len(record))
        else:
            self.foreign.update((id, (number,)) for number, id in enumerate(record.ids, lsn))
        self.items.put_run(Run(lsn, record, record.bodies, len(record)))  # type: ignore[arg-type]
        self._queue(queue_name(header.to)).put_run(header.priority, range(lsn, lsn + len(record)))

    def keep(self, item: Item) -> None:
        """Keep a transfer that has not ended."""
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
        """Note which transfers `count` requests have made, for their producer may ask again. `request` and `id` are
        those of the first."""
        if request is not None and request.number and request.producer in self.requests.marks:
            self.answers.add(request, id, count)

    def asked_before(self, request: Request) -> list[TransferId]:
        """Return the transfers that this request enqueued: those that go on, and the last of those that ended."""
        return [id for id in self.answers.find(request) if self.numbers(id) or id in self.ends]

    def _forget(self, item: Item) -> None:
        id = item.record.id
        if self.is_own(id):
            self.items.own.pop(id.sequence, None)
            return
        left = tuple(lsn for lsn in self.foreign.pop(id) if lsn != item.lsn)
        if left:
            self.foreign[id] = left

    def numbers(self, id: TransferId) -> tuple[int, ...]:
        """Return the LSNs of the transfers with this id that have not ended."""
        if not self.is_own(id):
            return self.foreign.get(id, ())
        lsn = self.items.number_of(id.sequence)
        return () if lsn is None else (lsn,)

    def find(self, id: TransferId) -> Item | None:
        """Return a transfer that has not ended, the first one of copies; None: there is none."""
        lsns = self.numbers(id)
        return self.items[lsns[0]] if lsns else None

    def has_come(self, id: TransferId) -> bool:
        """Was it enqueued once? A transfer may be forgotten that has ended, and whose node knows how."""
        return id in self.seen or bool(self.numbers(id)) or id in self.owed

    def is_own(self, id: TransferId) -> bool:
        """Did it begin in this store?"""
        return id.node == self.node and id.incarnation in self.incarnations

    def _owe(self, item: Item, state: TransferState) -> None:
        """Note that the node where the transfer began is to be told how it has ended."""
        id = item.record.id
        before = self.owed.get(id, (TransferState.CONSUMED, ""))
        if not self.is_own(id):
            self.owed[id] = (state, item.cause) if before[0] is TransferState.CONSUMED else before

    def _take(self, lsn: int, record: Take, row: Transaction | None) -> Iterator[Effect]:
        items: list[Item] = []
        for number in record.items:
            item = self.items.get(number)
            if item is None or item.state is not TransferState.ACCEPTED:
                self._wrong(lsn, f"TAKE of {number}, which is {item.state.name if item else 'not there'}")
            if item.record.life not in (None, record.life):
                self._wrong(lsn, f"TAKE of {number} by {record.life}; it is for {item.record.life}")
            items.append(item)
        for item in items:
            item.state, item.taker, item.txn, item.cause = TransferState.DELIVERED, record.life, record.txn, ""
            item.deliveries += 1
        if row is not None:
            row.add_undoable(lsn, Undone.TAKE, record.items[0])
            row.items += 1
        yield Moved(items, TransferState.DELIVERED)

    def _settle(self, lsn: int, record: Change) -> Iterator[Effect]:
        state, cause, ends = record.state, record.cause, record.state in ENDED
        items: list[Item] = []
        for number in record.items:
            item = self.items.get(number)
            if item is None or item.txn != NONE or state not in next_states(item):
                before = "not there" if item is None else f"{item.state.name}, of transaction {item.txn}"
                self._wrong(lsn, f"transfer {number} becomes {state.name}; it is {before}")
            items.append(item)
        for item in items:
            self._come_to(item, state, cause)
            if ends:
                self._go(item, state)
            elif state is TransferState.ACCEPTED:
                self._show(lsn, item)
        yield Moved(items, state, cause)
        if state is TransferState.ACCEPTED:
            return
        for item in items:
            if item.run is None:  # the others keep nothing beside their body
                yield from self._let_go(item) if ends else self._is_there(item)

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
                self._show(lsn, item)
                yield Moved((item,), item.state, item.cause)
            else:
                yield from self._end(item, TransferState.CONSUMED)
        row.phase, row.save_list, row.undo_next = Phase.COMMITTED, None, NONE
        row.undoable.clear()
        row.items = row.bytes = 0

    def _undo(self, lsn: int, record: Clr, row: Transaction) -> Iterator[Effect]:
        """Take back a record; UndoNxtLSN goes behind it."""
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
            self._show(lsn, item)
            yield Moved((item,), item.state, item.cause)
        else:
            item.state, item.txn, item.taker = TransferState.DEAD, NONE, None
            item.cause = f"delivered {item.deliveries} times, and each time undone"
            yield Moved((item,), item.state, item.cause)


_DEAD = (Undone.TAKE, Undone.TAKE_DEAD)
