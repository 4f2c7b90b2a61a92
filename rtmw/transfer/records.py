"""The records of the transaction log (T10): the paper's, and those that checkpoints and restarts need.

A record says what was decided, and never what has to be decided when it is read: so applying a record (`State.apply`)
needs no settings, no clock and no luck, and gives after a crash what it gave before.

The LSN of a record is its position in the `rtmw.Log`. Position 0 holds no record of a transaction, and so 0 means
"none".

`pack` and `unpack` have the records as bytes, which are read strictly; docs/formats/transfer-format.md has each field.

Letters are logged as runs, too: an `EnqueuedRun` has their common part once, and beside it the sequence and the body of
each. Their headers differ in the length of the body alone. A `ChangeRun` is one object for the records of letters that
have the same state next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import compress, repeat, takewhile
from operator import add, eq
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from rtmw.transfer.address import Life, Reach, life_of
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.fields import Fields, check_range, packed_text
from rtmw.transfer.header import LENGTH, Header, Kind, header_of, resized, unpack_header

__all__ = [
    "ITEM",
    "NUMBER",
    "SEQUENCE",
    "U64",
    "Abort",
    "AbortCause",
    "Change",
    "ChangeRun",
    "Checkpoint",
    "Clr",
    "Commit",
    "End",
    "Enqueue",
    "EnqueuedRun",
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
    "changes_in",
    "is_arriving",
    "is_checkpoint",
    "is_letter",
    "is_plain",
    "letters_in",
    "may_follow",
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
    """The state of a transfer; docs/design/transfer.md has the diagram."""

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


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A transfer is put into its queue."""

    txn: int
    prev: int
    id: TransferId
    header: Header
    body: bytes | Spooled
    sender: str = ""
    life: Life | None = None
    """The only receiver that it may go to; None: any."""
    deadline_ns: int = NONE
    """Wall clock, nanoseconds since 1970; 0: none."""
    copy: int = 0
    """Index of the receiver that this copy for `service/*` is for; all copies have the id of the transfer."""
    request: Request | None = None
    """The request of the program that has sent it. None: it came from another node."""
    once: bytes = b""
    """The id that its sender has chosen (duplicates.py); empty: none."""


@dataclass(frozen=True, slots=True)
class Take:
    """A transfer is handed to a process."""

    txn: int
    prev: int
    item: int
    """LSN of its ENQUEUE."""
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
    """A transfer that no transaction holds changes its state."""

    item: int
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


VERSION: Final = 1
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
U64: Final = Struct("<Q")
"""The layout of a number at ITEM, SEQUENCE or NUMBER."""
ITEM: Final = _HEAD.size
"""Where the number of the transfer lies in a TAKE and in a CHANGE."""
SEQUENCE: Final = _HEAD.size + 8
"""Where an ENQUEUE has the sequence of its id: behind the head and the incarnation."""
NUMBER: Final = SEQUENCE + 8 + 8 + 4 + 2 * _LIFE.size
"""Where an ENQUEUE has the number of its request: behind deadline, copy, receiver and producer."""
_PART: Final = Struct("<IBBH")


def pack(record: Record) -> bytes:
    """Return a record as bytes. Raises ValueError: a text or a body is too long."""
    kind, content = _packed(record)
    return _HEAD.pack(VERSION, kind, 0, 0, record.txn, record.prev) + content


def _packed(record: Record) -> tuple[int, bytes]:
    match record:
        case Enqueue():
            return _ENQUEUE, _pack_enqueue(record)
        case Take(item=item, life=life):
            return _TAKE, _eight(item) + pack_life(life)
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
        case Change(item=item, state=state, cause=cause):
            return _CHANGE, _eight(item) + bytes([state]) + packed_text(cause, "the cause")
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
            return Change(fields.number(8), TransferState(fields.number(1)), fields.short_text())
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


def _pack_enqueue(record: Enqueue) -> bytes:
    id, header = record.id, record.header.pack()
    check_range("sequence", id.sequence, (1 << 64) - 1)
    if isinstance(record.body, Spooled):
        check_range("size", record.body.size, (1 << 63) - 1)
        body = (
            b"\1" + record.body.size.to_bytes(8, "little") + packed_text(record.body.name, "the name of a spool file")
        )
    else:
        if not 0 < len(record.body) <= LARGEST_INLINE:
            raise ValueError(f"a body of {len(record.body)} bytes does not lie in its record; spool it")
        body = b"\0" + record.body
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
            body,
        )
    )


