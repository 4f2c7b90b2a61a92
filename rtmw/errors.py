"""The exceptions of rtmw, as one tree. A message says what was asked, what was found and what to do.

    RtmwError
    ├── DomainError             the region of a domain cannot be used
    │   ├── DomainNotFound          nobody has created it
    │   ├── VersionMismatch         made by another version of rtmw
    │   ├── RegionDamaged           half made, truncated, or its words contradict each other
    │   ├── AccessDenied            belongs to another user           (also PermissionError)
    │   ├── SharedMemoryFull        /dev/shm has no room for it       (also OSError)
    │   ├── ForkedError             attached before fork(), used after it in the child
    │   └── SweptError              this process closed the region's descriptor, and was taken for dead
    ├── LimitReached            no slot left: participants, topics, endpoints or types
    ├── TopicNameError          not a topic name                      (also ValueError)
    ├── UnsupportedType         not a message type                    (also TypeError)
    ├── MessageError            this value cannot be published; nothing was sent
    │   ├── TypeMismatch            value of another type             (also TypeError)
    │   ├── ValueMismatch           right type, impossible content    (also ValueError)
    │   └── MessageTooLarge         larger than the pool              (also ValueError)
    ├── PoolExhausted           no block or descriptor for a loan
    ├── NotPermitted            the system denies real time or locks  (also PermissionError)
    ├── NotInstalled            another program or package is needed  (also ImportError)
    ├── DeadlineMissed          the deadline passed without a message
    ├── LeaseExpired            this RELIABLE subscriber stood still and no longer counted
    ├── RecordingError          this file is no recording, or of a kind that cannot be read
    │   └── RecordingDamaged        its bytes contradict each other, or their CRC
    ├── RecordingFailed         a recorder could not begin, or not go on
    ├── RemoteFailed            a remote place cannot be reached      (also OSError)
    ├── LogError                this folder is no log, or of another version
    │   ├── LogDamaged              what was durable is not as it was written
    │   ├── LogFull                 the disk has no room; nothing was appended
    │   ├── LogFailed               the disk failed; what was on its way is there, or not
    │   └── LogLocked               another process writes to it
    ├── SessionError            a session between nodes cannot begin, or has ended
    │   └── StreamError             a stream of it was reset, or ended with it
    ├── TransferError           this transfer or transaction cannot be done; nothing was changed
    │   ├── TransferRefused         the address, the limits, the receiver or the state of a transfer forbid it
    │   ├── SourceChanged           the file that is sent was changed, cut or replaced meanwhile
    │   └── CoreNotRunning          no node of this host serves transfers
    ├── RequestError            a service gives no answer
    │   ├── CallFailed              its handler raised, or gave what cannot travel
    │   ├── NoServer                nobody serves, or who served has ended
    │   └── ServiceTaken            another program serves under this name
    ├── BatchTimeout            letters go on that were sent together     (also TimeoutError)
    └── ClosedError             used after close()

Full and empty are answers, not errors: `publish` returns False, `take` returns None. A package that only some uses
need is imported by `needed`, or within `needing_dds`: where it is missing, NotInstalled says how to get it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing import Any


class RtmwError(Exception):
    """Base of all errors of rtmw."""


class DomainError(RtmwError):
    """The region of a domain cannot be used."""


class DomainNotFound(DomainError):
    """Nobody has created this domain."""


class VersionMismatch(DomainError):
    """The region was made by another version of rtmw; both versions are named."""


class RegionDamaged(DomainError):
    """The region is half made, truncated, or its words contradict each other."""


class AccessDenied(DomainError, PermissionError):
    """The region belongs to another user."""


class SharedMemoryFull(DomainError, OSError):
    """/dev/shm has no room for the region."""


class ForkedError(DomainError):
    """The object was made before fork() and is used in the child."""


class SweptError(DomainError):
    """This process was taken for dead, for it closed the descriptor that says that it lives; others have its slots."""


class LimitReached(RtmwError):
    """Every slot of a table of the region is in use by the living."""


class TopicNameError(RtmwError, ValueError):
    """Not a topic name."""


class UnsupportedType(RtmwError, TypeError):
    """Not a message type: `bytes`, `str`, `dict`, a numpy dtype, or a class whose members can travel."""


class MessageError(RtmwError):
    """This value cannot be published; nothing was sent."""


class TypeMismatch(MessageError, TypeError):
    """The value is not of the publisher's type."""


class ValueMismatch(MessageError, ValueError):
    """The value is of the publisher's type but does not fit it."""


