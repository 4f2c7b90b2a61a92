"""Events and effects of the two halves of the protocol: `step(event, now) -> list[Effect]`.

Effects are carried out in their order. Those that say so are answered, later, by an event with the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rtmw.transfer.header import Header
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire.frames import START, Mark, Offer, Part, Raw

# Events of both halves.


class Opened(NamedTuple):
    """A stream of a session is there; it begins at its first byte, whatever was before.

    The sender has added all that is for this peer by then: it reports transfers that it does not know as cancelled.
    """

    newest: tuple[tuple[int, int], ...] | None = None
    """The receiver tells this first (SEEN); None: the peer does not know that frame."""


class Lost(NamedTuple):
    """The stream is gone; what was on its way may have arrived, or not."""


class Heard(NamedTuple):
    """Bytes of the stream, in the parts in which they came. Raises TransfersDamaged: the peer breaks a rule; reset the
    stream."""

    parts: Sequence[bytes]


class Timer(NamedTuple):
    """The time of SetTimer has come; too early does no harm."""


# Events of who sends.


@dataclass(frozen=True, slots=True)
class Add:
    """A transfer for this peer. `was_sent`: it is SENT, DELIVERED or DEAD, so the peer is asked what became of it."""

    id: TransferId
    sender: str
    header: Header
    parts: tuple[Part, ...]
    deadline: float | None = None
    """Seconds on the clock of `now`; None: none."""
    mark: Mark = START
    """The mark of the last KeepMark before a restart."""
    was_sent: bool = False
    in_doubt: bool = False
    """It was offered in an earlier life of this core: the peer may have all of it."""
    letter: bytes | None = None
    """The body of what goes whole, with others: a BUF that lies in its record, without a lifetime. Else None, and
    it is read by ReadSource."""


class AddRun(NamedTuple):
    """Several transfers at once: letters that follow each other go together."""

    adds: tuple[Add, ...]


class AddRaw(NamedTuple):
    """A SMALL_RAW. Without a stream it is lost: the answer of `step` has no effect then."""

    raw: Raw


class Room(NamedTuple):
    """The stream takes this many more bytes of pieces."""

    bytes: int


class SourceRead(NamedTuple):
    """Answer of ReadSource."""

    id: TransferId
    position: int
    data: bytes


class Unreadable(NamedTuple):
    """Answer of ReadSource: the source has changed, or cannot be read. The transfer does not arrive."""

    id: TransferId
    cause: str


class Kept(NamedTuple):
    """Answer of Reached for states in which transfers end: these are durable."""

    ends: dict[TransferId, TransferState]


class Withdraw(NamedTuple):
    """The program has cancelled it, or its lifetime has ended. Reached says what has become of it."""

    id: TransferId


class NotAdded(NamedTuple):
    """Answer of Reached for ACCEPTED where the core does not add it again. Nothing happens if it was added."""

    id: TransferId


SendingEvent: TypeAlias = (
    Opened | Lost | Heard | Timer | AddRun | AddRaw | Room | SourceRead | Unreadable | Kept | Withdraw | NotAdded
)

# Effects of both halves.


class Write(NamedTuple):
    """Bytes for the stream."""

    data: bytes


# Effects of who sends.


class ReadSource(NamedTuple):
    """Answered by SourceRead with exactly these bytes, or Unreadable."""

    id: TransferId
    position: int
    size: int


class KeepMark(NamedTuple):
    """Log the mark; nobody waits for it."""

    id: TransferId
    mark: Mark


class Reached(NamedTuple):
    """The peer's report. ACCEPTED: the peer does not have it, and it is to be added again (Add, or NotAdded answers);
    later transfers of its lane wait for that. An end is answered by Kept.

    There are reports of transfers that were never added, too: their state is known already, and Kept is the answer.
    """

    id: TransferId
    state: TransferState
    cause: str


class Failed(NamedTuple):
    """It cannot be sent, and is forgotten here."""

    id: TransferId
    cause: str


class Delayed(NamedTuple):
    """The peer cannot take it now, for this reason; it is offered again."""

    id: TransferId
    cause: str


class HasHad(NamedTuple):
    """The peer says what has come to it before this stream. Nothing of the stream counts before this was looked at."""

    newest: tuple[tuple[int, int], ...]


class SetTimer(NamedTuple):
    """Give Timer at this time; it replaces one before."""

    at: float


SendingEffect: TypeAlias = Write | ReadSource | KeepMark | Reached | Failed | Delayed | HasHad | SetTimer

# Events of who receives.


class Begun(NamedTuple):
    """Answer of Begin: bytes may come. `mark`: what of it is here already, durable and compared with its hash."""

    id: TransferId
    mark: Mark


class Placed(NamedTuple):
    """Answer of Begin: it was completed before a crash, and nothing is left to be done but HandOver."""

    id: TransferId


class Completed(NamedTuple):
    """Answer of Complete: nothing is left to be done but HandOver."""

    id: TransferId


class HandedOver(NamedTuple):
    """Answer of HandOver, before StatesFound: it has its place in its queue, so the next of its lane may follow."""

    id: TransferId


class StatesFound(NamedTuple):
    """Answer of Begin, Look, Complete, HandOver and Drop, and also unasked: states of transfers here, with causes.

    ACCEPTED: it is not here; HELD: a part of it is. Each other state is durable, if the class of the transfer is.
    """

    states: dict[TransferId, tuple[TransferState, str]]


class Dropped(NamedTuple):
    """Answer of Drop: it is not here."""

    id: TransferId
    stream: int


class PutOff(NamedTuple):
    """Answer of Begin, Complete, HandOver, and unasked if bytes cannot be written: not now. Durable bytes stay.
    `rest`: seconds until it is offered again, unless TryAgain comes before; None: as `Terms` say."""

    id: TransferId
    cause: str
    rest: float | None = None


class Marked(NamedTuple):
    """Answer of MarkAt."""

    id: TransferId
    mark: Mark
    run: int


class TryAgain(NamedTuple):
    """Transfers that were put off may be offered again."""


ReceivingEvent: TypeAlias = (
    Opened | Lost | Heard | Begun | Placed | Completed | HandedOver | StatesFound | Dropped | PutOff
    | Marked | TryAgain
)  # fmt: skip

# Effects of who receives.


class Begin(NamedTuple):
    """Begin a transfer. Answered by Begun, Placed, StatesFound (also REFUSED) or PutOff."""

    offer: Offer


class TakeLetters(NamedTuple):
    """These letters are there as a whole, and right. They get their places in their queue now, before any later effect
    is carried out. Answered by StatesFound (SENT, REFUSED) or PutOff for each."""

    sender: str
    header: Header
    letters: dict[TransferId, bytes]


class Store(NamedTuple):
    """Bytes of a transfer that was begun; they follow those before them."""

    id: TransferId
    position: int
    data: bytes | memoryview


class MarkAt(NamedTuple):
    """Answered by Marked, when all bytes before the mark and the mark itself are durable."""

    id: TransferId
    mark: Mark
    run: int


class Rewind(NamedTuple):
    """Drops the bytes that came; bytes follow from 0 on."""

    id: TransferId


class Complete(NamedTuple):
    """All bytes are there, and they are right. Answered by Completed, StatesFound (REFUSED) or PutOff."""

    id: TransferId


class HandOver(NamedTuple):
    """Hand over a transfer: all before it in its lane were. Answered by HandedOver and StatesFound (SENT), by
    StatesFound (REFUSED) or by PutOff."""

    id: TransferId


class Drop(NamedTuple):
    """Its sender does not want it: the part that came is dropped, and the transfer, too, if no receiver has taken it.
    Answered by StatesFound, or Dropped."""

    id: TransferId
    stream: int
    """The number of the stream on which its sender has said so."""


class Look(NamedTuple):
    """Asks for the state of a transfer. Answered by StatesFound, before any other event."""

    id: TransferId


class Settle(NamedTuple):
    """The sender knows how these transfers have ended."""

    ids: tuple[TransferId, ...]


class TakeRaw(NamedTuple):
    raw: Raw


class ListOwed(NamedTuple):
    """Answered by StatesFound for each transfer of this peer that ended without Settled, and for each part (HELD)."""


ReceivingEffect: TypeAlias = (
    Write | Begin | TakeLetters | Store | MarkAt | Rewind | Complete | HandOver | Drop | Look | Settle | TakeRaw
    | ListOwed
)  # fmt: skip
