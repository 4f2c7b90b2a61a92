"""Ports of TCP for servers that a test starts, stops and starts again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES = 1000


def free_port(address: str = "127.0.0.1") -> int:
    """A port on which nobody listens.

    The kernel chooses none like it: before the server begins, it would make it the near end of another connection.
    """
    below = int(RANGE.read_text().split()[0])
    for _ in range(TRIES):
        port = random.SystemRandom().randrange(LOWEST, below)
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((address, port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no port from {LOWEST} to {below - 1} is free at {address}")


def free_ports(number: int) -> list[int]:
    """So many different ones."""
    found = set[int]()
    while len(found) < number:
        found.add(free_port())
    return list(found)
