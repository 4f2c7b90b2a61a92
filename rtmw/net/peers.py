"""Hosts that a node is told to look for, as addresses.

The DDS library finds names itself, but ends the whole process when one cannot be found.
"""

from __future__ import annotations

import re
import socket

from rtmw.errors import RtmwError

_PORTS = range(1, 65536)


def addresses(peers: tuple[str, ...]) -> tuple[str, ...]:
    """The IPv4 address of each peer, with its port if one was given. Raises RtmwError."""
    return tuple(map(_address, peers))


def _address(peer: str) -> str:
    match = re.fullmatch(r"([^:\s]+)(?::(\d+))?", peer)
    if match is None or (match[2] and int(match[2]) not in _PORTS):
        raise RtmwError(f"peers: {peer!r} is no host; it must be a name or an IPv4 address, such as 10.0.0.7")
    try:
        found = socket.getaddrinfo(match[1], None, socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RtmwError(
            f"peers: the host {match[1]!r} cannot be found: {why}; name its IPv4 address instead"
        ) from error
    address = str(found[0][4][0])
    return f"{address}:{match[2]}" if match[2] else address
