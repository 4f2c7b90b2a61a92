"""Notifications of the node to the program that runs it, as systemd has them (sd_notify), without its library."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Send a state such as `READY=1`; nothing without a supervisor, and never an error."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK  # one who does not listen must not stop us
    with socket.socket(socket.AF_UNIX, kind) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return
