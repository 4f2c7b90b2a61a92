"""Durable transactional queues in a folder: the machine on a real `rtmw.Log`, with a spool for large bodies.

    store = Store("transfers/", node="plant")
    done = store.submit(SendTransfer(Header(Address.parse("ingest"), Kind.BUF, 7), b"reading"))
    done.last.resolve()                                 # on the disk: its sender may have the ids, `done.answer`

Steps run one after the other, in one thread, and hand their records to the log without waiting. No caller may get an
answer that is not durable: a step that shows anything to others, or takes anything (`Submitted.waits`), has its answer
when all that was logged before it is on the disk. Its notes are carried out then, too. So many steps share a sync.

`Volatile` is the same machine for transfers that no log keeps (SMALL_RAW, NORMAL): its records go nowhere. Its LSNs are
numbers that no log reaches, so that a transfer's number says which of the two has it. `Machines` are both, as
the steps of a core see them.

`Ages` says when transfers were accepted, by their numbers, without a time in each of them. Numbers ascend. About once a
second a mark says which number was the last one at which time; a transfer with a larger number came later. At most MOST
marks are kept: those go first that say least about the age of what lies around them. So an age is right to about a
second, or to a hundredth of itself.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import rtmw
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.errors import LogFull
from rtmw.transfer.errors import TransactionAborted, TransfersDamaged
from rtmw.transfer.events import (
    AbortTransaction,
    Append,
    BeginTransaction,
    CommitTransaction,
    DestroySavepoint,
    Event,
    Note,
    Now,
    ReceiverJoined,
    ReceiverLeft,
    RollBack,
    SendTransfers,
    SetSavepoint,
    Steps,
    TakeTransfers,
    drive,
)
from rtmw.transfer.limits import Limits
from rtmw.transfer.machine import Machine, append, undo_losers
from rtmw.transfer.messages import Move
from rtmw.transfer.place import Lies, Place
from rtmw.transfer.queues import Item, queue_name
from rtmw.transfer.records import (
    LARGEST_PART,
    NEVER_LOGGED,
    NONE,
    Change,
    Enqueue,
    Request,
    Spooled,
    Start,
    TransferId,
    TransferState,
    pack,
)
from rtmw.transfer.recovery import checkpoint_of, redo, saying
from rtmw.transfer.spool import Spool
from rtmw.transfer.state import State

__all__ = [
    "Ages",
    "Machines",
    "Store",
    "Submitted",
    "Volatile",
    "is_volatile",
    "queue_rows",
    "transaction_rows",
]


@dataclass(frozen=True, slots=True)
class Machines:
    """The state that steps read; only their `Do` changes it."""

    logged: Machine
    volatile: Machine
    now: Callable[[], Now]

    def of(self, item: int) -> Machine:
        return self.volatile if is_volatile(item) else self.logged

    def find(self, id: TransferId) -> Item | None:
        """Return a transfer that has not ended; None: there is none."""
        return self.logged.state.find(id) or self.volatile.state.find(id)

    def was_sent(self, logged: bool, sender: str, request: Request, once: bytes) -> bool:
        """Was this send accepted before? Then do not check its files again: they may have changed, or be gone.
        TransferRefused: `once` belongs to something else."""
        state = (self.logged if logged else self.volatile).state
        is_asked_again = request.number != 0 and request in state.requests
        return is_asked_again or (bool(once) and state.once.find(sender, once) is not None)

    def move(self, id: TransferId) -> Move:
        """Return how a transfer is, or how it has ended; UNKNOWN: nobody remembers."""
        item = self.find(id)
        if item is not None:
            return Move((id,), item.state, item.cause)
        return self.end_of(id)

    def end_of(self, id: TransferId, sender: str = "", once: bytes = b"") -> Move:
        """Return how a transfer has ended. `once`: the sender's own id, under which ends are kept longer."""
        for machine in (self.logged, self.volatile):
            known = machine.state.once.find(sender, once) if once else None
            end = machine.state.ends.get(id) or (known.ids.get(id) if known is not None else None)
            if end is not None:
                return Move((id,), end.state, end.cause)
        return Move((id,), TransferState.UNKNOWN, "")


MARKS_MOST: Final = 512
EVERY_NS: Final = 1_000_000_000


class _Mark(NamedTuple):
    number: int
    """The last number that was given at this time."""
    wall_ns: int
    """Nanoseconds of the wall clock, since 1970."""


