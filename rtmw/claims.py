"""A name that one process of the host has at a time, and that dies with it."""

from __future__ import annotations

import socket

__all__ = ["claimed"]


def claimed(name: str) -> socket.socket | None:
    """The process that holds the socket has the name; None: another process has it. Names begin with `rtmw-`."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        held.bind(f"\0{name}")
    except OSError:
        held.close()
        return None
    return held
