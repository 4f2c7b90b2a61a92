"""Checkpoint and recovery: a state as records, and from the records of a log to the state of before a crash.

A checkpoint is all of the state, in records of a bounded size: transfers with their small bodies, what has come, and
the rows of the open transactions. So an open transaction pins no record before the checkpoint, and recovery reads from
the last whole checkpoint on. A checkpoint that was interrupted counts for nothing. One that is not the first to be read
has to say what the records before it say.

Recovery is ARIES' analysis and redo in one pass; `undo_losers` does the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from rtmw.clock import CLOCK
from rtmw.text.units import size
from rtmw.transfer.duplicates import DIGEST, Ending, HighWater, OnceEntry
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.fields import Fields, packed_text
from rtmw.transfer.queues import Item
from rtmw.transfer.records import (
    ENDED,
    LARGEST_PART,
    NONE,
    Checkpoint,
    Enqueue,
    TransferId,
    TransferState,
    Undone,
    is_checkpoint,
    pack,
    pack_life,
    pack_request,
    unpack,
    unpack_life,
    unpack_request,
)
from rtmw.transfer.state import Phase, SavepointEntry, State, Transaction, Undoable

__all__ = ["Redo", "checkpoint_of", "pack_state", "redo", "saying", "unpack_state"]


_HEAD: Final = Struct("<QQQQ")
_COUNT: Final = Struct("<BQ")
_MARK: Final = Struct("<QqI")
_GAP: Final = Struct("<QQ")
_END: Final = Struct("<QQB")
_ENQUEUED: Final = Struct("<QI")
"""LSN, and size of the ENQUEUE behind it."""
_TOUCHED: Final = Struct("<HQQIBB")
_ROW: Final = Struct("<QQQBBHIII")
_UNDOABLE: Final = Struct("<QQQQ")
_OWED: Final = Struct("<QQB")


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
    held, size = list[bytes](), 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > LARGEST_PART:
            data = b"".join(held)
            full = range(LARGEST_PART, size, LARGEST_PART)
            yield from (data[end - LARGEST_PART : end] for end in full)
            held = [data[LARGEST_PART * len(full) :]]
            size = len(held[0])
    yield b"".join(held)


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


class _Kept(NamedTuple):
    """An ENQUEUE of a transfer, or of letters in a row that came together, of which none has ended."""

    lsn: int
    record: Enqueue
    begin: int = 0
    """The first letter, and behind the last one, as indexes in the record."""
    end: int = 1


def _packed_items(state: State) -> Iterator[bytes]:
    """Yield the transfers in the order of their numbers."""
    made = state.items.made
    kept = [_Kept(lsn, item.record) for lsn, item in made.items() if item.run is None]
    kept += (
        _Kept(run.lsn + begin, run.record, begin, end) for run in state.items.runs for begin, end in run.stretches()
    )
    yield len(kept).to_bytes(4, "little")
    for lsn, record, begin, end in sorted(kept, key=itemgetter(0)):
        data = pack(record if end - begin == len(record) else record.part(begin, end))
        items = [made.get(number) for number in range(lsn, lsn + end - begin)]
        touched = [_packed_item(at, item) for at, item in enumerate(items) if item and not item.is_untouched]
        yield b"".join((_ENQUEUED.pack(lsn, len(data)), data, len(touched).to_bytes(2, "little"), *touched))


def _packed_item(index: int, item: Item) -> bytes:
    numbers = _TOUCHED.pack(index, item.txn, item.visible, item.deliveries, item.state, 0)
    return numbers + pack_life(item.taker) + packed_text(item.cause, "the cause")


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
    after = NONE
    for _ in range(fields.number(4)):
        lsn, size = fields.numbers(_ENQUEUED)
        record = unpack(fields.bytes(size), lsn)
        if not isinstance(record, Enqueue) or not after < lsn < before:
            fields.wrong(f"transfer {lsn}, which cannot be")
        after = lsn + len(record) - 1
        if len(record) > 1:
            state.keep_run(lsn, record)
        touched = range(-1, len(record))
        for _ in range(fields.number(2)):
            index, *numbers = fields.numbers(_TOUCHED)
            if index not in touched[1:]:
                fields.wrong(f"letter {index} of {len(record)} at {lsn}, which cannot be")
            touched = range(index, len(record))
            _read_item(fields, state, lsn + index, record, numbers)
        if len(record) == 1 and lsn not in state.items:
            _keep_alone(state, Item(lsn, record, TransferState.ACCEPTED, visible=lsn))


def _read_item(fields: Fields, state: State, lsn: int, record: Enqueue, numbers: Sequence[int]) -> None:
    """Read what one transfer has become."""
    txn, visible, deliveries, how, zero = numbers
    item = Item(lsn, record, TransferState(how), txn) if len(record) == 1 else state.items[lsn]
    item.state, item.txn, item.visible, item.deliveries = TransferState(how), txn, visible, deliveries
    item.taker, item.cause = unpack_life(fields), fields.short_text()
    if zero or item.is_untouched or (txn and len(record) > 1 and not deliveries):
        fields.wrong(f"transfer {lsn} in state {item.state.name} of transaction {txn}, which cannot be")
    if len(record) == 1:
        _keep_alone(state, item)


def _keep_alone(state: State, item: Item) -> None:
    state.keep(item)
    if item.state is TransferState.ACCEPTED:
        state.put(item)


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
        """Take all records, in the order of the log. Raises TransfersDamaged, with the position of a record. Records
        before the first whole checkpoint are not unpacked, and do not count."""
        for lsn, data in records:
            if self.state is None and not is_checkpoint(data):
                self._parts.clear()
            else:
                self.take(lsn, data)

    def take(self, lsn: int, data: bytes) -> None:
        """Take a record. Raises TransfersDamaged, with its position."""
        record = unpack(data, lsn)
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
