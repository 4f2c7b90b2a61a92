"""Checkpoint and recovery: a state as records, and from the records of a log to the state of before a crash.

A checkpoint is all of the state, in records of a bounded size: transfers with their small bodies, what has come, and
the rows of the open transactions. So an open transaction pins no record before the checkpoint, and recovery reads from
the last whole checkpoint on. A checkpoint that was interrupted counts for nothing. One that is not the first to be read
has to say what the records before it say.

Recovery is ARIES' analysis and redo in one pass; `undo_losers` does the rest. Letters are recovered by the run: the
records of a run differ in a few numbers and the bodies, so they are unpacked, and applied, together, with the same
state as one by one. What the first record is like is taken to hold for those behind it, and they are packed again: as
many of them as have the same bytes belong to its run. What no run may have is left to `State.apply`, which says what is
wrong with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice, repeat
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from rtmw.clock import CLOCK
from rtmw.text.units import size
from rtmw.transfer.duplicates import DIGEST, Ending, HighWater, OnceEntry
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.fields import Fields, packed_text
from rtmw.transfer.machine import COMMON
from rtmw.transfer.queues import Item, next_states
from rtmw.transfer.records import (
    ENDED,
    ITEM,
    LARGEST_PART,
    NONE,
    Change,
    ChangeRun,
    Checkpoint,
    Enqueue,
    EnqueuedRun,
    Record,
    Spooled,
    Take,
    TransferId,
    TransferState,
    Undone,
    changes_in,
    is_checkpoint,
    is_plain,
    letters_in,
    may_follow,
    pack,
    pack_life,
    pack_request,
    unpack,
    unpack_life,
    unpack_request,
)
from rtmw.transfer.state import Phase, SavepointEntry, State, Transaction, Undoable

__all__ = ["RUN_MOST", "Redo", "checkpoint_of", "pack_state", "redo", "saying", "unpack_state"]


_HEAD: Final = Struct("<QQQQ")
_COUNT: Final = Struct("<BQ")
_MARK: Final = Struct("<QqI")
_GAP: Final = Struct("<QQ")
_END: Final = Struct("<QQB")
_ITEM: Final = Struct("<QQQIBBH")
_ROW: Final = Struct("<QQQBBHIII")
_UNDOABLE: Final = Struct("<QQQQ")
_OWED: Final = Struct("<QQB")
_TOGETHER: Final = 64
"""Pieces that are joined at a time: with their bodies, letters of 200 bytes fill a part."""
_NEVER_TAKEN: Final = (
    _ITEM.pack(0, NONE, 0, 0, TransferState.ACCEPTED, 0, 0)[3 * 8 :] + pack_life(None) + packed_text("", "the cause")
)
_WAITING_FORM: Final = f"QQQ{len(_NEVER_TAKEN)}sI"
"""Number, transaction, what made it visible, _NEVER_TAKEN, and size of the record, which follows."""
_WAITING: Final = Struct(f"<{_WAITING_FORM}")


def checkpoint_of(state: State) -> Iterator[Checkpoint]:
    """Yield the records of a checkpoint: all of them, one after the other. They are made as they are asked for, so that
    a large state takes no memory as large again, which costs more than the packing."""
    parts = _cut(_packed(state))
    index, part = 0, next(parts)
    for following in parts:
        yield Checkpoint(index, False, part)
        index, part = index + 1, following
    yield Checkpoint(index, True, part)


def _cut(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join the pieces into parts of LARGEST_PART bytes; the last one may be smaller."""
    held = b""
    while some := list(islice(pieces, _TOGETHER)):
        held += b"".join(some)
        full = range(LARGEST_PART, len(held), LARGEST_PART)
        yield from (held[end - LARGEST_PART : end] for end in full)
        held = held[LARGEST_PART * len(full) :]
    yield held


def pack_state(state: State) -> bytes:
    """Return all of a state as bytes. Two states that hold the same have the same bytes."""
    return b"".join(_packed(state))


