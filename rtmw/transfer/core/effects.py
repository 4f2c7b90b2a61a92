"""Events of a core, and effects of its steps: input and output of `Service.step`.

`failed` says what a step could not do, as programs are told it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from rtmw.errors import LogFull
from rtmw.transfer.address import Life
from rtmw.transfer.core.report import Happening
from rtmw.transfer.errors import TransactionAborted, TransferRefused
from rtmw.transfer.events import Aborted, Came, Event, Moved
from rtmw.transfer.frames import Frame
from rtmw.transfer.messages import Failed, Message
from rtmw.transfer.records import Spooled

__all__ = [
    "FAILURES",
    "Arrived",
    "Asked",
    "Do",
    "Drop",
    "Effect",
    "Ended",
    "Finish",
    "Given",
    "Happened",
    "Key",
    "Remove",
    "Report",
    "Steps",
    "Tell",
    "Ticked",
    "Write",
    "failed",
    "tell",
]


Key: TypeAlias = tuple[Life, int]
"""Names a body that is on its way: its sender, and the number of its Send."""


# ---- what happens ----


class Arrived(NamedTuple):
    """A frame of a program."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Ended:
    """The process of these members has ended, or is taken for dead."""

    lives: frozenset[Life]


class Happened(NamedTuple):
    """Notes of a step of one of the machines. `logged`: that with the log."""

    notes: tuple[Moved | Aborted | Came, ...]
    logged: bool


@dataclass(frozen=True, slots=True)
class Given:
    """A batch of frames is done: what was gathered for senders is told."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """It is time to tell senders how far transfers are that are on their way."""


Asked: TypeAlias = Arrived | Ended | Happened | Given | Ticked


# ---- what is to be done ----


class Do(NamedTuple):
    """A step of one of the two machines. The answer is that of the step; its errors are raised at the `yield`."""

    event: Event
    logged: bool


class Tell(NamedTuple):
    """A frame for a program. `logged`: when all is durable that was logged so far."""

    frame: Frame
    logged: bool


@dataclass(frozen=True, slots=True)
class Write:
    """The next bytes of a body, into a file of the spool. OSError is raised at the `yield`."""

    key: Key
    size: int
    """Bytes of the whole body."""
    data: bytes
    durable: bool


@dataclass(frozen=True, slots=True)
class Finish:
    """The body is whole. The answer is a Spooled. OSError is raised at the `yield`."""

    key: Key
    size: int


@dataclass(frozen=True, slots=True)
class Drop:
    """The body is not wanted any more. Idempotent."""

    key: Key


@dataclass(frozen=True, slots=True)
class Report:
    """An event, for whoever watches. `logged`: when all is durable that was logged so far."""

    happening: Happening
    logged: bool


@dataclass(frozen=True, slots=True)
class Remove:
    """No transfer has this body."""

    body: Spooled


Effect: TypeAlias = Do | Tell | Write | Finish | Drop | Report | Remove
Steps: TypeAlias = Generator[Effect, Any, None]


def tell(frame: Frame, message: Message, logged: bool = True) -> Tell:
    """Return the answer to a frame."""
    return Tell(Frame(frame.life, frame.slot, frame.number, message), logged)


FAILURES: Final = (TransactionAborted, TransferRefused, ValueError, LogFull, OSError)
"""The errors that programs are told."""
_REFUSED, _UNDONE, _VALUE, _DISK = range(4)


def failed(error: Exception) -> Failed:
    """Return what a program is told of one of these errors."""
    if isinstance(error, TransactionAborted):
        return Failed(_UNDONE, str(error))
    if isinstance(error, TransferRefused):
        return Failed(_REFUSED, str(error))
    if isinstance(error, ValueError):
        return Failed(_VALUE, str(error))
    return Failed(_DISK, f"the disk of the core has no room, or has failed: {error}")