class MessageTooLarge(MessageError, ValueError):
    """The message is larger than the pool of the domain."""


class PoolExhausted(RtmwError):
    """No block or descriptor is free, and this reliability may not evict one."""


class NotPermitted(RtmwError, PermissionError):
    """The system refuses memory locks, a real-time priority or file locks; how to allow it is said."""


class NotInstalled(RtmwError, ImportError):
    """A package that this part of rtmw needs is not on this machine; the message says how to install it."""


class DeadlineMissed(RtmwError):
    """The subscriber's deadline passed without a message."""


class LeaseExpired(RtmwError):
    """A publisher waited for this RELIABLE subscriber, or tried, for longer than its lease, and went on without it.

    `missed` messages are gone for this subscriber; the next call goes on behind them.
    """

    def __init__(self, message: str, missed: int = 0) -> None:
        super().__init__(message)
        self.missed = missed


class RecordingError(RtmwError):
    """The file is no recording, or of a kind that cannot be read."""


class RecordingDamaged(RecordingError):
    """The bytes of a recording contradict each other or their CRC: the message names file, position and what."""

    def __init__(self, message: str, path: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.position = position


class RecordingFailed(RtmwError):
    """The recording cannot begin, or ended before its time; what of it is on the disk is said."""


class RemoteFailed(RtmwError, OSError):
    """A place such as s3://bucket/prefix cannot be reached, or refuses; what to look at is said."""


class LogError(RtmwError):
    """The folder is no log, is of another version of the format, or cannot be one."""


class LogDamaged(LogError):
    """Durable bytes are not as they were written. Nothing is repaired by itself.

    `path`: the file; `start`, `end`: the positions from which and up to which records are concerned.
    """

    def __init__(self, message: str, path: str = "", start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.start = start
        self.end = end


class LogFull(LogError):
    """The disk has no room for another segment. Nothing was appended; appends go on when there is room again."""


class LogFailed(LogError):
    """A write or sync failed. No call is tried again: the log has to be opened anew, and shows then what is there.

    `start`, `end`: the positions of records whose outcome is unknown; equal, if nothing was on its way.
    """

    def __init__(self, message: str, start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


class LogLocked(LogError):
    """Another process writes to the log; the message names it. Reading is free to all."""


class SessionError(RtmwError):
    """A session between two nodes cannot begin, or has ended. `code`: why, as docs/formats/session.md lists."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class StreamError(SessionError):
    """A stream of a session was reset by one side, or ended with its session; the message has that side's words."""


class TransferError(RtmwError):
    """This transfer or transaction cannot be done; nothing was changed.

    `transfers`: from Sender.send_many, those of its letters that were sent, from the first one on; else none.
    """

    transfers: tuple[Any, ...] = ()


class TransferRefused(TransferError):
    """The address, the limits, the receiver or the state of the transfer forbid it."""


class SourceChanged(TransferError):
    """The file that is sent was changed, cut or replaced since it was accepted; no part of it arrives."""


class CoreNotRunning(TransferError):
    """No node of this host serves transfers; the message has the command that starts one."""


class RequestError(RtmwError):
    """A service gives no answer. One that comes too late is a TimeoutError."""


class CallFailed(RequestError):
    """The handler raised, or gave what cannot travel; the message has the type and the text of its error, and the log
    of the server the traceback."""


class NoServer(RequestError):
    """Nobody serves under this name, or the server has ended since the call began: what it did is not known."""


class ServiceTaken(RequestError):
    """Another program serves under this name; the message names it."""


class BatchTimeout(RtmwError, TimeoutError):
    """Not all letters of a batch have reached their level in time. `transfers`: those that were sent, from the first
    one on; they go on."""

    def __init__(self, message: str, transfers: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.transfers = transfers


class ClosedError(RtmwError):
    """The object was closed."""


MISSING: Final = "{package} is not installed, which {use} needs; install it with: pip install 'rtmw[{extra}]'"
"""One line: a command shows the text of an error with its line ends escaped."""


def needed(module: str, package: str, extra: str, use: str) -> Any:
    """The module. NotInstalled names the package that is missing, and the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise NotInstalled(MISSING.format(package=package, use=use, extra=extra)) from error


@contextmanager
def needing_dds(use: str) -> Generator[None]:
    """What is imported inside may need cyclonedds. Where cyclonedds is missing, NotInstalled names the command that
    installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cyclonedds":
            raise
        raise NotInstalled(MISSING.format(package="cyclonedds", use=use, extra="dds")) from error