def _packed(state: State) -> Iterator[bytes]:
    yield _HEAD.pack(state.last_txn, state.life, state.sequence, state.incarnation) + packed_text(state.node, "node")
    yield from _packed_counts(state)
    yield from _packed_seen(state)
    yield from _packed_requests(state)
    yield from _packed_ends(state)
    yield from _packed_once(state)
    yield len(state.items).to_bytes(4, "little")
    yield from _packed_items(state)
    yield len(state.table).to_bytes(4, "little")
    yield from map(_packed_row, state.table.values())
    yield len(state.owed).to_bytes(4, "little")
    yield from (_packed_owed(id, *end) for id, end in state.owed.items())


def _packed_counts(state: State) -> Iterator[bytes]:
    yield len(state.counts).to_bytes(1, "little")
    yield from (_COUNT.pack(how, number) for how, number in sorted(state.counts.items()))


def _packed_seen(state: State) -> Iterator[bytes]:
    marks = state.seen.marks
    yield sum(map(len, marks.values())).to_bytes(4, "little")
    for node, known in marks.items():
        for incarnation, mark in known.items():
            yield packed_text(node, "node") + _MARK.pack(incarnation, mark.high, len(mark.gaps))
            yield from (_GAP.pack(*gap) for gap in mark.gaps)


def _packed_requests(state: State) -> Iterator[bytes]:
    yield len(state.requests.marks).to_bytes(4, "little")
    for producer, mark in state.requests.marks.items():
        yield pack_life(producer) + mark.high.to_bytes(8, "little") + len(mark.gaps).to_bytes(4, "little")
        yield from (_GAP.pack(*gap) for gap in mark.gaps)


def _packed_ends(state: State) -> Iterator[bytes]:
    yield len(state.ends).to_bytes(4, "little")
    for id, end in state.ends.items():
        yield _packed_end(id, end)


def _packed_end(id: TransferId, end: Ending | None) -> bytes:
    """State 0: it has not ended."""
    head = packed_text(id.node, "node") + _END.pack(id.incarnation, id.sequence, end.state if end else 0)
    return head + pack_request(end.request) + packed_text(end.cause, "the cause") if end else head


def _packed_once(state: State) -> Iterator[bytes]:
    yield len(state.once.entries).to_bytes(4, "little")
    for (sender, label), entry in state.once.entries.items():
        head = packed_text(sender, "the sender") + len(label).to_bytes(2, "little") + label + entry.digest
        yield head + len(entry.ids).to_bytes(2, "little")
        yield from (_packed_end(id, end) for id, end in entry.ids.items())


def _packed_items(state: State) -> Iterator[bytes]:
    """Yield the transfers in the order of their numbers. Letters of a run of which nobody has taken any are packed
    together."""
    pieces: list[tuple[int, Item | EnqueuedRun | bytes]] = list(state.items.made.items())
    for run in state.items.runs:
        waiting = run.waiting
        if len(waiting) == len(run):
            pieces.append((waiting[0], run))
        else:
            pieces += zip(waiting, compress(_packed_run(run), run.bodies), strict=True)
    for _, piece in sorted(pieces, key=itemgetter(0)):
        if isinstance(piece, EnqueuedRun):
            yield from _packed_run(piece)
        else:
            yield _packed_item(piece) if isinstance(piece, Item) else piece


def _packed_run(run: EnqueuedRun) -> Iterator[bytes]:
    """Yield each letter as `_packed_item` packs one that waits, and that nobody has taken."""
    beside = run.beside_body
    sizes = (beside + len(body) for body in run.bodies)
    return run.rows(_WAITING_FORM, run.lsns, repeat(NONE), run.lsns, repeat(_NEVER_TAKEN), sizes)


