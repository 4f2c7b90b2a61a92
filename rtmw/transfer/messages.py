"""The messages between programs and their core (T5, T6); `frames` has them as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rtmw.transfer.address import Address
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import LARGEST_INLINE, AbortCause, Spooled, TransferId, TransferState

__all__ = [
    "Abort",
    "Accepted",
    "Advanced",
    "Alter",
    "Ask",
    "Begin",
    "Commit",
    "Core",
    "Done",
    "Failed",
    "GiveUp",
    "Got",
    "Handed",
    "HandedRun",
    "Join",
    "Leave",
    "Message",
    "More",
    "Move",
    "Moves",
    "Release",
    "RollBack",
    "Run",
    "Savepoint",
    "Send",
    "Sends",
    "Settle",
    "Settled",
    "Show",
    "Shown",
    "Take",
    "Undone",
    "Untake",
]


class Move(NamedTuple):
    """Transfers have another state; None: their transaction was undone, and they never were."""

    ids: tuple[TransferId, ...]
    """At least one; all began in one store."""
    state: TransferState | None
    cause: str


class Run(NamedTuple):
    """Letters with one header, whose bodies all have its length."""

    header: Header
    bodies: tuple[bytes, ...]


# ---- from programs to the core ----


@dataclass(frozen=True, slots=True)
class Join:
    """A sender (role 0) of this name, or an inbox (role 1) of this service. Answer: Done.

    `folder`: where files of an inbox arrive; empty: it takes none. `held`: what an inbox was handed by the core
    before, and has not settled. Other letters that that core had taken for it never came.
    """

    role: int
    name: str
    folder: str = ""
    held: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.role > 1:
            raise ValueError(f"role {self.role}; 0 is a sender, 1 an inbox")
        if Address.parse(self.name) != Address(self.name) and self.role:
            raise ValueError(f"{self.name!r} is no name of a service")
        if self.folder and (not self.folder.startswith("/") or "\0" in self.folder):
            raise ValueError(f"{self.folder!r} is no absolute path of a folder")


@dataclass(frozen=True, slots=True)
class Leave:
    """The sender or inbox is closed. Answer: Done."""


@dataclass(frozen=True, slots=True)
class Send:
    """A transfer, and the first block of its body. Answer: Got for each block but the last, then Accepted; before that,
    Advanced for each of its ids, if its content is more than a body, or if it has an id of its sender.

    `txn`: the transaction that it is part of; 0: none.
    """

    txn: int
    header: Header
    once: bytes
    """The id that its sender has chosen (duplicates.py); empty: none."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Sends:
    """Letters in no transaction, and without an id of their sender; the number of the frame is that of the first, and
    those of the others follow one after the other. Answer: Accepted for as many at a time as are accepted together, or
    Failed for one."""

    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        for header, _ in self.runs:
            if header.kind is not Kind.BUF or header.length > LARGEST_INLINE:
                raise ValueError(f"a {header.kind.name} of {header.length} bytes among letters")


@dataclass(frozen=True, slots=True)
class More:
    """The next block of the body of the Send with the same number."""

    data: bytes


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No block of the body of the Send with the same number will come any more. Answer: Failed; none, if all of it has
    come, which the Send is answered for."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The request for a new transaction. Answer: Done with its number."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The request for a savepoint. Answer: Done with its LogLsn. An empty name: the core chooses one."""

    txn: int
    name: str


@dataclass(frozen=True, slots=True)
class RollBack:
    txn: int
    savepoint: int


@dataclass(frozen=True, slots=True)
class Release:
    txn: int
    savepoint: int


@dataclass(frozen=True, slots=True)
class Commit:
    txn: int


@dataclass(frozen=True, slots=True)
class Abort:
    txn: int


@dataclass(frozen=True, slots=True)
class Take:
    """Answer: Handed for each transfer, at most `most`, or HandedRun for several, then Done with their number.

    `waits`: 1: the answer waits for the first of them, or for Untake. `txn`: see Send.
    """

    txn: int
    most: int
    waits: int


@dataclass(frozen=True, slots=True)
class Untake:
    """The Take of this number need not wait any longer. It is answered; this has no answer of its own."""

    take: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Letters that were handed over become CONSUMED, REFUSED, or ACCEPTED (given back). Answer: Settled."""

    state: int
    cause: str
    items: tuple[int, ...]
    """The numbers of the letters: at least one, and each once."""

    def __post_init__(self) -> None:
        if len(self.items) != 1 and len(set(self.items) or (0,)) != len(self.items):
            raise ValueError(f"{len(self.items)} letters, of which {len(set(self.items))} are different ones")