class Ages:
    """Says when transfers of one machine were accepted; see the head of this file."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []

    def note(self, number: int, wall_ns: int) -> None:
        """Note the last number at this time. Calls within a second of the last mark add none."""
        marks = self._marks
        if marks and number <= marks[-1].number:
            marks[-1] = _Mark(marks[-1].number, max(wall_ns, marks[-1].wall_ns))
        elif not marks or wall_ns >= marks[-1].wall_ns + EVERY_NS:
            marks.append(_Mark(number, wall_ns))
            if len(marks) > MARKS_MOST:
                self._thin()

    def _thin(self) -> None:
        marks, now = self._marks, self._marks[-1].wall_ns
        spans = zip(marks, marks[2:], strict=False)
        lost = [(after.wall_ns - before.wall_ns) / (now - before.wall_ns + EVERY_NS) for before, after in spans]
        del marks[1 + lost.index(min(lost))]

    def since(self, number: int) -> int:
        """Return when the transfer with this number was accepted, or a little before. For one that is older than all
        marks it is the time of the first mark; 0: there is none."""
        at = bisect_left(self._marks, (number,)) - 1
        return self._marks[max(at, 0)].wall_ns if self._marks else 0

    def __len__(self) -> int:
        return len(self._marks)

    def pack(self) -> bytes:
        return json.dumps(self._marks).encode()

    @classmethod
    def unpack(cls, data: bytes, last: int) -> Ages:
        """Read what `pack` wrote, up to the last number that there is. What cannot be read is left out: an age is for
        people."""
        ages = cls()
        try:
            for number, wall_ns in cast("list[list[int]]", json.loads(data)):
                if number <= last:
                    ages.note(int(number), int(wall_ns))
        except (ValueError, TypeError, RecursionError):
            pass
        return ages


@dataclass(frozen=True)
class QueueRow:
    """The transfers of a service that have not ended."""

    queue: str
    """`service`, or `service@node`."""
    states: dict[TransferState, int]
    """Number of transfers in each state."""
    bytes: int
    """Bytes of the transfers' bodies."""
    receivers: int


@dataclass(frozen=True)
class TransactionRow:
    """A row of the transaction table, under the paper's names, and what bounds it."""

    txn_id: int
    state: str
    last_lsn: int
    undo_nxt_lsn: int
    save_list: tuple[str, ...]
    """Names of the savepoints, the newest one first."""
    records: int
    """Number of records that would be undone."""
    bytes: int
    age: float
    """Seconds since the transaction began."""


def queue_rows(machine: Machine) -> list[QueueRow]:
    """Return the rows of a machine's queues, sorted by name."""
    states: dict[str, Counter[TransferState]] = {name: Counter() for name in machine.receivers}
    sizes: Counter[str] = Counter()
    for item in machine.state.items.values():
        name = queue_name(item.record.header.to)
        states.setdefault(name, Counter())[item.state] += 1
        sizes[name] += item.record.header.length
    receivers = machine.receivers
    return [QueueRow(name, dict(states[name]), sizes[name], len(receivers.get(name, ()))) for name in sorted(states)]


def transaction_rows(machine: Machine, monotonic_ns: int) -> list[TransactionRow]:
    """Return the rows of the open transactions, the oldest one first; also those that have logged nothing yet."""
    rows: list[TransactionRow] = []
    for txn in machine.open:
        row, age = machine.row(txn), machine.age_ns(txn, monotonic_ns) / 1e9
        names = tuple(entry.spname for entry in row.savepoints())
        numbers = row.last_lsn, row.undo_next, names, len(row.undoable), row.bytes
        rows.append(TransactionRow(txn, row.phase.name, *numbers, age))
    return rows


T = TypeVar("T")

CHECKPOINT_BYTES: Final = 16 << 20
"""Bytes of records after which the next checkpoint is due; or twice the size of a checkpoint, if that is more."""
RESERVE_SHARE: Final = 4
"""A checkpoint that takes at most this share of the last segment (a quarter) is made on a full disk, too: what lies
before it is trimmed, which makes room. A larger one could use up the reserve, and have no room at last."""
_NEXT_INCARNATION: Final = 1 << 32
"""A new incarnation is larger by at least this: those between are of transfers that no log keeps, one for each life."""
_NO_WAIT: Final = (BeginTransaction, SetSavepoint, RollBack, DestroySavepoint, AbortTransaction, ReceiverJoined)
"""Events that show nothing new to others: a crash undoes those that were not durable."""


