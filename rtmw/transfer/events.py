"""Events and effects of a core's transfers: what goes into a step of `Machine`, and what the step asks of its driver.

A step is a generator of effects; it ends with its answer.

    steps = machine.step(event, now)
    effect = next(steps)            # Append: append its records in one batch, and send their LSNs into the generator;
                                    # a record of several letters takes as many LSNs
    effect = steps.send(lsns)       # anything else: take note, and send None

If the log has no room, the generator is closed: what was appended before is valid, and what was not is not done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from rtmw.transfer.address import Life
from rtmw.transfer.header import Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import (
    AbortCause,
    Enqueue,
    Record,
    Request,
    Savepoint,
    Spooled,
    TransferId,
    TransferState,
)

__all__ = [
    "AbortTransaction",
    "Aborted",
    "Append",
    "BeginTransaction",
    "Came",
    "CommitTransaction",
    "DestroySavepoint",
    "Effect",
    "EndsConfirmed",
    "Event",
    "Free",
    "Moved",
    "Note",
    "Now",
    "ReceiverJoined",
    "ReceiverLeft",
    "RollBack",
    "SendTransfers",
    "Sent",
    "SetSavepoint",
    "SettleTransfers",
    "Steps",
    "TakeTransfers",
    "Tick",
    "drive",
]


class Now(NamedTuple):
    """The time, in nanoseconds. Lifetimes outlive the core and run on the wall clock; ages of transactions do not."""

    monotonic_ns: int
    wall_ns: int
    """Nanoseconds of the wall clock, since 1970."""


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Answer: its number. TransferRefused: too many are open."""

    owner: Life | None = None
    """When this life leaves, the transaction is undone."""


@dataclass(frozen=True, slots=True)
class SendTransfers:
    """Bodies of one sender, in their order. Answer: `Sent`, of as many of them as go together.

    TransferRefused: the address means nobody, or a queue is full; that is so of the first one. TransactionAborted: the
    transaction became too large.
    """

    header: Header
    """Header of the first one; those of the others differ in the length alone."""
    bodies: Sequence[bytes | Spooled]
    """One at least."""
    sender: str = ""
    txn: int = 0
    ids: Sequence[TransferId] = ()
    """Ids of transfers from another node, of one incarnation; empty: they begin here, and get ids."""
    request: Request | None = None
    """Request of the first one; those of the others follow one after the other. A request that was done already is not
    done again: the answer is its outcome. Not in a transaction."""
    once: bytes = b""
    """The id that its sender has chosen. If it was sent before, nothing is done, and the answer is what was enqueued
    then. TransferRefused: something else was sent with it."""
    is_carried: bool = False
    """The transfer has files: what carries to other nodes brings it to receivers here, too."""


class Sent(NamedTuple):
    """What has become of the first ones of several bodies."""

    done: int
    """Number of bodies that were sent, from the first one on, and at least one: send the others anew."""
    ids: Sequence[TransferId]
    """What was enqueued for the first one (one id; with `service/*` one a receiver); the ids of the others follow one
    after the other. None: a transfer from another node has come before."""
    is_new: bool = True
    """Was it enqueued now, and not before?"""


@dataclass(frozen=True, slots=True)
class TakeTransfers:
    """Answer: the `Item` of the first transfer of a queue that this receiver may have, and of those behind it, as far
    as all of them are letters that no receiver was handed before. Empty: there is none."""

    service: str
    life: Life
    txn: int = 0
    """In a transaction, the first one comes alone."""
    most: int = 1
    """Largest number of transfers, at least 1."""


@dataclass(frozen=True, slots=True)
class SettleTransfers:
    """Transfers that no transaction holds change their state; a letter that was given back too often becomes DEAD.
    Answer: the reason for each that cannot, by its number; to those nothing happens."""

    items: Collection[int]
    """The numbers of the transfers, each once."""
    state: TransferState
    cause: str = ""
    by: Life | None = None
    """The receiver that has taken them, if it is that who says so."""


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
    """None: the machine chooses a name that tells it from those before it."""


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
    """A receiver has left: its letters go back, its transactions are undone, and letters for it alone become dead
    letters."""

    life: Life


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: lifetimes end, and transactions become too old. Answer: numbers of transfers whose time is over,
    and of which another node has to say how they have ended."""


Event: TypeAlias = (
    BeginTransaction
    | SendTransfers
    | TakeTransfers
    | SettleTransfers
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


T = TypeVar("T")


class Append(NamedTuple):
    """The driver appends these records: all of them or none."""

    records: Sequence[Record]

    @property
    def begins(self) -> bool:
        """Do they begin work? A full disk refuses that; for what ends it there is a reserve (docs/transfer.md)."""
        return any(isinstance(one, Enqueue | Savepoint) for one in self.records)


@dataclass(frozen=True, slots=True)
class Free:
    """No transfer has this body any more. It goes when the records of this step are durable, or never, if they are
    lost."""

    body: Spooled


class Moved(NamedTuple):
    """Transfers have another state; None: they are undone, and never were."""

    items: Sequence[Item]
    state: TransferState | None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction was undone as a whole."""

    txn: int
    cause: AbortCause


class Came(NamedTuple):
    """Several letters were accepted for any receiver of a service. Nobody has asked for one of them yet, so there is no
    `Item` that a Moved could name."""

    service: str
    node: str = ""
    """The node that has the service; empty: this one."""
    items: Sequence[int] = ()
    """The numbers of the letters, if they are for another node."""
    ids: Sequence[TransferId] = ()
    """The ids of the letters, if they came from another node."""


Note: TypeAlias = Free | Moved | Aborted | Came
Effect: TypeAlias = Append | Note
Steps: TypeAlias = Generator[Effect, Sequence[int] | None, T]


def drive(steps: Steps[T], append: Callable[[Append], Sequence[int]], notes: list[Note]) -> T:
    """Run a step, and return its answer. `append` gives the LSNs; what else the step wants done comes into `notes`,
    also before an error of the step or of `append`."""
    answer: Sequence[int] | None = None
    try:
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = None
            if isinstance(effect, Append):
                answer = append(effect)
            else:
                notes.append(effect)
    finally:
        steps.close()