@dataclass(frozen=True, slots=True)
class Alter:
    """A transfer of any sender becomes CANCELLED, or ACCEPTED (a dead letter is tried again). Answer: Done with the
    state."""

    id: TransferId
    state: int


@dataclass(frozen=True, slots=True)
class Ask:
    """The question how a transfer is. Answer: Moves with its state, or UNKNOWN."""

    id: TransferId


@dataclass(frozen=True, slots=True)
class Show:
    """The request to show `transfers`, `dead`, `queues`, `members`, or `info ID`. Answer: Shown, JSON in pieces."""

    what: str


# ---- from the core to programs ----


@dataclass(frozen=True, slots=True)
class Done:
    value: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """`count` transfers are accepted, from that with the number of this frame on: with Delivery.LOG they are on the
    disk."""

    count: int
    ids: tuple[TransferId, ...]
    """Ids of the first one, of which `service/*` has one a receiver. Those of the others follow one after the other.
    None: a core before has accepted it, and nobody knows how it has ended."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing was done. `how`: 0 refused, 1 the transaction was undone, 2 a wrong value, 3 the disk."""

    how: int
    message: str


@dataclass(frozen=True, slots=True)
class Handed:
    """A transfer for this inbox. `redelivered`: how often it was delivered before."""

    item: int
    redelivered: int
    id: TransferId
    sender: str
    header: Header
    body: bytes | Spooled
    """Spooled: its name is the path of the file."""


@dataclass(frozen=True, slots=True)
class HandedRun:
    """Letters for this inbox, with one sender and header, which began in one store; none was delivered before."""

    node: str
    incarnation: int
    sender: str
    header: Header
    letters: tuple[tuple[int, int, bytes], ...]
    """Number of the transfer, sequence and body of each letter. There is at least one, and each body is as long as the
    header says."""

    def __post_init__(self) -> None:
        if len(self.letters[0][2]) != self.header.length:
            raise ValueError(f"bodies of {len(self.letters[0][2])} bytes under a header that says {self.header.length}")

    def __iter__(self) -> Iterator[Handed]:
        """Each of them as if it had come by itself."""
        for item, sequence, body in self.letters:
            id = TransferId(self.node, self.incarnation, sequence)
            yield Handed(item, 0, id, self.sender, self.header, body)


@dataclass(frozen=True, slots=True)
class Settled:
    """The letters of a Settle have its state, but for these: by their index there. One that was given back too often
    is DEAD."""

    failed: tuple[tuple[int, Failed], ...]


@dataclass(frozen=True, slots=True)
class Moves:
    """Transfers of this sender have these states. The number of the frame is 0, or that of an Ask."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """A transaction of this program was undone as a whole; `cause`: as in ABORT."""

    txn: int
    cause: int

    def __post_init__(self) -> None:
        AbortCause(self.cause)


@dataclass(frozen=True, slots=True)
class Got:
    """This many bytes of the body have come."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """`bytes` of the `total` bytes of a transfer's content, of files too, are at the core of the receiver. The number
    of the frame is 0, or that of a Send."""

    id: TransferId
    bytes: int
    total: int


@dataclass(frozen=True, slots=True)
class Shown:
    last: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Core:
    """A core is there; the head names its process. `start`: another number for each start."""

    start: int
    node: str


Message: TypeAlias = (
    Join | Leave | Send | Sends | More | GiveUp | Begin | Savepoint | RollBack | Release | Commit | Abort | Take
    | Untake | Settle | Alter | Ask | Show | Done | Accepted | Failed | Handed | HandedRun
    | Settled | Moves | Undone | Got | Advanced | Shown | Core
)  # fmt: skip