def _packed_item(item: Item) -> bytes:
    record = pack(item.record)
    numbers = _ITEM.pack(item.lsn, item.txn, item.visible, item.deliveries, item.state, 0, 0)
    cause = packed_text(item.cause, "the cause")
    return numbers + pack_life(item.taker) + cause + len(record).to_bytes(4, "little") + record


def _packed_row(row: Transaction) -> bytes:
    saves = list(row.savepoints())[::-1]
    head = row.txn, row.last_lsn, row.undo_next, row.phase, 0, 0, len(saves), len(row.undoable), 0
    return b"".join(
        (
            _ROW.pack(*head),
            *(entry.log_lsn.to_bytes(8, "little") + packed_text(entry.spname, "the name") for entry in saves),
            *(_UNDOABLE.pack(lsn, what, item, after) for lsn, (what, item, after) in row.undoable.items()),
        )
    )


def _packed_owed(id: TransferId, state: TransferState, cause: str) -> bytes:
    numbers = _OWED.pack(id.incarnation, id.sequence, state)
    return numbers + packed_text(id.node, "node") + packed_text(cause, "the cause")


def unpack_state(data: bytes, lsn: int) -> State:
    """Read a state. Raises TransfersDamaged. `lsn`: that of the checkpoint's first record."""
    fields, state = Fields(data, lsn, "checkpoint"), State()
    try:
        state.last_txn, state.life, state.sequence, state.incarnation = fields.numbers(_HEAD)
        state.node = fields.short_text()
        state.incarnations.add(state.incarnation)
        for _ in range(fields.number(1)):
            how, number = fields.numbers(_COUNT)
            state.counts[TransferState(how)] = number
        _read_seen(fields, state)
        _read_requests(fields, state)
        _read_ends(fields, state)
        _read_once(fields, state)
        _read_items(fields, state, lsn)
        for _ in range(fields.number(4)):
            _read_row(fields, state)
        for _ in range(fields.number(4)):
            _read_owed(fields, state)
    except ValueError as error:
        fields.wrong(str(error))
    fields.end()
    _check_holders(fields, state)
    return state


def _read_seen(fields: Fields, state: State) -> None:
    for _ in range(fields.number(4)):
        node = fields.short_text()
        incarnation, high, number = fields.numbers(_MARK)
        state.seen.marks.setdefault(node, {})[incarnation] = _read_mark(fields, high, number)


def _read_mark(fields: Fields, high: int, number: int) -> HighWater:
    gaps = [(gap[0], gap[1]) for gap in (fields.numbers(_GAP) for _ in range(number))]
    ends = [-2, *(end for gap in gaps for end in gap), high]
    if any(ends[at] > ends[at + 1] - (at + 1) % 2 for at in range(len(ends) - 1)) or high < -1:
        fields.wrong(f"gaps {gaps} below {high}")
    return HighWater(high, gaps)


def _read_requests(fields: Fields, state: State) -> None:
    for _ in range(fields.number(4)):
        producer = unpack_life(fields)
        high, number = fields.number(8), fields.number(4)
        if producer is None or producer in state.requests.marks:
            fields.wrong(f"requests of {producer or 'nobody'}, which cannot be")
        state.requests.marks[producer] = _read_mark(fields, high, number)


def _read_ends(fields: Fields, state: State) -> None:
    for _ in range(fields.number(4)):
        id, end = _read_end(fields)
        if id in state.ends or end is None:
            fields.wrong(f"the end of transfer {id}: {end}, which cannot be")
        state.ends[id] = end
        state.note_answer(end.request, id)


def _read_end(fields: Fields) -> tuple[TransferId, Ending | None]:
    node = fields.short_text()
    incarnation, sequence, how = fields.numbers(_END)
    id = TransferId(node, incarnation, sequence)
    if not how:
        return id, None
    end, request = TransferState(how), unpack_request(fields)
    if end not in ENDED or request is None:
        fields.wrong(f"transfer {id} has ended as {end.name}, which cannot be")
    return id, Ending(end, fields.short_text(), request)


