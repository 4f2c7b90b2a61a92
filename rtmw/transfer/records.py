"""The records of the transaction log (T10): the paper's, and those that checkpoints and restarts need.

A record says what was decided, and never what has to be decided when it is read: so applying a record (`State.apply`)
needs no settings, no clock and no luck, and gives after a crash what it gave before.

The LSN of a record is its position in the `rtmw.Log`. Position 0 holds no record of a transaction, and so 0 means
"none".

`pack` and `unpack` have the records as bytes, which are read strictly; docs/formats/transfer-format.md has each field.

A record holds a run: an ENQUEUE one letter or several, a TAKE and a CHANGE the numbers of one or several. The number of
a letter is the LSN of its ENQUEUE and its index there: a record has more bytes than letters, so no other one has it.
Letters of one ENQUEUE have one sender, and headers that differ in the length of the body alone. Each of them goes the
common way (`machine.py`); whatever does not is alone in its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from rtmw.transfer.address import Life, Reach, life_of
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.fields import Fields, check_range, packed_text
from rtmw.transfer.header import Header, Kind, header_of, resized, unpack_header

__all__ = [
    "Abort",
    "AbortCause",
    "Change",
    "Checkpoint",
    "Clr",
    "Commit",
    "End",
    "Enqueue",
    "Forget",
    "Record",
    "Release",
    "Request",
    "Savepoint",
    "Settled",
    "Spooled",
    "Start",
    "Take",
    "TransferId",
    "TransferState",
    "Undone",
    "arriving_id",
    "is_arriving",
    "is_checkpoint",
    "is_letter",
    "is_plain",
    "own_id",
    "pack",
    "pack_life",
    "pack_request",
    "unpack",
    "unpack_life",
    "unpack_request",
]


NONE: Final = 0
"""Stands where there is no LSN, or no transaction."""
NEVER_LOGGED: Final = 1 << 62
"""Numbers from here on stand in place of LSNs, for transfers that no log keeps."""
LARGEST_INLINE: Final = 4095
"""Bytes of the largest body that lies in its record: less than 4 KiB (T9)."""
LARGEST_PART: Final = 32 << 10
"""Bytes of a checkpoint in one record: it fits into the smallest segment of a log."""


class TransferState(IntEnum):
    """The state of a transfer; docs/transfer.md has the diagram."""

    HELD = 0
    """Enqueued in a transaction that is open: invisible."""
    ACCEPTED = 1
    """It is in its queue."""
    SENT = 2
    """The core of the receiver's node has it."""
    DELIVERED = 3
    """A process has taken it, and is not done with it."""
    CONSUMED = 4
    EXPIRED = 5
    """Its lifetime ended before anybody took it."""
    REFUSED = 6
    """The receiver does not want it."""
    CANCELLED = 7
    """Its sender has cancelled it."""
    DEAD = 8
    """A dead letter: delivered too often, or its receiver has ended. It stays until it is retried or cancelled."""
    UNKNOWN = 9
    """Nobody knows: its core was started anew, and no log has it. Never logged."""

    __hash__ = int.__hash__  # that of Enum is Python, and these are keys wherever a transfer moves


ENDED: Final = frozenset(
    {TransferState.CONSUMED, TransferState.EXPIRED, TransferState.REFUSED, TransferState.CANCELLED}
)
"""The transfer is in no queue any more, and its body is freed."""


class Undone(IntEnum):
    """The kind of record that a CLR has undone."""

    ENQUEUE = 1
    TAKE = 2
    """The transfer is back in its place."""
    TAKE_DEAD = 3
    """The transfer was delivered so often that it is a dead letter now."""
    SAVEPOINT = 4


class AbortCause(IntEnum):
    """Why a transaction is undone as a whole."""

    ASKED = 0
    AGE = 1
    SIZE = 2
    ENDED = 3
    """Its program has ended."""
    RESTART = 4
    """The core was started anew."""


