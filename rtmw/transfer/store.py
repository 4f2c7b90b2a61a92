"""Durable transactional queues in a folder: the machine on a real `rtmw.Log`, with a spool for large bodies.

    store = Store("transfers/", node="plant")
    store.join("ingest", life)
    txn = store.begin()
    store.send(Header(Address.parse("ingest"), Kind.BUF, 7), b"reading", txn=txn)
    store.commit(txn)                                   # on the disk, and visible
    letter = store.take("ingest", life)
    store.settle(letter, TransferState.CONSUMED)

Steps run one after the other under a lock, and hand their records to the log without waiting. A thread that needs
them durable then waits outside of the lock, so that many threads share a sync. No caller gets an answer that is not
durable: a step that shows anything to others, or takes anything, has its answer when all that was logged before it is
on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import Any, Final, NamedTuple, TypeVar

import rtmw
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.errors import ClosedError, LogFull
from rtmw.transfer.address import Life
from rtmw.transfer.ages import EVERY_NS, Ages
from rtmw.transfer.changes import ChangeRun
from rtmw.transfer.checkpoint import checkpoint_of
from rtmw.transfer.effects import Aborted, Append, Free, Moved, MovedRun, Note, Steps, drive
from rtmw.transfer.enqueued import EnqueuedRun
from rtmw.transfer.errors import TransactionAborted, TransfersDamaged
from rtmw.transfer.events import (
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    DestroySavepoint,
    Event,
    Now,
    ReceiverJoined,
    ReceiverLeft,
    RollBack,
    SendTransfer,
    SetSavepoint,
    SettleTransfer,
    TakeTransfer,
    Tick,
)
from rtmw.transfer.header import Header
from rtmw.transfer.limits import Limits
from rtmw.transfer.machine import Machine
from rtmw.transfer.place import Lies, Place
from rtmw.transfer.queues import Item
from rtmw.transfer.record_bytes import pack
from rtmw.transfer.records import LARGEST_INLINE, LARGEST_PART, NONE, Change, Spooled, Start, TransferId, TransferState
from rtmw.transfer.recovery import redo, saying
from rtmw.transfer.rows import QueueRow, StoreStats, TransactionRow, queue_rows, transaction_rows
from rtmw.transfer.spool import Spool
from rtmw.transfer.state import State
from rtmw.transfer.undoing import append, undo_losers

__all__ = ["Store", "Submitted", "Taken"]

T = TypeVar("T")

CHECKPOINT_BYTES: Final = 16 << 20
"""Of records, after which a segment of the log gets a checkpoint; or twice its size, if that is more."""
RESERVE_SHARE: Final = 4
"""A checkpoint that is at most so large a share of the last segment is made on a full disk, too: what lies before it is
trimmed, which makes room. A larger one could use up the reserve, and have no room at last."""
_NEXT_INCARNATION: Final = 1 << 32
"""A new incarnation is larger by so much at least: those between are of transfers that no log keeps, one for each
life."""
_NO_WAIT: Final = (BeginTransaction, SetSavepoint, RollBack, DestroySavepoint, AbortTransaction, ReceiverJoined)
"""Events that show nothing new to others: a crash undoes those that were not durable."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A transfer that a receiver has taken."""

    item: int
    """Its number in the store."""
    id: TransferId
    header: Header
    sender: str
    body: bytes
    redelivered: int
    """How often it was delivered before."""


class Submitted(NamedTuple):
    """A step whose records are on their way to the disk."""

    answer: Any
    failure: TransactionAborted | LogFull | None
    """Instead of an answer; `notes` hold in any case."""
    notes: list[Note]
    last: rtmw.Appended | None
    """When this is durable, all is that the step has logged or seen. None: nothing was ever logged."""
    waits: bool
    """The answer may be given only then."""


def _now() -> Now:
    return Now(CLOCK.monotonic_ns(), CLOCK.wall_ns())


