"""The records of the transaction log (T10): the paper's, and those that checkpoints and restarts need.

A record says what was decided, and never what has to be decided when it is read: so applying a record (`State.apply`)
needs no settings, no clock and no luck, and gives after a crash what it gave before. record_bytes.py has them as
bytes.

The LSN of a record is its position in the `rtmw.Log`. Position 0 holds no record of a transaction, and so 0 means
"none".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from rtmw.transfer.address import Life
from rtmw.transfer.header import Header, Kind

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
    "is_letter",
    "own_id",
]

NONE: Final = 0
"""Instead of an LSN, or of the number of a transaction."""
NEVER_LOGGED: Final = 1 << 62
"""Instead of LSNs, numbers from here on are of transfers that no log keeps."""
LARGEST_INLINE: Final = 4095
"""Bytes of the largest body that lies in its record: less than 4 KiB (T9)."""
LARGEST_PART: Final = 32 << 10
"""Bytes of a checkpoint in one record: it fits into the smallest segment of a log."""


class TransferState(IntEnum):
    """The state of a transfer; docs/design/transfer.md has the diagram."""

    HELD = 0
    """Enqueued in a transaction that is open: invisible."""
    ACCEPTED = 1
    """In its queue."""
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
    """By its sender."""
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
    """Which store of the node: when it was made, in nanoseconds since 1970."""
    sequence: int

    def __str__(self) -> str:
        return f"{self.node}:{self.incarnation:x}:{self.sequence:x}"

    @classmethod
    def parse(cls, written: str) -> TransferId:
        """As `str` writes it. Raises ValueError."""
        node, *numbers = written.rsplit(":", 2)
        try:
            incarnation, sequence = (int(number, 16) for number in numbers)
        except ValueError:
            raise ValueError(f"{written!r} is no id of a transfer; `rtmw transfers` shows them") from None
        return cls(node, incarnation, sequence)


_ARRIVING: Final = 1 << 63


def is_letter(header: Header) -> bool:
    """Does its body lie in its record, and is nothing of it to be watched? Such transfers may go in runs."""
    return header.kind is Kind.BUF and not header.lifetime_ns and header.length <= LARGEST_INLINE


def arriving_id(id: TransferId) -> TransferId:
    """Of the half that arrives, of a transfer that a node carries to itself: incarnations are below 2^63."""
    return TransferId(id.node, id.incarnation | _ARRIVING, id.sequence)


def is_arriving(id: TransferId, node: str) -> bool:
    """Is it of such a half, at this node?"""
    return id.node == node and bool(id.incarnation & _ARRIVING)


def own_id(id: TransferId) -> TransferId:
    """The id that such a transfer has for programs."""
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
    """From 1; of this producer. 0: part of a transaction, which is known by the number of its COMMIT."""


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
    """To whom alone it may go."""
    deadline_ns: int = NONE
    """Wall clock, nanoseconds since 1970; 0: none."""
    copy: int = 0
    """With `service/*`: for which of the receivers this one is; all have the id of the transfer."""
    request: Request | None = None
    """Of the program that has sent it. None: it came from another node."""
    once: bytes = b""
    """The id that its sender has chosen (once.py); empty: none."""


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
    """Its LogLsn."""


@dataclass(frozen=True, slots=True)
class Clr:
    """A record was undone; this one never is."""

    txn: int
    prev: int
    undone: int
    """Its LSN."""
    undo_next: int
    """UndoNxtLSN: what is to be undone next."""
    what: Undone


@dataclass(frozen=True, slots=True)
class Commit:
    txn: int
    prev: int
    effects: int
    """How many sends and takes it makes valid."""
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
    """Of ids of this store."""
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
