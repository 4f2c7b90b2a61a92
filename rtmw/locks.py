"""Exclusive locks of the kernel on files and folders: one process has one at a time, however that process ends.

A lock belongs to what open(2) made, which a child of fork() shares. It would stay with the child when the parent has
ended, so a child gives its copy back at once (`os.register_at_fork`). A process that another thread is just starting
has a copy, too, until it executes its program: so a lock is given back by a call, and not with the descriptor alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from contextlib import suppress
from typing import Final

from rtmw.closing import Closing

__all__ = ["FileLock", "NoLocks", "is_locked"]

_NONE: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class NoLocks(OSError):
    """The file system has no locks."""


class FileLock(Closing):
    """Owns a descriptor, which is open to read at least, and from `take` on its lock; one that is dropped gives both
    back. Not for several threads."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """-1: closed, or of the parent of this process."""
        self.is_ours = False
        _locks.add(self)  # before it is taken: a child that is made meanwhile would keep it, too

    def take(self) -> bool:
        """False: another process has it, or another descriptor of this one. Does not block. NoLocks, OSError."""
        self.is_ours = _try(self.descriptor, fcntl.LOCK_EX)
        return self.is_ours

    def close(self) -> None:
        """Gives it back. Idempotent; in a child of fork() the parent keeps it."""
        if self.is_ours:
            with suppress(OSError):  # of a disk that is gone: the lock goes with the descriptor
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self._leave()

    def _leave(self) -> None:
        """Closes the descriptor. Whoever has a copy of it keeps the lock."""
        descriptor, self.descriptor, self.is_ours = self.descriptor, -1, False
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        try:  # not suppress(): at the interpreter's end the names of modules are gone
            self.close()
        except Exception:
            return


_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def is_locked(descriptor: int) -> bool:
    """Whether somebody has the lock of this file; to be asked by those who do not take it. NoLocks, OSError.

    The caller closes the descriptor next: whoever takes the lock before that is refused.
    """
    return not _try(descriptor, fcntl.LOCK_SH)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NONE:
            raise NoLocks(error.errno, error.strerror) from None
        raise
    return True


def _leave_to_the_parent() -> None:
    for lock in list(_locks):
        lock._leave()


os.register_at_fork(after_in_child=_leave_to_the_parent)