def _read_once(fields: Fields, state: State) -> None:
    for _ in range(fields.number(4)):
        key = fields.short_text(), bytes(fields.bytes(fields.number(2)))
        entry = state.once.entries[key] = OnceEntry(bytes(fields.bytes(DIGEST)))
        for _ in range(fields.number(2)):
            id, end = _read_end(fields)
            entry.ids[id] = end


def _read_items(fields: Fields, state: State, before: int) -> None:
    """Read the transfers. Letters of a run mostly lie one after the other, and are read together."""
    left, most, after = fields.number(4), RUN_MOST, NONE
    while left:
        most = min(most, left)
        letters = _waiting(fields.rest(), most, range(after + 1, before)) if most > 1 else []
        found = _keep_letters(fields, state, letters) if letters else 0
        if found:
            after = letters[found - 1].lsn
        else:
            after, found = max(after, _read_item(fields, state, before)), 1
        left, most = left - found, most_next(most, found)


class _Letter(NamedTuple):
    """A transfer that waits, and that nobody has taken."""

    lsn: int
    record: bytes
    end: int
    """Where it ends, in the bytes in which it was found."""


def _waiting(data: memoryview, most: int, numbers: range) -> list[_Letter]:
    """Return the transfers at the front that wait and were never taken, at most `most`, in ascending order."""
    letters: list[_Letter] = []
    at = 0
    while len(letters) < most and len(data) - at >= _WAITING.size:
        lsn, txn, visible, same, size = _WAITING.unpack_from(data, at)
        begin, at = at + _WAITING.size, at + _WAITING.size + size
        if same != _NEVER_TAKEN or txn or visible != lsn or lsn not in numbers or at > len(data):
            break
        letters.append(_Letter(lsn, bytes(data[begin:at]), at))
        numbers = range(lsn + 1, numbers.stop)
    return letters


def _keep_letters(fields: Fields, state: State, letters: list[_Letter]) -> int:
    """Keep those at the front that are a run, and return how many."""
    lsns, records, ends = zip(*letters, strict=True)
    first = unpack(records[0], lsns[0])
    found = keep_run(state, first, lsns, records) if isinstance(first, Enqueue) else 0
    if found:
        fields.bytes(ends[found - 1])
    return found


def _read_item(fields: Fields, state: State, before: int) -> int:
    """Read a transfer, and return its number."""
    lsn, txn, visible, deliveries, how, *zeros = fields.numbers(_ITEM)
    taker, cause = unpack_life(fields), fields.short_text()
    record = unpack(fields.bytes(fields.number(4)), lsn)
    if not isinstance(record, Enqueue) or any(zeros) or lsn >= before or lsn in state.items:
        fields.wrong(f"transfer {lsn}, which cannot be")
    item = Item(lsn, record, TransferState(how), txn, taker, deliveries, cause, visible)
    state.keep(item)
    if item.state is TransferState.ACCEPTED:
        state.put(item)
    return lsn


def _read_row(fields: Fields, state: State) -> None:
    txn, last_lsn, undo_next, phase, *_, saves, undoable, _ = fields.numbers(_ROW)
    if txn in state.table or not 0 < txn <= state.last_txn:
        fields.wrong(f"transaction {txn}, which cannot be")
    row = state.table[txn] = Transaction(txn, Phase(phase), last_lsn, undo_next)
    for _ in range(saves):
        log_lsn = fields.number(8)
        row.save_list = SavepointEntry(fields.short_text(), log_lsn, row.save_list)
    for _ in range(undoable):
        lsn, what, item, after = fields.numbers(_UNDOABLE)
        row.undoable[lsn] = Undoable(Undone(what), item, after)
        if what == Undone.SAVEPOINT:
            continue
        row.items += 1
        if item not in state.items or state.items[item].txn != txn:
            fields.wrong(f"transaction {txn} has transfer {item}, which it does not hold")
        row.bytes += state.items[item].record.header.length if what == Undone.ENQUEUE else 0