class TransferId(NamedTuple):
    """Which transfer it is, everywhere and for ever."""

    node: str
    incarnation: int
    """Names the store of the node: when it was made, in nanoseconds since 1970."""
    sequence: int

    def __str__(self) -> str:
        return f"{self.node}:{self.incarnation:x}:{self.sequence:x}"

    @classmethod
    def parse(cls, written: str) -> TransferId:
        """Read an id as `str` writes it. Raises ValueError."""
        node, *numbers = written.rsplit(":", 2)
        try:
            incarnation, sequence = (int(number, 16) for number in numbers)
        except ValueError:
            raise ValueError(f"{written!r} is no id of a transfer; `rtmw transfers` shows them") from None
        return cls(node, incarnation, sequence)


_ARRIVING: Final = 1 << 63


def is_letter(header: Header) -> bool:
    """May it go in runs? Its body lies in its record, and it has no lifetime that is to be watched."""
    return header.kind is Kind.BUF and not header.lifetime_ns and header.length <= LARGEST_INLINE


def is_plain(header: Header) -> bool:
    """May letters with this header go the common way? What says no has to be looked at one by one."""
    return is_letter(header) and header.to.reach is Reach.ANY


def arriving_id(id: TransferId) -> TransferId:
    """Return the id of the arriving half of a transfer that a node carries to itself. Bit 63 of its incarnation is set;
    all other incarnations are below 2^63."""
    return TransferId(id.node, id.incarnation | _ARRIVING, id.sequence)


def is_arriving(id: TransferId, node: str) -> bool:
    """Is this the id of an arriving half, at this node?"""
    return id.node == node and bool(id.incarnation & _ARRIVING)


def own_id(id: TransferId) -> TransferId:
    """Return the id that the transfer of an arriving half has for programs."""
    return TransferId(id.node, id.incarnation & ~_ARRIVING, id.sequence)


@dataclass(frozen=True, slots=True)
class Spooled:
    """A body that lies in a file of the spool."""

    name: str
    size: int


class Request(NamedTuple):
    """The number of a request of a program: a core recognizes the request by it when it comes again after a crash."""

    producer: Life
    number: int
    """The numbers of a producer begin at 1. 0: part of a transaction, which is known by the number of its COMMIT."""


@dataclass(slots=True)  # frozen, its making would take twice as long, and each letter has one
class Enqueue:
    """Transfers are put into their queue: one, or several letters that go the common way. Nobody changes it."""

    txn: int
    prev: int
    id: TransferId
    """The id of the first one."""
    header: Header
    """The header of the first one; those of the others differ in the length alone."""
    bodies: Sequence[bytes | Spooled]
    """One for each. A body in a file is alone."""
    sender: str = ""
    life: Life | None = None
    """The only receiver that it may go to; None: any."""
    deadline_ns: int = NONE
    """Wall clock, nanoseconds since 1970; 0: none."""
    copy: int = 0
    """Index of the receiver that this copy for `service/*` is for; all copies have the id of the transfer."""
    request: Request | None = None
    """The request of the program that has sent the first one; those of the others follow one after the other, and so do
    the sequences of their ids. None: they came from another node."""
    once: bytes = b""
    """The id that its sender has chosen (duplicates.py); empty: none."""
    others: Sequence[int] = ()
    """The sequences of the ids behind the first one, of letters that came from another node."""

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def body(self) -> bytes | Spooled:
        """The body of a transfer that is alone."""
        return self.bodies[0]

    @property
    def sequences(self) -> Sequence[int]:
        """The sequences of all ids."""
        first = self.id.sequence
        return range(first, first + len(self.bodies)) if self.request is not None else (first, *self.others)

    @property
    def ids(self) -> list[TransferId]:
        node, incarnation, _ = self.id
        return [TransferId(node, incarnation, sequence) for sequence in self.sequences]

    def letter(self, at: int) -> Enqueue:
        """Return the record that one letter of this one would have."""
        (node, incarnation, sequence), request, body = self.id, self.request, self.bodies[at]
        if request is not None:
            sequence, request = sequence + at, Request(request.producer, request.number + at)
        elif at:
            sequence = self.others[at - 1]
        header, length = self.header, len(body)  # type: ignore[arg-type]
        if header.length != length:
            header = resized(header, length)
        id = TransferId(node, incarnation, sequence)
        return Enqueue(NONE, NONE, id, header, (body,), self.sender, None, NONE, 0, request)

    def part(self, begin: int, end: int) -> Enqueue:
        """Return the record that letters in a row of this one would have."""
        bodies, sequences, request = self.bodies[begin:end], self.sequences[begin:end], self.request
        id = TransferId(self.id.node, self.id.incarnation, sequences[0])
        told = None if request is None else Request(request.producer, request.number + begin)
        others = sequences[1:] if request is None else ()
        header = resized(self.header, len(bodies[0]))  # type: ignore[arg-type]
        return Enqueue(NONE, NONE, id, header, bodies, self.sender, request=told, others=others)


