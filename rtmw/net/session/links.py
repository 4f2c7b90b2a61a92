"""Data types of Meetings: connections and peers, its events and its effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from rtmw.net.session import events as e
from rtmw.net.session.core import Core
from rtmw.net.session.frames import FrameReader
from rtmw.net.session.hello import Hello


class Connected(NamedTuple):
    """A connection is there, and its TLS handshake over."""

    connection: int
    is_dialler: bool
    name: str
    """The verified name of the peer; sessions of different names never meet."""
    crc: bool
    """Without TLS: frames carry a CRC."""


class Arrived(NamedTuple):
    """Bytes came on a connection."""

    connection: int
    data: bytes | bytearray | memoryview


class Lost(NamedTuple):
    """A connection is gone."""

    connection: int


class RoomOn(NamedTuple):
    """The connection takes so many more bytes now."""

    connection: int
    size: int


class Overdue(NamedTuple):
    """The time of Deadline has come."""

    connection: int


class Refuse(NamedTuple):
    """End a connection in words; the session may go on over another one if the code lets it."""

    connection: int
    code: int
    words: str


class Ask(NamedTuple):
    """An event of one session: of its program, or its Timer."""

    session: int
    event: e.Event


class Send(NamedTuple):
    """Bytes to send on a connection."""

    connection: int
    data: bytes


class Drop(NamedTuple):
    """Close the connection, behind what was to be sent on it."""

    connection: int
    code: int
    words: str
    session: int
    """The session that there is with its peer, 0 for none: another connection may carry it."""


class Deadline(NamedTuple):
    """Give Overdue at this time."""

    connection: int
    at: float


class Up(NamedTuple):
    """A session begins."""

    session: int
    peer: Hello
    name: str
    core: Core


class Carried(NamedTuple):
    """A connection carries the session now, at its beginning and after a cut."""

    session: int
    connection: int


class Of(NamedTuple):
    """An effect of one session: Transmit, Cut apart, which are given as Send and Drop."""

    session: int
    effect: e.Effect


Event = Connected | Arrived | Lost | RoomOn | Overdue | Refuse | Ask
Effect = Send | Drop | Deadline | Up | Carried | Of


@dataclass
class Peer:
    """A node that has said hello."""

    key: tuple[str, UUID]
    hello: Hello
    """The latest one."""
    attachment: int = 0
    """Of the last GO seen, if the peer is the chooser."""
    session: int = 0
    core: Core | None = None
    connection: int | None = None


class Link:
    """A connection, and how far its greeting has come."""

    def __init__(self, event: Connected) -> None:
        self.number, self.is_dialler, self.name, self.crc = event
        self.begun = bytearray()
        """The bytes of the hello that have come."""
        self.hello: Hello | None = None
        self.peer: Peer | None = None
        self.version = 0
        self.reader = FrameReader(crc=event.crc)
        self.is_up = False
        self.room = 0