def _read_owed(fields: Fields, state: State) -> None:
    incarnation, sequence, how = fields.numbers(_OWED)
    id = TransferId(fields.short_text(), incarnation, sequence)
    if state.is_own(id) or id in state.owed:
        fields.wrong(f"the end of {id}, which cannot be owed")
    state.owed[id] = TransferState(how), fields.short_text()


def _check_holders(fields: Fields, state: State) -> None:
    held = {item.lsn for item in state.items.made.values() if item.txn}
    named = {
        entry.item
        for row in state.table.values()
        for entry in row.undoable.values()
        if entry.what is not Undone.SAVEPOINT
    }
    if held != named:
        fields.wrong(f"transfers that transactions hold, and which they do not name: {sorted(held ^ named)[:5]}")


RUN_MOST: Final = 256
"""Largest number of records that are looked at together."""


def redo_run(state: State, first: Record, lsns: Sequence[int], records: Sequence[bytes]) -> int:
    """Apply the run at the front of these records, of which `first` is the first one, and return how many it has. 0:
    nothing was applied. The records are two or more."""
    if isinstance(first, Enqueue):
        return _redo_letters(state, first, lsns, records)
    if isinstance(first, Take | Change) and first.txn == NONE and records[0][:ITEM] == records[1][:ITEM]:
        return _redo_changes(state, changes_in(first, records))
    return 0


def _is_common(record: Enqueue) -> bool:
    """Does it go the common way (machine.py)?"""
    is_alone = record.txn == record.prev == NONE and not isinstance(record.body, Spooled)
    is_special = record.life is not None or record.deadline_ns or record.copy or record.once
    return is_alone and not is_special and is_plain(record.header)


def _run_at(first: Enqueue, lsns: Sequence[int], records: Sequence[bytes]) -> EnqueuedRun | None:
    """Return the run at the front of these records; None: the first two are not of one run of the common way."""
    if len(records) == 1 or not may_follow(first, records[0], records[1]) or not _is_common(first):
        return None
    run = letters_in(first, records)
    run.lsns = lsns[: len(run)]
    return run if run.bodies else None


def _redo_letters(state: State, first: Enqueue, lsns: Sequence[int], records: Sequence[bytes]) -> int:
    run, request = _run_at(first, lsns, records), first.request
    if run is None:
        return 0
    if state.is_own(first.id):
        if request is None or not (state.seen.is_next(first.id) and state.requests.is_new(request)):
            return 0
        state.apply_run(run, request)
    else:
        ids = run.ids
        if request is not None or len(set(ids)) < len(ids) or any(map(state.has_come, ids)):
            return 0
        state.apply_arrivals(run, ids)
    return len(run)


def _redo_changes(state: State, run: ChangeRun) -> int:
    items = [item for lsn in dict.fromkeys(run.items) if (item := state.items.get(lsn)) is not None]
    if len(items) < len(run):
        return 0
    if isinstance(run.model, Take):
        taker = run.model.life
        if any(item.state is not TransferState.ACCEPTED or item.record.life not in (None, taker) for item in items):
            return 0
        state.hand_run(items, taker)
    else:
        wanted = run.model.state
        if run.model.cause or wanted not in COMMON or not all(_may_become(item, wanted) for item in items):
            return 0
        state.settle_run(items, wanted)
    return len(run)


def _may_become(item: Item, wanted: TransferState) -> bool:
    return not item.txn and wanted in next_states(item) and not isinstance(item.record.body, Spooled)


def keep_run(state: State, first: Enqueue, lsns: Sequence[int], records: Sequence[bytes]) -> int:
    """Keep the run at the front of these records of a checkpoint, of letters that wait and were never taken. Returns
    how many it has; 0: nothing was kept. `lsns`: in ascending order, above those of all transfers that the state
    has."""
    run = _run_at(first, lsns, records)
    if run is None or (first.request is None) is state.is_own(first.id):
        return 0
    state.keep_run(run)
    return len(run)