@dataclass(frozen=True, slots=True)
class Take:
    """Transfers are handed to a process."""

    txn: int
    prev: int
    items: Sequence[int]
    """The numbers of the transfers, each once; in a transaction, of one."""
    life: Life


@dataclass(frozen=True, slots=True)
class Savepoint:
    txn: int
    prev: int
    name: str


@dataclass(frozen=True, slots=True)
class Release:
    """A savepoint is destroyed, and those after it."""

    txn: int
    prev: int
    savepoint: int
    """LogLsn of the savepoint."""


@dataclass(frozen=True, slots=True)
class Clr:
    """A record was undone; this one never is."""

    txn: int
    prev: int
    undone: int
    """LSN of the record that was undone."""
    undo_next: int
    """UndoNxtLSN: the record that is to be undone next."""
    what: Undone


@dataclass(frozen=True, slots=True)
class Commit:
    txn: int
    prev: int
    effects: int
    """Number of sends and takes that it makes valid."""
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """All of the transaction is being undone."""

    txn: int
    prev: int
    cause: AbortCause


@dataclass(frozen=True, slots=True)
class End:
    """Nothing remains to be done for the transaction."""

    txn: int
    prev: int


@dataclass(frozen=True, slots=True)
class Change:
    """Transfers that no transaction holds change their state."""

    items: Sequence[int]
    """The numbers of the transfers, each once."""
    state: TransferState
    cause: str = ""
    txn: int = NONE
    prev: int = NONE


@dataclass(frozen=True, slots=True)
class Start:
    """A core begins; the transfers that begin here have sequences with `life` in the upper 32 bits."""

    life: int
    node: str
    incarnation: int
    """Incarnation of the ids that this store gives."""
    txn: int = NONE
    prev: int = NONE


@dataclass(frozen=True, slots=True)
class Forget:
    """A producer has ended, and asks for nothing again."""

    producer: Life
    txn: int = NONE
    prev: int = NONE