class Store(Closing):
    """Any number of threads. One process at a time: LogLocked names the other one.

    Errors of all that logs: LogFull, after which nothing was done; LogFailed, after which the outcome is unknown and
    the store has to be opened anew; and ClosedError. `told`: is called with each Moved and Aborted, in the thread of
    the step, when it is durable.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        node: str,
        limits: Limits | None = None,
        told: Callable[[Moved | Aborted], None] | None = None,
        now: Callable[[], Now] = _now,
        segment: int | str = "64M",
        checkpoint: int = CHECKPOINT_BYTES,
    ) -> None:
        self._path, self._lock, self._closed = Path(path), RLock(), False
        self._told, self._now, self._every = told, now, checkpoint
        self._spooled = self._checkpoints = self._orphans = self._checkpoint = self._tried = self._size = 0
        self._last: rtmw.Appended | None = None
        self.ages = Ages()
        self._untrimmed: rtmw.Appended | None = None
        """The last record of a checkpoint that may not be durable yet."""
        self.spool = Spool(self._path / "spool")
        self.place, self._ages = Place(self._path), self._path / "ages"
        try:
            self._log: rtmw.Log[bytes] = rtmw.Log(self._path / "log", sync=False, segment=segment, dedupe=1)
            self._log._hold()  # a step that logs several records, and waits for the last one, has one sync
        except BaseException:
            self.spool.close()
            raise
        try:
            chosen = limits or Limits()
            self.machine = Machine(self._recover(node, chosen.deliveries), chosen)
            self._bury_the_dead()
        except BaseException:
            self.close()
            raise

    # ---- recovery ----

    def _recover(self, node: str, deliveries: int) -> State:
        """Redo, undo, and a START. Raises LogLocked, LogDamaged, TransfersDamaged, ValueError."""
        self._log.trim(0)  # takes the lock, and cuts what a killed writer has left
        self.ages = self._kept_ages()
        records = map(attrgetter("position", "data"), self._noting(self._log.read()))
        done = redo(saying(records, self._log.end))
        self._checkpoint = done.checkpoint
        state = done.state
        if state is None:
            if self._log.end:
                raise TransfersDamaged(
                    f"{self._path}: no checkpoint in its log is whole; each such log begins with one"
                )
            state = State()
            self._write_checkpoint(state)
        if state.life and state.node != node:
            raise ValueError(
                f"{self._path} has the transfers of node {state.node!r}, and not of {node!r}; "
                f"a node whose data was moved keeps its name: --name {state.node}"
            )
        notes: list[Note] = []
        self._drive(undo_losers(state, deliveries), notes)
        self.lies = self.place.look() if state.life else Lies.HERE  # else its ids have a new incarnation
        self._drive(_start(state, node, self._now().wall_ns, self.lies), notes)
        self.note_time()
        if self._last is not None:
            self._last.resolve()
        self.place.keep()
        bodies = [item.record.body for item in state.items.made.values()]
        self._orphans = self.spool.keep(body for body in bodies if isinstance(body, Spooled))
        return state

    def _kept_ages(self) -> Ages:
        try:
            return Ages.unpack(self._ages.read_bytes(), self._log.end)
        except OSError:
            return Ages()

    def _noting(self, records: Iterable[rtmw.LogRecord[bytes]]) -> Iterator[rtmw.LogRecord[bytes]]:
        """The records, and their times are noted, for the file is not written in a crash."""
        due = 0
        for record in records:
            if record.time_ns >= due:
                due = record.time_ns + EVERY_NS
                self.ages.note(record.position - 1, record.time_ns)
            yield record

    def note_time(self) -> None:
        """For the ages of transfers. Call it about once a second."""
        self.ages.note(0 if self._last is None else self._last.position, self._now().wall_ns)

    def _keep_ages(self) -> None:
        """In a file, which lasts longer than the records: those go with the next trim. It is not synced, and what a
        crash leaves of it may be nothing: then ages are counted from the last checkpoint on."""
        if not self.ages:  # it was not opened
            return
        temporary = self._ages.with_suffix(".partial")
        with suppress(OSError):  # a full disk: the file of before stays
            temporary.write_bytes(self.ages.pack())
            temporary.replace(self._ages)

    def _bury_the_dead(self) -> None:
        """Letters of receivers that have ended meanwhile go back."""
        for life in sorted(self.machine.lives_named()):
            if not life.lives():
                self.leave(life)

    # ---- steps ----

    def step(self, event: Event) -> Any:
        """The answer of the event; durable, if it shows anything to others. Errors: see the event, and the class."""
        done = self.submit(event)
        if done.waits and done.last is not None:
            done.last.resolve()
        self.carry_out(done.notes)
        if done.failure is not None:
            raise done.failure
        return done.answer

    def submit(self, event: Event) -> Submitted:
        """The same for a caller that waits otherwise than asleep, and calls `carry_out` then. Does not block."""
        with self._lock:
            self._check_open()
            notes: list[Note] = []
            answer, failure, is_full = None, None, False
            try:
                answer = self._drive(self.machine.step(event, self._now()), notes)
            except (TransactionAborted, LogFull) as error:
                failure = None if self._has_committed(event) else error
                is_full = isinstance(error, LogFull)
            last = self._last
            self._checkpoint_if_due(is_full)
        waits = self._needs_disk(event, answer) if failure is None else bool(notes)
        return Submitted(answer, failure, notes, last, waits)

    def _has_committed(self, event: Event) -> bool:
        """Its COMMIT is logged: the disk became full behind it, and what remains to be done is done by a tick."""
        return isinstance(event, CommitTransaction) and event.txn not in self.machine.open

    def _needs_disk(self, event: Event, answer: object) -> bool:
        if isinstance(event, SendTransfer | TakeTransfer) and event.txn:
            return isinstance(answer, Item) and answer.visible >= self._log.end
        return not isinstance(event, _NO_WAIT)

    def _drive(self, steps: Steps[T], notes: list[Note]) -> T:
        """Logs what a step decides; its records are on their way to the disk then. `notes`: what is to be done next."""
        return drive(steps, self._append, notes)

    def _append(self, effect: Append) -> Sequence[int]:
        records = effect.records
        data = list(records) if isinstance(records, EnqueuedRun | ChangeRun) else [pack(record) for record in records]
        positions, end = self._log._places(data, ends=not effect.begins)
        self._last = rtmw.Appended(self._log, positions[-1], end)
        return positions

    def carry_out(self, notes: Iterable[Note]) -> None:
        """Carries out notes whose records are durable: tells others, and removes bodies that are not needed."""
        for note in notes:
            if isinstance(note, Moved | MovedRun | Aborted):
                for one in note if isinstance(note, MovedRun) else (note,):
                    self._tell(one)
            elif isinstance(note, Free) and isinstance(note.body, Spooled):
                self.spool.remove(note.body.name)

    def _tell(self, note: Moved | Aborted) -> None:
        if self._told is not None:
            self._told(note)

    # ---- what programs ask for ----

    def begin(self, owner: Life | None = None) -> int:
        """The number of a new transaction."""
        number: int = self.step(BeginTransaction(owner))
        return number

    def send(
        self, header: Header, body: bytes, *, sender: str = "", txn: int = 0, id: TransferId | None = None
    ) -> list[TransferId]:
        """The ids of what was enqueued; none: this id has come before. OSError: the spool's disk is full, or failed."""
        if len(body) != header.length:
            raise ValueError(f"the header says {header.length} bytes, and the body has {len(body)}")
        if len(body) <= LARGEST_INLINE:
            ids: list[TransferId] = self.step(SendTransfer(header, body, sender, txn, id))
            return ids
        name = self.spool_name()
        spooled = self.spool.write(name, body)
        found: list[TransferId] = []
        try:
            found = self.step(SendTransfer(header, spooled, sender, txn, id))
        finally:
            if not found and not self._is_named(spooled):
                self.spool.remove(name)
        return found

    def spool_name(self) -> str:
        """A new name for a body that is too large for a record."""
        with self._lock:
            self._check_open()
            self._spooled += 1
            return f"{self.machine.state.life:x}s{self._spooled:x}"

    def _is_named(self, body: Spooled) -> bool:
        """By a transfer; so it may be in the log, whose outcome may be unknown."""
        with self._lock:
            return any(item.record.body == body for item in self.machine.state.items.made.values())

    def take(self, service: str, life: Life, *, txn: int = 0) -> Taken | None:
        """The first transfer that this receiver may have; None: there is none."""
        item: Item | None = self.step(TakeTransfer(service, life, txn))
        if item is None:
            return None
        record = item.record
        body = self.spool.read(record.body) if isinstance(record.body, Spooled) else record.body
        return Taken(item.lsn, record.id, record.header, record.sender, body, item.deliveries - 1)

    def settle(
        self, letter: Taken | int, state: TransferState, cause: str = "", by: Life | None = None
    ) -> TransferState:
        """A letter that was taken without a transaction is CONSUMED, ACCEPTED again, REFUSED; and so on."""
        item = letter.item if isinstance(letter, Taken) else letter
        settled: TransferState = self.step(SettleTransfer(item, state, cause, by))
        return settled

    def savepoint(self, txn: int, name: str | None = None) -> int:
        """Its LogLsn, which means it and no other one of its name."""
        lsn: int = self.step(SetSavepoint(txn, name))
        return lsn

    def rollback(self, txn: int, to: str | int) -> None:
        """Undoes all after the savepoint; the savepoint stays."""
        self.step(RollBack(txn, to))

    def release(self, txn: int, savepoint: str | int) -> None:
        self.step(DestroySavepoint(txn, savepoint))

    def commit(self, txn: int) -> None:
        """Durable and visible when this returns."""
        self.step(CommitTransaction(txn))

    def abort(self, txn: int) -> None:
        self.step(AbortTransaction(txn))

    def join(self, service: str, life: Life) -> None:
        self.step(ReceiverJoined(service, life))

    def leave(self, life: Life) -> None:
        self.step(ReceiverLeft(life))

    def tick(self) -> None:
        """Lifetimes end, and transactions that are too old are undone. Call it now and then."""
        self.step(Tick())

    # ---- what is there ----

    def queues(self) -> list[QueueRow]:
        with self._lock:
            return queue_rows(self.machine)

    def transactions(self) -> list[TransactionRow]:
        with self._lock:
            return transaction_rows(self.machine, self._now().monotonic_ns)

    def stats(self) -> StoreStats:
        with self._lock:
            state, since = self.machine.state, self._log.end - self._checkpoint
            open = len(self.machine.open)
            return StoreStats(len(state.items), open, dict(state.counts), self._checkpoints, self._orphans, since)

    def log_disk(self) -> int:
        """Bytes of the files of the log."""
        return self._log.stats().disk

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self._path}: used after close()")

    # ---- checkpoints ----

    def _checkpoint_if_due(self, is_full: bool) -> None:
        """The step is logged by then, so a full disk is no failure of it: the next try comes as many bytes later. If
        little is to be written, a full disk makes it due early, since it makes room. A second one in a segment would
        free nothing. Nobody waits for the disk: a later step trims what lies before it, when it is durable."""
        if self._untrimmed is not None and self._log.end > self._untrimmed.position:
            self._keep_ages()
            self._log._begin_to_write().ask_trim(self._checkpoint)
            self._untrimmed = None
        last, begun = 0 if self._last is None else self._last.position, max(self._checkpoint, self._tried)
        if last - begun > self._between(is_full) and self._log._begin_to_write().last_base > self._checkpoint:
            self._tried = last
            with suppress(LogFull):
                self._untrimmed = self._write_checkpoint(self.machine.state)

    def _between(self, is_full: bool) -> int:
        """Bytes of records before the next checkpoint. One of letters that only wait would free nothing."""
        items = self.machine.state.items
        if is_full and items.least_bytes <= self._reserve():
            return 2 * items.least_bytes
        return max(self._every, 2 * self._size, 2 * items.least_bytes)

    def _reserve(self) -> int:
        """Bytes that a checkpoint may take on a full disk. The last segment may be smaller than was asked for."""
        return self._log._begin_to_write().last_size // RESERVE_SHARE

    def checkpoint(self) -> None:
        """Writes all of the state anew, and trims the log before it."""
        with self._lock:
            self._check_open()
            self._write_checkpoint(self.machine.state).resolve()
            self._keep_ages()
            self._log.trim(self._checkpoint)
            self._untrimmed = None

    def _write_checkpoint(self, state: State) -> rtmw.Appended:
        parts, most = map(pack, checkpoint_of(state)), self._reserve()
        ends = sum(map(len, first := list(islice(parts, most // LARGEST_PART + 1)))) <= most
        places = [self._log._places([part], ends=ends) for part in chain(first, parts)]
        (begin,), (last,), end = places[0][0], places[-1][0], places[-1][1]
        self._last = rtmw.Appended(self._log, last, end)
        self._checkpoint, self._size = begin, end - begin
        self._checkpoints += 1
        return self._last

    # ---- end ----

    def close(self) -> None:
        """Open transactions are undone when the store is opened next. LogFailed, if nobody was told of it yet."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._keep_ages()
                self._log.close()
            finally:
                self.spool.close()


def _start(state: State, node: str, wall_ns: int, lies: Lies) -> Steps[None]:
    """Log the START of a core. Of a store that was set back, transfers that may have ids of others get new ones."""
    waiting = _of_last_life(state) if lies is Lies.BEHIND else []
    is_new = lies is not Lies.HERE or not state.incarnation
    incarnation = max(wall_ns, state.incarnation + _NEXT_INCARNATION) if is_new else state.incarnation
    yield from append(state, Start(state.life + 1, node, incarnation))
    for item in waiting:
        id = TransferId(state.node, state.incarnation, (state.life << 32) + state.sequence + 1)
        yield from append(state, replace(item.record, id=id, txn=NONE, prev=NONE))
        cause = f"the store of its node was set back, and this id was used before; it goes on as {id}"
        yield from append(state, Change(item.lsn, TransferState.CANCELLED, cause))


def _of_last_life(state: State) -> list[Item]:
    """Transfers that the life before this one has accepted for other nodes, and that have gone to none. Those of
    earlier lives may be older than the store that was set back, and their ids are right then."""
    items = [state.items[lsn] for lsn, _ in state.items.for_nodes()]
    return [item for item in items if item.state is TransferState.ACCEPTED and _is_of_life(state, item.record.id)]


def _is_of_life(state: State, id: TransferId) -> bool:
    return state.is_own(id) and id.sequence >> 32 == state.life
