"""The lock of a log: who recovers or writes holds it, until it is closed or the process ends."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
import weakref
from contextlib import suppress

from rtmw.closing import Closing
from rtmw.errors import LogError, LogLocked

__all__ = ["Holder", "holder_of"]

LOCK = "lock"
_RECOVERING = ", which looks whether it is whole"
"""Behind the name of one who opens the log to read it; that takes a moment, and a writer waits for it."""
_WRITES = (
    "{log}: {name} writes to this log, and one process at a time may; end it, or append through it. Reading is free to "
    "all"
)
RECOVERY_S = 60.0
_NAMED_S = 0.1
"""Whoever has just taken the lock has written its name by then."""
_LOOK_S = 0.002
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_holders: weakref.WeakSet[Holder] = weakref.WeakSet()


class Holder(Closing):
    """Takes the lock of the log in this folder, or another one. LogLocked: somebody has it, who is named.

    `told`: what LogLocked says then. PermissionError, or OSError of a read-only file system: this user may read only.
    """

    def __init__(self, log: str, folder: int, to_write: bool = True, *, lock: str = LOCK, told: str = _WRITES) -> None:
        self._descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666, dir_fd=folder)
        try:
            _lock(log, self._descriptor, to_write, told)
        except BaseException:
            self.close()
            raise
        _holders.add(self)
        _write_name(self._descriptor, "" if to_write else _RECOVERING)

    def is_named(self, folder: int, lock: str) -> bool:
        """Whether its file still has this name: it is not, if the file was removed between its opening and the lock."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(lock, dir_fd=folder), os.fstat(self._descriptor))
        return False

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _lock(log: str, descriptor: int, to_write: bool, told: str) -> None:
    begin = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            name = _read_name(descriptor)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            raise LogError(
                f"{log}: this file system has no locks ({error.strerror}), so two writers could not be kept apart; put "
                "the log on another one"
            ) from error
        patience = RECOVERY_S if name.endswith(_RECOVERING) else _NAMED_S
        if not to_write or time.monotonic() - begin > patience:
            raise LogLocked(told.format(log=log, name=name))
        time.sleep(_LOOK_S)


def holder_of(folder: int, lock: str = LOCK) -> str | None:
    """Who holds a lock: program and process id; None: nobody."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_name(descriptor)
    finally:
        os.close(descriptor)
    return None


def _write_name(descriptor: int, doing: str) -> None:
    """For people: a lock counts also where this cannot be written."""
    program = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{program} ({os.getpid()}){doing}\n".encode(errors="replace"), 0)


def _read_name(descriptor: int) -> str:
    with suppress(OSError):
        name = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        if name:
            return name
    return "another process"


def _let_go() -> None:
    """In a child of fork(): its copy of the descriptor would keep the lock when the parent has ended."""
    for holder in list(_holders):
        holder.close()


os.register_at_fork(after_in_child=_let_go)