def most_next(most: int, found: int) -> int:
    """Return how many records to look at next, where `found` of `most` were a run: what is looked at in vain stays in
    proportion to what was found."""
    return min(RUN_MOST, 2 * most) if found == most else 1


log = logging.getLogger("rtmw.transfer")

EVERY_S: Final = 2.0
"""Seconds. A start that takes longer says so, and says again after as long how far it is."""
LOOK: Final = 1024
"""Number of records after which the clock is looked at."""


class Redo:
    """Takes the records of a log one after the other."""

    def __init__(self) -> None:
        self.state: State | None = None
        """The state so far; None: no whole checkpoint has come yet."""
        self.checkpoint = 0
        """LSN of the last whole checkpoint."""
        self._parts: list[bytes] = []
        self._first = 0

    def take_all(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Take all records, in the order of the log; those of a run together. Raises TransfersDamaged, with the
        position of a record."""
        left, most = iter(records), RUN_MOST
        self._skip(left)
        some: list[tuple[int, bytes]] = []
        while some := [*some, *islice(left, max(0, most - len(some)))]:
            found = self._take_some(some[:most])
            some, most = some[found:], most_next(most, found)

    def _skip(self, records: Iterator[tuple[int, bytes]]) -> None:
        """Skip up to the end of the first whole checkpoint. Records before it are not unpacked, and do not count."""
        while self.state is None and (one := next(records, None)) is not None:
            if is_checkpoint(one[1]):
                self.take(*one)
            else:
                self._parts.clear()

    def _take_some(self, records: Sequence[tuple[int, bytes]]) -> int:
        """Take the first of these records, and those that are a run with it. Returns how many."""
        lsn, data = records[0]
        record, found = unpack(data, lsn), 0
        if self.state is not None and len(records) > 1:
            found = redo_run(self.state, record, *zip(*records, strict=True))
        if found:
            self._parts.clear()
        else:
            self._take(lsn, record)
        return max(1, found)

    def take(self, lsn: int, data: bytes) -> None:
        """Take a record. Raises TransfersDamaged, with its position."""
        self._take(lsn, unpack(data, lsn))

    def _take(self, lsn: int, record: Record) -> None:
        if isinstance(record, Checkpoint):
            self._take_part(lsn, record)
            return
        self._parts.clear()
        if self.state is not None:
            self.state.apply(lsn, record)

    def _take_part(self, lsn: int, record: Checkpoint) -> None:
        if record.index == 0:
            self._parts.clear()
            self._first = lsn
        if record.index != len(self._parts):
            if self.state is None:  # the log was trimmed in the middle of it
                return
            raise TransfersDamaged(
                f"the record at {lsn} is part {record.index} of a checkpoint, and not the next one", lsn
            )
        self._parts.append(record.data)
        if record.last:
            self._finish()

    def _finish(self) -> None:
        data = b"".join(self._parts)
        self._parts.clear()
        if self.state is None:
            self.state = unpack_state(data, self._first)
        elif pack_state(self.state) != data:
            raise TransfersDamaged(
                f"the checkpoint at {self._first} is not what the records before it say", self._first
            )
        self.checkpoint = self._first


def saying(records: Iterable[tuple[int, bytes]], end: int, every: float = EVERY_S) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a log that ends at `end`. If they take long, the log of the program says every `every`
    seconds how far they have come."""
    due, first = CLOCK.monotonic() + every, None
    for count, (lsn, data) in enumerate(records):
        first = lsn if first is None else first
        if count % LOOK == 0 and CLOCK.monotonic() >= due:
            due = CLOCK.monotonic() + every
            log.info("reads the log of its transfers: %s of %s", size(lsn - first), size(end - first))
        yield lsn, data


def redo(records: Iterable[tuple[int, bytes]]) -> Redo:
    """Take all records, in the order of the log."""
    done = Redo()
    done.take_all(records)
    return done
