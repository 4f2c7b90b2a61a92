"""The lock of a log: the process that recovers or writes holds it, until it closes the log or ends."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.errors import LogError, LogLocked
from rtmw.locks import FileLock, NoLocks, is_locked

__all__ = ["Holder", "holder_of"]

LOCK = "lock"
_RECOVERING = ", which looks whether it is whole"
"""What stands behind the name of one who opens the log to read it; that takes a moment, and a writer waits for it."""
_WRITES = (
    "{log}: {name} writes to this log, and one process at a time may; end it, or append through it. Reading is free to "
    "all"
)
RECOVERY_S = 60.0
_NAMED_S = 0.1
"""A holder that was killed has left its name; whoever has taken the lock from it has mostly written another by then."""
_NAMING_S = 5.0
"""A process that has just taken the lock has written its name by then, also on a busy machine."""
_NAME_SIZE = 120
_UNNAMED = "another process"
_LOOK_S = 0.002


class Holder(Closing):
    """Takes the lock of the log in this folder, or another one. LogLocked: somebody has it, who is named.

    `told`: what LogLocked says then. PermissionError, or OSError of a read-only file system: this user may read only.
    """

    def __init__(self, log: str, folder: int, to_write: bool = True, *, lock: str = LOCK, told: str = _WRITES) -> None:
        self._lock = FileLock(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666, dir_fd=folder))
        try:
            _take(log, self._lock, to_write, told)
        except BaseException:
            self._lock.close()
            raise
        _write_name(self._lock.descriptor, "" if to_write else _RECOVERING)

    def is_named(self, folder: int, lock: str) -> bool:
        """Whether its file still has this name: it is not, if the file was removed between its opening and the lock."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(lock, dir_fd=folder), os.fstat(self._lock.descriptor))
        return False

    def close(self) -> None:
        if self._lock.is_ours:
            _remove_name(self._lock.descriptor)
        self._lock.close()


def _take(log: str, lock: FileLock, to_write: bool, told: str) -> None:
    seen, since = "", CLOCK.monotonic()
    while True:
        try:
            if lock.take():
                return
        except NoLocks as error:
            raise LogError(
                f"{log}: this file system has no locks ({error.strerror}), so two writers could not be kept apart; put "
                "the log on another one"
            ) from error
        name = _read_name(lock.descriptor)
        if name != seen:  # another holder than at the last look, or one that has written its name since
            seen, since = name, CLOCK.monotonic()
        patience = RECOVERY_S if name.endswith(_RECOVERING) else _NAMED_S if name else _NAMING_S
        if not to_write or CLOCK.monotonic() - since > patience:
            raise LogLocked(told.format(log=log, name=name or _UNNAMED))
        time.sleep(_LOOK_S)


def holder_of(folder: int, lock: str = LOCK) -> str | None:
    """The holder of a lock: program and process id; None: there is none."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        return (_read_name(descriptor) or _UNNAMED) if is_locked(descriptor) else None
    finally:
        os.close(descriptor)


def _write_name(descriptor: int, doing: str) -> None:
    """Writes for people who holds the lock; the lock counts also where this cannot be written."""
    program = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    text = f"{program} ({os.getpid()}){doing}".encode(errors="replace")[:_NAME_SIZE]
    with suppress(OSError):  # in one call: whoever looks meanwhile sees one name or the other
        os.pwrite(descriptor, text.ljust(_NAME_SIZE) + b"\n", 0)


def _remove_name(descriptor: int) -> None:
    """Removes the holder's name before the lock is given back, so that it is not taken for that of the next holder,
    which has not written its own yet."""
    with suppress(OSError):
        os.pwrite(descriptor, b" " * _NAME_SIZE + b"\n", 0)


def _read_name(descriptor: int) -> str:
    with suppress(OSError):
        return os.pread(descriptor, 2 * _NAME_SIZE, 0).decode(errors="replace").strip()
    return ""