@dataclass(frozen=True, slots=True)
class Settled:
    """The node where a transfer began knows how it has ended here: nobody asks for it again."""

    id: TransferId
    txn: int = NONE
    prev: int = NONE


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A part of all that the records before it have come to."""

    index: int
    last: bool
    data: bytes
    txn: int = NONE
    prev: int = NONE


Record: TypeAlias = (
    Enqueue | Take | Savepoint | Release | Clr | Commit | Abort | End | Change | Start | Checkpoint | Forget
    | Settled
)  # fmt: skip


VERSION: Final = 2
(
    _ENQUEUE, _TAKE, _SAVEPOINT, _CLR, _COMMIT, _ABORT, _END, _RELEASE, _CHANGE, _START, _CHECKPOINT, _FORGET, _SETTLED,
) = range(1, 14)  # fmt: skip
_IN_TRANSACTION: Final = frozenset(range(_ENQUEUE, _CHANGE))

_HEAD: Final = Struct("<BBHIQQ")
_LIFE: Final = Struct("<IIQ")
_ID: Final = Struct("<QQ")
_ENQUEUED: Final = Struct("<QQQIIIQIIQQ")
"""Id, deadline, copy, receiver, and request with its producer."""
_UNDONE: Final = Struct("<QQBBHI")
_PART: Final = Struct("<IBBH")


def pack(record: Record) -> bytes:
    """Return a record as bytes. Raises ValueError: a text or a body is too long."""
    kind, content = _packed(record)
    return _HEAD.pack(VERSION, kind, 0, 0, record.txn, record.prev) + content


def _packed(record: Record) -> tuple[int, bytes]:
    match record:
        case Enqueue():
            return _ENQUEUE, _pack_enqueue(record)
        case Take(items=items, life=life):
            return _TAKE, _eight(items[0]) + pack_life(life) + _pack_numbers(items[1:])
        case Savepoint(name=name):
            return _SAVEPOINT, packed_text(name, "the name of a savepoint")
        case Clr():
            return _CLR, _UNDONE.pack(record.undone, record.undo_next, record.what, 0, 0, 0)
        case Commit(effects=effects):
            return _COMMIT, effects.to_bytes(4, "little") + pack_request(record.request)
        case Abort(cause=cause):
            return _ABORT, bytes([cause])
        case End():
            return _END, b""
        case Release(savepoint=savepoint):
            return _RELEASE, _eight(savepoint)
        case Change(items=items, state=state, cause=cause):
            told = _eight(items[0]) + bytes([state]) + packed_text(cause, "the cause")
            return _CHANGE, told + _pack_numbers(items[1:])
        case Start(life=life):
            return _START, life.to_bytes(4, "little") + _eight(record.incarnation) + packed_text(
                record.node, "the node"
            )
        case Forget(producer=producer):
            return _FORGET, pack_life(producer)
        case Settled(id=id):
            return _SETTLED, _ID.pack(id.incarnation, id.sequence) + packed_text(id.node, "the node")
        case Checkpoint(index=index, last=last, data=data):
            return _CHECKPOINT, _PART.pack(index, last, 0, 0) + data


def unpack(data: bytes | memoryview, lsn: int) -> Record:
    """Read a record. Raises TransfersDamaged, with its position."""
    fields = Fields(data, lsn, "record")
    version, kind, zero, zeros, txn, prev = fields.numbers(_HEAD)
    if version != VERSION:
        fields.wrong(f"version {version} of the format, where {VERSION} is known; use the rtmw that wrote it")
    if zero or zeros or (prev != NONE and prev >= lsn):
        fields.wrong(f"a head that cannot be: prevLSN {prev}, {zero}, {zeros}")
    if (txn == NONE) == (kind in _IN_TRANSACTION) and kind not in (_ENQUEUE, _TAKE):
        fields.wrong(f"a record of kind {kind} with transaction {txn}")
    if txn == NONE and prev != NONE:
        fields.wrong(f"prevLSN {prev} without a transaction")
    try:
        record = _unpacked(fields, kind, (txn, prev, lsn))
    except ValueError as error:
        fields.wrong(str(error))
    fields.end()
    return record


def is_checkpoint(data: bytes) -> bool:
    """Is this record a part of a checkpoint? Nothing else of it is looked at."""
    return data[1:2] == _CHECKPOINT.to_bytes(1)


def _unpacked(fields: Fields, kind: int, head: tuple[int, int, int]) -> Record:
    """`head`: transaction, prevLSN, and LSN."""
    txn, prev, lsn = head
    if txn == NONE and kind not in (_ENQUEUE, _TAKE):
        return _unpack_outside(fields, kind)
    match kind:
        case 1:
            return _unpack_enqueue(fields, txn, prev, lsn)
        case 2:
            return _unpack_take(fields, txn, prev)
        case 3:
            return Savepoint(txn, prev, fields.short_text())
        case 4:
            return _unpack_clr(fields, txn, prev)
        case 5:
            return Commit(txn, prev, fields.number(4), unpack_request(fields))
        case 6:
            return Abort(txn, prev, AbortCause(fields.number(1)))
        case 7:
            return End(txn, prev)
        case _:
            return Release(txn, prev, fields.number(8))


def _unpack_outside(fields: Fields, kind: int) -> Record:
    """Read a record that belongs to no transaction."""
    match kind:
        case 9:
            first, state, cause = fields.number(8), TransferState(fields.number(1)), fields.short_text()
            return Change(_unpack_items(fields, first), state, cause)
        case 10:
            life, incarnation = fields.number(4), fields.number(8)
            return Start(life, fields.short_text(), incarnation)
        case 11:
            return _unpack_checkpoint(fields)
        case 12:
            return Forget(_unpack_process(fields, "FORGET of"))
        case 13:
            incarnation, sequence = fields.numbers(_ID)
            return Settled(TransferId(fields.short_text(), incarnation, sequence))
        case _:
            fields.wrong(f"a record of kind {kind}, which version {VERSION} does not have")


def pack_life(life: Life | None) -> bytes:
    return _LIFE.pack(0, 0, 0) if life is None else _LIFE.pack(life.pid, life.generation, life.start)


def unpack_life(fields: Fields) -> Life | None:
    return _life(fields, *fields.numbers(_LIFE))


def _life(fields: Fields, pid: int, generation: int, start: int) -> Life | None:
    if not pid and (generation or start):
        fields.wrong("a life without a process")
    return life_of(pid, start, generation) if pid else None


def pack_request(request: Request | None) -> bytes:
    return pack_life(None) + _eight(0) if request is None else pack_life(request.producer) + _eight(request.number)


def unpack_request(fields: Fields) -> Request | None:
    return _request(fields, unpack_life(fields), fields.number(8))


def _request(fields: Fields, producer: Life | None, number: int) -> Request | None:
    if producer is None and number:
        fields.wrong(f"request {number} of nobody")
    return Request(producer, number) if producer is not None else None


def _pack_numbers(numbers: Sequence[int]) -> bytes:
    return _array("Q", len(numbers)).pack(*numbers) if numbers else b""


@lru_cache(maxsize=512)
def _array(form: str, count: int) -> Struct:
    """The layout of `count` numbers; remembered, because senders and receivers repeat themselves."""
    return Struct(f"<{count}{form}")


def _unpack_items(fields: Fields, first: int) -> tuple[int, ...]:
    """Read the numbers up to the end, behind the first one."""
    count, rest = divmod(fields.left(), 8)
    if rest:
        fields.wrong(f"{rest} bytes too many")
    items = (first, *fields.numbers(_array("Q", count))) if count else (first,)
    if len(set(items)) < len(items):
        fields.wrong(f"{len(items)} transfers, of which {len(set(items))} are different ones")
    return items


def _pack_enqueue(record: Enqueue) -> bytes:
    id, header = record.id, record.header.pack()
    check_range("sequence", id.sequence, (1 << 64) - 1)
    return b"".join(
        (
            _ID.pack(id.incarnation, id.sequence),
            _eight(record.deadline_ns),
            record.copy.to_bytes(4, "little"),
            pack_life(record.life),
            pack_request(record.request),
            packed_text(id.node, "the node"),
            packed_text(record.sender, "the sender"),
            len(record.once).to_bytes(2, "little"),
            record.once,
            len(header).to_bytes(2, "little"),
            header,
            *_packed_bodies(record),
        )
    )


def _packed_bodies(record: Enqueue) -> Sequence[bytes]:
    if isinstance(record.body, Spooled):
        check_range("size", record.body.size, (1 << 63) - 1)
        name = packed_text(record.body.name, "the name of a spool file")
        return b"\1", record.body.size.to_bytes(8, "little"), name
    lengths = [len(body) for body in record.bodies]  # type: ignore[arg-type]
    for length in (min(lengths), max(lengths)) if len(lengths) > 1 else lengths:
        if not 0 < length <= LARGEST_INLINE:
            raise ValueError(f"a body of {length} bytes does not lie in its record; spool it")
    if len(lengths) == 1:
        return b"\0\1\0", record.body
    sizes = _array("H", len(lengths) - 1).pack(*lengths[1:])
    head = b"\0", len(lengths).to_bytes(2, "little"), _pack_numbers(record.others), sizes
    return *head, *record.bodies  # type: ignore[arg-type]


def _unpack_enqueue(fields: Fields, txn: int, prev: int, lsn: int) -> Enqueue:
    incarnation, sequence, deadline, copy, *numbers = fields.numbers(_ENQUEUED)
    life, producer, number = _life(fields, *numbers[:3]), _life(fields, *numbers[3:6]), numbers[6]
    request = _request(fields, producer, number)
    id, sender = TransferId(fields.short_text(), incarnation, sequence), fields.short_text()
    once = bytes(fields.bytes(fields.number(2)))
    header = _header(bytes(fields.bytes(fields.number(2))), lsn)
    how = fields.number(1)
    if how > 1:
        fields.wrong(f"a body that lies in place {how}")
    others: Sequence[int] = ()
    if how:
        bodies: Sequence[bytes | Spooled] = (_unpack_spooled(fields, header),)
    else:
        others, bodies = _unpack_bodies(fields, header, request is not None)
    record = Enqueue(txn, prev, id, header, bodies, sender, life, deadline, copy, request, once, others)
    if len(bodies) > 1 and not _is_common(record):
        fields.wrong(f"{len(bodies)} letters that do not go the common way")
    return record


def _is_common(record: Enqueue) -> bool:
    """May its letters be several?"""
    is_special = record.life is not None or record.deadline_ns or record.copy or record.once
    is_numbered = record.request is None or record.request.number > 0
    return record.txn == NONE and not is_special and is_numbered and is_plain(record.header)


def _header(data: bytes, lsn: int) -> Header:
    try:
        return header_of(data)
    except TransfersDamaged:
        _, taken = unpack_header(data, lsn)  # which says where it lies
        raise TransfersDamaged(f"record at {lsn}: a header of {taken} bytes in {len(data)}", lsn) from None


def _unpack_spooled(fields: Fields, header: Header) -> Spooled:
    size = fields.number(8)
    body = Spooled(fields.short_text(), size)
    if not (body.name.isascii() and body.name.isalnum()):
        fields.wrong(f"a spool file of the name {body.name!r}")
    if size != header.length:
        fields.wrong(f"a body of {size} bytes under a header that says {header.length}")
    return body


def _unpack_bodies(fields: Fields, header: Header, is_own: bool) -> tuple[Sequence[int], Sequence[bytes]]:
    """Return the sequences behind the first one, and the bodies."""
    count = fields.number(2)
    if not count:
        fields.wrong("no letter")
    others = () if is_own or count == 1 else fields.numbers(_array("Q", count - 1))
    lengths = (header.length, *fields.numbers(_array("H", count - 1))) if count > 1 else (header.length,)
    if min(lengths) == 0 or max(lengths) > LARGEST_INLINE or sum(lengths) != fields.left():
        fields.wrong(f"bodies of {sum(lengths)} bytes in {fields.left()}; each has 1 to {LARGEST_INLINE}")
    data, ends = bytes(fields.bytes(fields.left())), accumulate(lengths, initial=0)
    return others, tuple(data[begin:end] for begin, end in pairwise(ends))


def _unpack_take(fields: Fields, txn: int, prev: int) -> Take:
    first, life = fields.number(8), _unpack_process(fields, "TAKE by")
    items = _unpack_items(fields, first)
    if txn != NONE and len(items) > 1:
        fields.wrong(f"a TAKE of {len(items)} transfers in transaction {txn}")
    return Take(txn, prev, items, life)


def _unpack_process(fields: Fields, what: str) -> Life:
    life = unpack_life(fields)
    if life is None:
        fields.wrong(f"a {what} nobody")
    return life


def _unpack_clr(fields: Fields, txn: int, prev: int) -> Clr:
    undone, undo_next, what, *zeros = fields.numbers(_UNDONE)
    if any(zeros) or undo_next >= undone:
        fields.wrong(f"a CLR of {undone} whose UndoNxtLSN is {undo_next}")
    return Clr(txn, prev, undone, undo_next, Undone(what))


def _unpack_checkpoint(fields: Fields) -> Checkpoint:
    index, last, *zeros = fields.numbers(_PART)
    if last > 1 or any(zeros) or fields.left() > LARGEST_PART:
        fields.wrong("a part of a checkpoint that cannot be")
    return Checkpoint(index, bool(last), bytes(fields.bytes(fields.left())))


def _eight(number: int) -> bytes:
    return number.to_bytes(8, "little")