class Submitted(NamedTuple):
    """A step whose records are on their way to the disk."""

    answer: Any
    failure: TransactionAborted | LogFull | None
    """The error instead of an answer; `notes` hold in any case."""
    notes: list[Note]
    last: rtmw.Appended | None
    """When this is durable, so is all that the step has logged or seen. None: nothing was ever logged."""
    waits: bool
    """The answer may be given only when `last` is durable."""


def _now() -> Now:
    return Now(CLOCK.monotonic_ns(), CLOCK.wall_ns())


class Store(Closing):
    """A store for one thread, and one process at a time: LogLocked names the other one.

    Errors of all that logs: LogFull, after which nothing was done; LogFailed, after which the outcome is unknown and
    the store has to be opened anew; and ClosedError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        node: str,
        limits: Limits | None = None,
        now: Callable[[], Now] = _now,
        segment: int | str = "64M",
        checkpoint: int = CHECKPOINT_BYTES,
    ) -> None:
        self._path, self._now, self._every = Path(path), now, checkpoint
        self._spooled = self._checkpoint = self._tried = self._size = self._end = 0
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
        """Redo, undo, and log a START. Raises LogLocked, LogDamaged, TransfersDamaged, ValueError."""
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
        self.spool.keep(body for body in bodies if isinstance(body, Spooled))
        return state

    def _kept_ages(self) -> Ages:
        try:
            return Ages.unpack(self._ages.read_bytes(), self._log.end)
        except OSError:
            return Ages()

    def _noting(self, records: Iterable[rtmw.LogRecord[bytes]]) -> Iterator[rtmw.LogRecord[bytes]]:
        """Yield the records, and note their times, since a crash leaves no new file of ages."""
        due = 0
        for record in records:
            if record.time_ns >= due:
                due = record.time_ns + EVERY_NS
                self.ages.note(record.position - 1, record.time_ns)
            yield record

    def note_time(self) -> None:
        """Note the time, for the ages of transfers. Call it about once a second."""
        self.ages.note(self._end - 1, self._now().wall_ns)

    def _keep_ages(self) -> None:
        """Write the ages to a file, which lasts longer than the records: those go with the next trim. The file is not
        synced, and a crash may leave nothing of it: then ages are counted from the last checkpoint on."""
        if not self.ages:  # it was not opened
            return
        temporary = self._ages.with_suffix(".partial")
        with suppress(OSError):  # a full disk: the file of before stays
            temporary.write_bytes(self.ages.pack())
            temporary.replace(self._ages)

    def _bury_the_dead(self) -> None:
        """Give back the letters of receivers that have ended meanwhile."""
        for life in sorted(self.machine.lives_named()):
            if not life.lives() and (failure := self.submit(ReceiverLeft(life)).failure) is not None:
                raise failure
        if self._last is not None:
            self._last.resolve()

    # ---- steps ----

    def submit(self, event: Event) -> Submitted:
        """Carry out an event. Its records go to the disk, and nothing waits for that. Errors: see event and class."""
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
        """Is its COMMIT logged? Then the disk became full behind it, and a tick does what remains to be done."""
        return isinstance(event, CommitTransaction) and event.txn not in self.machine.open

    def _needs_disk(self, event: Event, answer: object) -> bool:
        if isinstance(event, TakeTransfers) and event.txn:
            return any(item.visible >= self._log.end for item in cast("list[Item]", answer or ()))
        if isinstance(event, SendTransfers) and event.txn:
            return False
        return not isinstance(event, _NO_WAIT)

    def _drive(self, steps: Steps[T], notes: list[Note]) -> T:
        """Log what a step decides; its records are on their way to the disk then. `notes`: what is to be done next."""
        return drive(steps, self._append, notes)

    def _append(self, effect: Append) -> Sequence[int]:
        positions, end = self._log._places([pack(record) for record in effect.records], ends=not effect.begins)
        self._last, self._end = rtmw.Appended(self._log, positions[-1], end), end
        return positions

    def spool_name(self) -> str:
        """Return a new name for a body that is too large for a record."""
        self._spooled += 1
        return f"{self.machine.state.life:x}s{self._spooled:x}"

    def log_disk(self) -> int:
        """Bytes of the files of the log."""
        return self._log.stats().disk

    # ---- checkpoints ----

    def _checkpoint_if_due(self, is_full: bool) -> None:
        """Write a checkpoint, if one is due. The step is logged by then, so a full disk is no failure of it: the next
        try comes as many bytes later. If little is to be written, a full disk makes it due early, since it makes room.
        A second one in a segment would free nothing. Nobody waits for the disk: a later step trims what lies before the
        checkpoint, when it is durable."""
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
        """Return the bytes of records before the next checkpoint. One of letters that only wait would free nothing."""
        items = self.machine.state.items
        if is_full and items.least_bytes <= self._reserve():
            return 2 * items.least_bytes
        return max(self._every, 2 * self._size, 2 * items.least_bytes)

    def _reserve(self) -> int:
        """Return the bytes that a checkpoint may take on a full disk; the last segment may be smaller than asked."""
        return self._log._begin_to_write().last_size // RESERVE_SHARE

    def _write_checkpoint(self, state: State) -> rtmw.Appended:
        parts, most = map(pack, checkpoint_of(state)), self._reserve()
        ends = sum(map(len, first := list(islice(parts, most // LARGEST_PART + 1)))) <= most
        places = [self._log._places([part], ends=ends) for part in chain(first, parts)]
        (begin,), (last,), end = places[0][0], places[-1][0], places[-1][1]
        self._last, self._end = rtmw.Appended(self._log, last, end), end
        self._checkpoint, self._size = begin, end - begin
        return self._last

    # ---- end ----

    def close(self) -> None:
        """Close the store. Open transactions are undone at the next open. LogFailed, if nobody was told of it yet."""
        try:
            self._keep_ages()
            self._log.close()
        finally:
            self.spool.close()


def _start(state: State, node: str, wall_ns: int, lies: Lies) -> Steps[None]:
    """Log the START of a core. In a store that was set back, transfers that may have ids of others get new ones."""
    waiting = _of_last_life(state) if lies is Lies.BEHIND else []
    is_new = lies is not Lies.HERE or not state.incarnation
    incarnation = max(wall_ns, state.incarnation + _NEXT_INCARNATION) if is_new else state.incarnation
    yield from append(state, Start(state.life + 1, node, incarnation))
    for item in waiting:
        id = TransferId(state.node, state.incarnation, (state.life << 32) + state.sequence + 1)
        yield from append(state, replace(item.record, id=id, txn=NONE, prev=NONE))
        cause = f"the store of its node was set back, and this id was used before; it goes on as {id}"
        yield from append(state, Change((item.lsn,), TransferState.CANCELLED, cause))


def _of_last_life(state: State) -> list[Item]:
    """Return transfers that the life before this one has accepted for other nodes, and that have gone to none. Those of
    earlier lives may be older than the store that was set back, and their ids are right then."""
    items = [state.items[lsn] for lsn, _ in state.items.for_nodes()]
    return [item for item in items if item.state is TransferState.ACCEPTED and _is_of_life(state, item.record.id)]


def _is_of_life(state: State, id: TransferId) -> bool:
    return state.is_own(id) and id.sequence >> 32 == state.life


_FIRST: Final = NEVER_LOGGED


def is_volatile(item: int) -> bool:
    """Is this the number of a transfer that no log keeps?"""
    return item >= _FIRST


class Volatile:
    """The machine of transfers that no log keeps, for one thread. `incarnation`: that of its ids. Each start of the
    core has another one, because numbers count from 1."""

    def __init__(self, node: str, incarnation: int, limits: Limits, now: Callable[[], Now]) -> None:
        state = State()
        state.apply(_FIRST, Start(1, node, incarnation))
        self.machine, self._now, self._next = Machine(state, limits), now, _FIRST + 1
        self.ages = Ages()

    def submit(self, event: Event) -> Submitted:
        """Carry out an event as `Store.submit` does; nothing waits for a disk."""
        notes: list[Note] = []
        try:
            answer = drive(self.machine.step(event, self._now()), self._number, notes)
        except (TransactionAborted, LogFull) as error:
            return Submitted(None, error, notes, None, False)
        return Submitted(answer, None, notes, None, False)

    def note_time(self) -> None:
        """Note the time, for the ages of transfers. Call it about once a second."""
        self.ages.note(self._next - 1, self._now().wall_ns)

    def _number(self, effect: Append) -> list[int]:
        lsns: list[int] = []
        for record in effect.records:
            lsns.append(self._next)
            self._next += len(record) if isinstance(record, Enqueue) else 1
        return lsns
