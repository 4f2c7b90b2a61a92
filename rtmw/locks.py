"""Exclusive locks of the kernel on files and folders: one process has one at a time, however that process ends.

A lock belongs to what open(2) made, which a child of fork() shares. It would stay with the child when the parent has
ended, so a child gives its copy back at once (`os.register_at_fork`). A process that another thread is just starting
has a copy, too, until it executes its program: so a lock is given back by a call, and not with the descriptor alone.

A name that one process of the host has at a time (`claimed`) is the address of a socket, which dies with the process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import threading
import weakref
from contextlib import suppress
from typing import Final

from rtmw.clock import CLOCK
from rtmw.closing import Closing

__all__ = ["STARTING_S", "FileLock", "NoLocks", "claimed", "is_locked"]

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


# ---- names that one process of the host has at a time, and that die with it ----

STARTING_S: Final = 0.25
"""Seconds for which a name may be held that was given back: a program that its holder starts just then has a copy of
the socket until its own code begins."""
_AGAIN_S: Final = 0.005

_lock: Final = threading.RLock()
"""Held while a name is claimed or given back, and around fork(): else a child may have a socket that it cannot find."""


class _Name(socket.socket):
    def close(self) -> None:
        with _lock:
            super().close()


_held: Final[weakref.WeakSet[_Name]] = weakref.WeakSet()


def claimed(name: str, patience: float = 0.0) -> socket.socket | None:
    """The process that holds the socket has the name; None: another process has it, also after `patience` seconds.
    Names begin with `rtmw-`."""
    end = CLOCK.monotonic() + patience
    while (held := _bound(name)) is None and CLOCK.monotonic() < end:
        CLOCK.sleep(_AGAIN_S)
    return held


def _bound(name: str) -> socket.socket | None:
    with _lock:
        held = _Name(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        _held.add(held)
        try:
            held.bind(f"\0{name}")
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return None
        return held


def _leave_names_to_the_parent() -> None:
    """A child of fork() has a copy of each socket, and would keep the names when the parent has ended."""
    for held in list(_held):
        held.close()
    _held.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_leave_names_to_the_parent)
