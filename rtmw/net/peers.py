"""Hosts that a node is told to look for, as addresses.

The DDS library finds names itself, but ends the whole process when one cannot be found.
"""

from __future__ import annotations

import socket
import threading

from rtmw.addresses import IPV6, bracketed, parts
from rtmw.errors import RtmwError
from rtmw.net import signals


def are_ipv6(peers: tuple[str, ...]) -> bool:
    """Is one of them an IPv6 address? Then all are looked for by IPv6."""
    return any(IPV6.fullmatch(peer) for peer in peers)


def addresses(peers: tuple[str, ...], is_ipv6: bool = False) -> tuple[str, ...]:
    """The address of each peer, of IPv4 or IPv6, with its port if one was given, as DDS takes it. Raises RtmwError."""
    return tuple(_address(peer, is_ipv6) for peer in peers)


def _address(peer: str, is_ipv6: bool) -> str:
    try:
        host, port = parts(peer)
    except ValueError as error:
        raise RtmwError(f"peers: {error}") from None
    version = "IPv6" if is_ipv6 else "IPv4"
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RtmwError(
            f"peers: the host {host!r} cannot be found: {why}; name its {version} address instead"
        ) from error
    address = bracketed(str(found[0][4][0]))
    return f"{address}:{port}" if port else address


class Search:
    """Looks peers up in a thread of its own, which may take long, and does not hold the process up when it ends."""

    def __init__(self, peers: tuple[str, ...], is_ipv6: bool) -> None:
        self.found: tuple[str, ...] | None = None
        self.why = ""
        """Why they are not found."""
        self._thread = threading.Thread(target=self._look, args=(peers, is_ipv6), name="rtmw peers", daemon=True)
        self._thread.start()

    def _look(self, peers: tuple[str, ...], is_ipv6: bool) -> None:
        signals.hold()
        try:
            self.found = addresses(peers, is_ipv6)
        except RtmwError as error:
            self.why = str(error)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()


def has_port(address: str) -> bool:
    """Does this address, one that `addresses` returns, name a port?"""
    return parts(address)[1] is not None
