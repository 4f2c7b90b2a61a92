"""Events, which go into the core of a session, and effects, which come out: `Core.step(event, now) -> list[Effect]`."""

from __future__ import annotations

from typing import NamedTuple

# Events of the connection.


class Attached(NamedTuple):
    """A connection carries the session from now on; the hello is over. It replaces one before."""

    crc: bool
    """Frames carry a CRC."""


class Detached(NamedTuple):
    """The connection is gone."""


class Received(NamedTuple):
    """Bytes came."""

    data: bytes | bytearray | memoryview


class Room(NamedTuple):
    """The connection takes so many more bytes now: the core sends when there is room, and so chooses late."""

    size: int


class Timer(NamedTuple):
    """The time of SetTimer has come; too early does no harm."""


# Events of the program.


class Open(NamedTuple):
    """Open a stream; answered with Opened. Bytes may be written at once."""

    purpose: str
    priority: int
    position: int
    """Position of the first byte that will be written."""


class Accept(NamedTuple):
    """Take part in a stream that the peer has opened: this side writes from `position` on."""

    stream: int
    position: int


class Write(NamedTuple):
    """Bytes to send, which must not change any more. Answered with Wrote: how many of them were taken."""

    stream: int
    data: memoryview


class Prioritize(NamedTuple):
    """Chunks of the stream go with this priority from now on."""

    stream: int
    priority: int


class End(NamedTuple):
    """No more bytes will be written: half-close."""

    stream: int


class Read(NamedTuple):
    """The program has taken so many of the bytes delivered; that is credit for as many."""

    stream: int
    size: int


class Durable(NamedTuple):
    """All bytes received before `position` are durable."""

    stream: int
    position: int


class Finish(NamedTuple):
    """The program has read all up to the end, and will say no more of what is durable."""

    stream: int


class Reset(NamedTuple):
    """End the stream in both directions, at once; what is on its way is lost."""

    stream: int
    code: int
    words: str


class Close(NamedTuple):
    """End the session and its streams."""

    code: int
    words: str


Event = (
    Attached
    | Detached
    | Received
    | Room
    | Timer
    | Open
    | Accept
    | Write
    | Prioritize
    | End
    | Read
    | Durable
    | Finish
    | Reset
    | Close
)


class Transmit(NamedTuple):
    """Bytes to send on the connection."""

    data: bytes


class Opened(NamedTuple):
    """The stream that Open asked for."""

    stream: int


class Offered(NamedTuple):
    """The peer has opened a stream; its bytes begin at `position`."""

    stream: int
    purpose: str
    priority: int
    position: int


class Accepted(NamedTuple):
    """The peer takes part in a stream of ours, and its bytes begin at `position`."""

    stream: int
    position: int


class Wrote(NamedTuple):
    """The session took `size` bytes of Write. If it was not all, Drained follows when there is room."""

    stream: int
    size: int


class Drained(NamedTuple):
    """There is room for Write again."""

    stream: int


class Delivered(NamedTuple):
    """Bytes of the peer, each once and in order."""

    stream: int
    position: int
    data: bytes


class Ended(NamedTuple):
    """The peer's bytes end here."""

    stream: int


class Acknowledged(NamedTuple):
    """How far the peer has received a stream, and how far it is durable there."""

    stream: int
    received: int
    durable: int


class Gone(NamedTuple):
    """The stream is over in both directions, and each side knows that the other one has all of it."""

    stream: int


class WasReset(NamedTuple):
    """The stream was reset by the peer, or ended with the session."""

    stream: int
    code: int
    words: str


class SetTimer(NamedTuple):
    """Give Timer at this time; it replaces one before."""

    at: float


class Cut(NamedTuple):
    """The connection is to be closed, the session may go on over another one."""

    code: int
    words: str


class Closed(NamedTuple):
    """The session is over; the connection is to be closed when all that was to be transmitted has been."""

    code: int
    words: str


Effect = (
    Transmit
    | Opened
    | Offered
    | Accepted
    | Wrote
    | Drained
    | Delivered
    | Ended
    | Acknowledged
    | Gone
    | WasReset
    | SetTimer
    | Cut
    | Closed
)
