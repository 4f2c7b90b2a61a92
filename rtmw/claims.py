"""A name that one process of the host has at a time, and that dies with it."""

from __future__ import annotations

import errno
import os
import socket
import threading
import weakref
from typing import Final

from rtmw.clock import CLOCK

__all__ = ["STARTING_S", "claimed"]

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


def _leave_to_the_parent() -> None:
    """A child of fork() has a copy of each socket, and would keep the names when the parent has ended."""
    for held in list(_held):
        held.close()
    _held.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_leave_to_the_parent)
