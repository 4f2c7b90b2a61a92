"""A name that one process of the host has at a time, and that dies with it."""

from __future__ import annotations

import os
import socket
import weakref
from typing import Final

__all__ = ["claimed"]

_held: Final[weakref.WeakSet[socket.socket]] = weakref.WeakSet()


def claimed(name: str) -> socket.socket | None:
    """The process that holds the socket has the name; None: another process has it. Names begin with `rtmw-`."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        held.bind(f"\0{name}")
    except OSError:
        held.close()
        return None
    _held.add(held)
    return held


def _leave_to_the_parent() -> None:
    """A child of fork() has a copy of each socket, and would keep the names when the parent has ended."""
    for held in list(_held):
        held.close()
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)