def _unpack_enqueue(fields: Fields, txn: int, prev: int, lsn: int) -> Enqueue:
    incarnation, sequence, deadline, copy, *numbers = fields.numbers(_ENQUEUED)
    life, producer, number = _life(fields, *numbers[:3]), _life(fields, *numbers[3:6]), numbers[6]
    request = _request(fields, producer, number)
    id, sender = TransferId(fields.short_text(), incarnation, sequence), fields.short_text()
    once = bytes(fields.bytes(fields.number(2)))
    header = _header(bytes(fields.bytes(fields.number(2))), lsn)
    return Enqueue(txn, prev, id, header, _body(fields, header), sender, life, deadline, copy, request, once)


def _header(data: bytes, lsn: int) -> Header:
    try:
        return header_of(data)
    except TransfersDamaged:
        _, taken = unpack_header(data, lsn)  # which says where it lies
        raise TransfersDamaged(f"record at {lsn}: a header of {taken} bytes in {len(data)}", lsn) from None


def _body(fields: Fields, header: Header) -> bytes | Spooled:
    how = fields.number(1)
    body: bytes | Spooled
    if how == 0:
        body = bytes(fields.bytes(fields.left()))
        size, most = len(body), LARGEST_INLINE
    elif how == 1:
        size = most = fields.number(8)
        body = Spooled(fields.short_text(), size)
        if not (body.name.isascii() and body.name.isalnum()):
            fields.wrong(f"a spool file of the name {body.name!r}")
    else:
        fields.wrong(f"a body that lies in place {how}")
    if size != header.length or size > most:
        fields.wrong(f"a body of {size} bytes under a header that says {header.length}")
    return body


def _unpack_take(fields: Fields, txn: int, prev: int) -> Take:
    return Take(txn, prev, fields.number(8), _unpack_process(fields, "TAKE by"))


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


@dataclass(slots=True, eq=False)
class EnqueuedRun:
    """A run of letters; iteration yields its ENQUEUE records as bytes. `model`: the record of the first letter."""

    model: Enqueue
    sequences: Sequence[int]
    """The sequences of the letters' ids."""
    bodies: Sequence[bytes]
    """The bodies of the letters; empty, where the letter was taken from the run. Until the first one is taken they may
    be a tuple, which the garbage collector does not go through."""
    lsns: Sequence[int] = ()
    """The LSNs of the records, once they are logged, in ascending order."""

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def is_own(self) -> bool:
        """Did its letters begin in this store? Those of other nodes have no requests."""
        return self.model.request is not None

    @property
    def ids(self) -> tuple[TransferId, ...]:
        """The ids of the letters."""
        first = self.model.id
        return tuple(TransferId(first.node, first.incarnation, sequence) for sequence in self.sequences)

    def __iter__(self) -> Iterator[bytes]:
        """Yield each record as `records.pack` makes it."""
        return self.rows()

    def rows(self, form: str = "", *columns: Iterable[object]) -> Iterator[bytes]:
        """Yield the records, each behind its values in these columns, which `form` packs."""
        head, middle, tail, last = parts = self._common
        row = _row(form, *map(len, parts))
        numbers = repeat(head), self.sequences, repeat(middle), self._requests(), repeat(tail), map(len, self.bodies)
        return map(add, map(row.pack, *columns, *numbers, repeat(last)), self.bodies)

    @property
    def beside_body(self) -> int:
        """Bytes of each record beside its body."""
        return sum(map(len, self._common)) + 3 * U64.size

    @property
    def _common(self) -> _Common:
        model, header = self.model, self.model.header.pack()
        producer = None if model.request is None else model.request.producer
        alike = header[:LENGTH], header[LENGTH + U64.size :]
        return _common(model.id.node, model.id.incarnation, model.sender, producer, *alike)

    def _requests(self) -> Iterable[int]:
        """The numbers of the requests; letters of other nodes have none."""
        request = self.model.request
        return repeat(NONE) if request is None else range(request.number, request.number + len(self))

    def find(self, lsn: int) -> int | None:
        """Return the index of a letter; None: it is not of this run, or was taken."""
        at = bisect_left(self.lsns, lsn)
        return at if at < len(self) and self.lsns[at] == lsn and self.bodies[at] else None

    @property
    def waiting(self) -> list[int]:
        """The LSNs of the letters that nobody has taken."""
        return list(compress(self.lsns, self.bodies))

    def take(self, at: int) -> Enqueue:
        """Return the record of the letter at this index, as `records.unpack` reads it, and give its body away."""
        model, bodies = self.model, self.bodies
        if not isinstance(bodies, list):
            self.bodies = bodies = list(bodies)
        body, bodies[at] = bodies[at], b""
        id = TransferId(model.id.node, model.id.incarnation, self.sequences[at])
        request = None if model.request is None else Request(model.request.producer, model.request.number + at)
        return Enqueue(NONE, NONE, id, resized(model.header, len(body)), body, model.sender, request=request)


