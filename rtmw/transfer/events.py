"""Events of the transfers of a core: the input of `Machine.step`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rtmw.transfer.address import Life
from rtmw.transfer.header import Header
from rtmw.transfer.records import Request, Spooled, TransferId, TransferState

__all__ = [
    "AbortTransaction",
    "ArriveRun",
    "BeginTransaction",
    "CommitTransaction",
    "ConsumeRun",
    "DestroySavepoint",
    "EndsConfirmed",
    "Event",
    "Now",
    "ReceiverJoined",
    "ReceiverLeft",
    "RollBack",
    "SendRun",
    "SendTransfer",
    "SetSavepoint",
    "SettleRun",
    "SettleTransfer",
    "TakeRun",
    "TakeTransfer",
    "Tick",
]


class Now(NamedTuple):
    """The time, in nanoseconds. Lifetimes outlive the core and run on the wall clock; ages of transactions do not."""

    monotonic_ns: int
    wall_ns: int
    """Since 1970."""


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Answer: its number. TransferRefused: too many are open."""

    owner: Life | None = None
    """When it leaves, the transaction is undone."""


@dataclass(frozen=True, slots=True)
class SendTransfer:
    """Answer: the ids of what was enqueued (one; with `service/*` one a receiver); none: it has come before.

    TransferRefused: the address means nobody, or a queue is full. TransactionAborted: the transaction became too
    large.
    """

    header: Header
    body: bytes | Spooled
    sender: str = ""
    txn: int = 0
    id: TransferId | None = None
    """Of a transfer from another node; None: it begins here, and gets one."""
    request: Request | None = None
    """A request that was done already is not done again: the answer is its outcome. Not in a transaction."""
    once: bytes = b""
    """The id that its sender has chosen; with one that has come, nothing is done, and the answer is what it came to.
    TransferRefused: something else was sent with it."""
    is_carried: bool = False
    """It has files: what carries to other nodes brings it to receivers here, too."""


class SendRun(NamedTuple):
    """Several letters of one sender, in no transaction, whose headers differ in their length alone. Answer: the id of
    the first; those of the others follow one after the other. None: not all of them go the common way, so nothing was
    done; send each by itself.
    """

    header: Header
    """Of the first."""
    bodies: Sequence[bytes]
    sender: str
    request: Request
    """Of the first; those of the others follow one after the other."""


@dataclass(frozen=True, slots=True)
class ArriveRun:
    """Several letters of one sender with one header come from another node. Answer: True; False: not all of them go
    the common way, so nothing was done. TransferRefused: as of SendTransfer."""

    header: Header
    """`length`: of each body."""
    sender: str
    letters: Mapping[TransferId, bytes]
    """Their ids are of one incarnation."""


@dataclass(frozen=True, slots=True)
class TakeTransfer:
    """Answer: the first `Item` of a queue that this receiver may have; None: there is none."""

    service: str
    life: Life
    txn: int = 0


@dataclass(frozen=True, slots=True)
class TakeRun:
    """Several letters of the common way, which no receiver was handed before. Answer: the `Item` of each, in the order
    in which one TakeTransfer after the other would answer; none: the first transfer goes another way, so take it by
    itself."""

    service: str
    life: Life
    most: int
    """Letters, at least 1."""


@dataclass(frozen=True, slots=True)
class SettleTransfer:
    """A transfer that no transaction holds changes its state. Answer: the state; DEAD: given back too often."""

    item: int
    state: TransferState
    cause: str = ""
    by: Life | None = None
    """The receiver that has taken it, if it is that who says so."""


@dataclass(frozen=True, slots=True)
class SettleRun:
    """Transfers for another node have come to these states there, for no cause. Answer: None. Of a transfer that is
    gone, or that cannot become so, nothing happens."""

    states: Mapping[int, TransferState]
    """By the number of the transfer."""


@dataclass(frozen=True, slots=True)
class ConsumeRun:
    """A receiver has consumed these letters. Answer: True; False: not all of them are its own, so nothing was done;
    settle each by itself."""

    items: Collection[int]
    """Their numbers, each once."""
    by: Life


@dataclass(frozen=True, slots=True)
class PassOver:
    """Nobody can take a transfer now that this node carries to itself. What was sent behind it waits for it no longer.
    Nothing of that is logged."""

    item: int


@dataclass(frozen=True, slots=True)
class EndsConfirmed:
    """The node where these transfers began knows how they have ended here."""

    ids: Collection[TransferId]
    """Each once."""


@dataclass(frozen=True, slots=True)
class SetSavepoint:
    """Answer: its LogLsn."""

    txn: int
    name: str | None = None
    """None: one that tells it from those before it."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Undoes what came after the savepoint, which stays; those after it are destroyed. ValueError: there is none."""

    txn: int
    to: str | int
    """A name means the newest savepoint of this name; a number, that with this LogLsn; 0: all that was done."""


@dataclass(frozen=True, slots=True)
class DestroySavepoint:
    """Releases it, and those after it; nothing is undone. ValueError: there is none."""

    txn: int
    savepoint: str | int


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    txn: int
    request: Request | None = None
    """A commit that was asked for already is done."""


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    txn: int


@dataclass(frozen=True, slots=True)
class ReceiverJoined:
    service: str
    life: Life
    takes_files: bool = False


@dataclass(frozen=True, slots=True)
class ReceiverLeft:
    """Its letters go back, its transactions are undone, and letters for it alone become dead letters."""

    life: Life


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: lifetimes end, and transactions become too old. Answer: numbers of transfers whose time is over,
    and of which another node has to say how they have ended."""


Event: TypeAlias = (
    BeginTransaction
    | SendTransfer
    | SendRun
    | ArriveRun
    | TakeTransfer
    | TakeRun
    | SettleTransfer
    | SettleRun
    | ConsumeRun
    | SetSavepoint
    | RollBack
    | DestroySavepoint
    | CommitTransaction
    | AbortTransaction
    | ReceiverJoined
    | ReceiverLeft
    | Tick
    | EndsConfirmed
    | PassOver
)
