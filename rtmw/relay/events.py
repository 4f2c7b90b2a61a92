"""What a relay's steps are given, and what they say is to be done: values without behaviour."""

from __future__ import annotations

from typing import NamedTuple

from rtmw.relay.frame import Frame, Hello, Kind
from rtmw.relay.rows import Row


class Connected(NamedTuple):
    """A connection is known to be of this agent."""

    connection: int
    agent: str
    hello: Hello | None = None
    """None: it speaks the frame of the paper."""


class Arrived(NamedTuple):
    """A frame has come whole. What the paper's does not have is None and 0."""

    connection: int
    frame: Frame
    kind: Kind | None = None
    priority: int | None = None
    lifetime: float = 0.0


class Gone(NamedTuple):
    """A connection has ended."""

    connection: int


class Unsent(NamedTuple):
    """An order that was to leave can stand in no frame that its recipient takes."""

    order: int
    recipient: str
    words: str


class Tick(NamedTuple):
    """The time has come that `Machine.due` says."""


class Obeyed(NamedTuple):
    """The settings are other ones."""


class Own(NamedTuple):
    """The relay itself has an order for some agents; one that has no room, or is not in the settings, has none."""

    to: tuple[str, ...]
    command: bytes
    data: bytes


class Act(NamedTuple):
    """What an operator asks for."""

    asked: int
    """The number of the question; its Reply has it, too."""
    uid: int
    verb: str
    """Of ACTS."""
    whom: str
    """The number of an order; or an agent or a stream, as `stream_name` has it."""
    body: bytes | None = None
    """Of the order that is to be sent anew; None: the record has it no more."""


class NoAct(ValueError):
    """Why it cannot be done, in words."""


class Forward(NamedTuple):
    """Send the frame of an order, if `Machine.is_wanted` says so by then."""

    connection: int
    order: int
    recipient: str


class Say(NamedTuple):
    """Send a receipt, an alert or a notice."""

    connection: int
    frame: Frame
    kind: Kind


class Dial(NamedTuple):
    """Connect to an agent, if the settings say where."""

    agent: str


class Close(NamedTuple):
    """End a connection, with the reason for the log."""

    connection: int
    words: str


class Reply(NamedTuple):
    """Tell an operator what was done, or why nothing was."""

    asked: int
    words: str
    is_done: bool


class Alarm(NamedTuple):
    """Tell those who look on; the row is durable."""

    row: Row


Event = Connected | Arrived | Gone | Unsent | Tick | Obeyed | Act | Own
Effect = Forward | Say | Dial | Close | Reply | Alarm