class _Common(NamedTuple):
    """What the records of a run have in common: what lies before, between and behind their three numbers."""

    head: bytes
    middle: bytes
    """Between the sequence and the number of the request."""
    tail: bytes
    """Between the number of the request and the length of the body."""
    last: bytes


@lru_cache(maxsize=256)
def _common(node: str, incarnation: int, sender: str, producer: Life | None, front: bytes, back: bytes) -> _Common:
    """Return what letters of one sender have in common; remembered, because senders repeat themselves. `front`, `back`:
    the bytes of their headers before and behind the length."""
    header = header_of(front + U64.pack(1) + back)
    request = None if producer is None else Request(producer, NONE)
    data = pack(Enqueue(NONE, NONE, TransferId(node, incarnation, NONE), header, b"\0", sender, request=request))
    end = len(data) - header.length
    length = end - 1 - len(header.pack()) + LENGTH  # a byte that says where the body lies is behind the header
    parts = data[:SEQUENCE], data[SEQUENCE + U64.size : NUMBER], data[NUMBER + U64.size : length]
    return _Common(*parts, data[length + U64.size : end])


@lru_cache(maxsize=256)
def _row(form: str, head: int, middle: int, tail: int, last: int) -> Struct:
    return Struct(f"<{form}{head}sQ{middle}sQ{tail}sQ{last}s")


def letters_in(first: Enqueue, records: Sequence[bytes]) -> EnqueuedRun:
    """Return the longest run at the front of these records, of which `first` is the first one. Letters of this host
    have their sequences one after the other, as they have their requests."""
    begin = len(records[0]) - first.header.length
    bodies = list(takewhile(_fits, (data[begin:] for data in records)))
    sequences: Sequence[int] = range(first.id.sequence, first.id.sequence + len(bodies))
    if first.request is None:
        sequences = [U64.unpack_from(data, SEQUENCE)[0] for data in records[: len(bodies)]]
    count = sum(takewhile(bool, map(eq, EnqueuedRun(first, sequences, bodies), records)))
    return EnqueuedRun(first, sequences[:count], bodies[:count])


def may_follow(first: Enqueue, one: bytes, other: bytes) -> bool:
    """May the other record be of the run that begins with this one, which is `first`? A quick look: `letters_in`
    compares all of it."""
    length = len(one) - first.header.length - 1 - len(first.header.pack()) + LENGTH
    parts = slice(SEQUENCE + 8, NUMBER), slice(NUMBER + 8, length)
    return all(one[part] == other[part] for part in parts)


def _fits(body: bytes) -> bool:
    """Does the body fit into a record?"""
    return 0 < len(body) <= LARGEST_INLINE


@dataclass(slots=True, eq=False)
class ChangeRun:
    """A run of records of one kind, each of which names one transfer; iteration yields them as bytes."""

    model: Take | Change
    """Any of the records."""
    items: Sequence[int]
    """The number of the transfer of each record."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[bytes]:
        """Yield each record as `records.pack` makes it."""
        data = pack(self.model)
        head, tail = data[:ITEM], data[ITEM + 8 :]
        row = Struct(f"<{ITEM}sQ{len(tail)}s")
        return map(row.pack, repeat(head), self.items, repeat(tail))


def changes_in(first: Take | Change, records: Sequence[bytes]) -> ChangeRun:
    """Return the longest run at the front of these records, of which `first` is the first one."""
    items = [U64.unpack_from(data, ITEM)[0] for data in records if len(data) >= ITEM + 8]
    count = sum(takewhile(bool, map(eq, ChangeRun(first, items), records)))
    return ChangeRun(first, items[:count])
