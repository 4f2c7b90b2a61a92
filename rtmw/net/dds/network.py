"""The network under a node: which interfaces have an address to use, and whether the one in use is still there.

The DDS library takes the addresses of its interfaces when it starts, and for good: when one is gone, nothing is heard
of the node, also when the same address comes back, for its multicast groups do not. So the node ends and begins anew as
the same process (`NetworkChanged`), as soon as an interface that it is to use has an address that it does not use yet.
IPv4 is used where there is IPv4. An IPv6 address that is valid on its link only does not count: each interface has one.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from rtmw.addresses import parts
from rtmw.errors import RtmwError
from rtmw.net.dds.interfaces import DATAGRAM_MOST, are_named_by_experts, bound, datagram_size, mtus
from rtmw.net.peers import are_ipv6
from rtmw.net.settings import LOOPBACK, Settings

_IPV6 = Path("/proc/net/if_inet6")
_LINK_ONLY = 0x20
"""Scope of an IPv6 address."""
_NOT_YET = 0x08 | 0x40
"""Flags of an IPv6 address: another host has it, or that is still to be found out (RFC 4862)."""
_GROUPS = 0x1 | 0x10 | 0x100
"""Multicast groups of rtnetlink(7): links, IPv4 and IPv6 addresses."""
_ADDRESS_GONE = 21
_HEADER, _ADDRESS, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=HH")
_OF_ADDRESS = (1, 2)
"""Attributes of a message about an address that are one: IFA_ADDRESS, IFA_LOCAL."""


class NetworkChanged(RtmwError):
    """The node is to be started again, for the network is another one."""


@dataclass(frozen=True)
class Line:
    """The interfaces that DDS is to use."""

    names: tuple[str, ...]
    """Names of interfaces; none: the DDS library chooses."""
    is_ipv6: bool = False
    datagram: int = DATAGRAM_MOST
    """Bytes of the largest datagram that leaves by them."""


def _line(names: tuple[str, ...], is_ipv6: bool = False) -> Line:
    return Line(names, is_ipv6, datagram_size(mtus(names), is_ipv6))


def choose(settings: Settings) -> Line | None:
    """The interfaces to use now. None: no interface that may be used has an address."""
    if are_named_by_experts():
        return _line(())
    wanted = settings.wire_interfaces
    has_ipv4, has_ipv6 = _having(_ipv4()), _having(_ipv6())
    is_ipv6 = are_ipv6(settings.peers) or not any(_fits(name, wanted) for name in has_ipv4)
    names = [name for name in (has_ipv6 if is_ipv6 else has_ipv4) if _fits(name, wanted)]
    if not wanted:
        return _line((), is_ipv6 and bool(names))  # with loopback alone it waits for another one, and carries meanwhile
    return _line(tuple(name for name in wanted if name in names), is_ipv6) if names else None


def leading(peers: tuple[str, ...]) -> tuple[str, ...]:
    """The interfaces by which the kernel sends to these addresses, as its routes are now. Nothing is sent."""
    names = {address: name for name, address in [*_ipv4(), *_ipv6()]}
    found = [names.get(address or "") for address in map(_source_towards, peers)]
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _source_towards(peer: str) -> str | None:
    """The address from which the kernel would send to another one; None: it has no route."""
    host, _ = parts(peer)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # of a datagram socket, this asks for the route and sends nothing
        except OSError:
            return None
        return str(probe.getsockname()[0])


def lead(line: Line, settings: Settings, peers: tuple[str, ...]) -> Line:
    """Chooses interfaces where peers are named and no interface: those that lead to the peers, or loopback if none
    does. Left to itself, the DDS library takes one that is up, such as the bridge of containers, and stays there."""
    if line.names or are_named_by_experts():
        return line
    return _line(leading(peers) or (LOOPBACK,), line.is_ipv6)


def why_none(settings: Settings) -> str:
    """Why there is nothing to use."""
    names = " and ".join(settings.wire_interfaces)
    return f"{names}: down, or without an address; the node begins when there is one"


def _fits(name: str, wanted: tuple[str, ...]) -> bool:
    return name in wanted if wanted else name != LOOPBACK


def _having(addresses: Iterator[tuple[str, str]]) -> list[str]:
    return [*dict.fromkeys(name for name, _ in addresses)]


def _ipv4() -> Iterator[tuple[str, str]]:
    """Addresses of interfaces that are up, behind the name of the interface; also of one whose cable is pulled."""
    up = {name for name, about in psutil.net_if_stats().items() if "up" in about.flags.split(",")}
    for name, of in psutil.net_if_addrs().items():
        for entry in of:
            if entry.family == socket.AF_INET and name in up:
                yield name, entry.address


def _ipv6() -> Iterator[tuple[str, str]]:
    with suppress(OSError):  # there is no IPv6
        for row in _IPV6.read_text().splitlines():
            digits, _, _, scope, flags, name = row.split()
            if int(scope, 16) != _LINK_ONLY and not int(flags, 16) & _NOT_YET:
                yield name, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))


class Network:
    """Watches what a node uses. To be made before it joins the DDS domain, so that no change is missed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
        )
        self._socket.bind((0, _GROUPS))
        self._used: dict[str, str] = {}
        """Names of interfaces by address."""
        self._lost: dict[str, str] = {}
        self._peers: tuple[str, ...] = ()

    def joined(self, peers: tuple[str, ...]) -> None:
        """The addresses that the DDS library is bound to now are those in use. `peers`: their addresses."""
        self._used, self._peers = dict(bound()), peers

    def has_news(self) -> bool:
        """Has anything changed since it was asked last?"""
        news, gone = False, set[str]()
        with suppress(BlockingIOError):
            while True:
                try:
                    told = self._socket.recv(1 << 16)
                except OSError as error:
                    if isinstance(error, BlockingIOError):
                        raise
                    told = b""  # more came than is kept: look at all
                news = True
                gone.update(_addresses_gone(told))
        if news:
            there = {address for _, address in [*_ipv4(), *_ipv6()]}
            self._lost |= {at: name for at, name in self._used.items() if at in gone or at not in there}
        return news

    def lost(self) -> str | None:
        """The words about addresses that are gone; None: all that are used are there."""
        if not self._lost:
            return None
        gone = ", ".join(f"{address} of {name}" for address, name in self._lost.items())
        return f"{gone} is gone; the node goes on when there is an address to use"

    def wants_restart(self) -> bool:
        """Is there something to use that is not used, in place of what is lost, or in addition?"""
        line = choose(self._settings)
        if line is None or (are_named_by_experts() and not self._lost):
            return False
        used = {name for at, name in self._used.items() if at not in self._lost and (":" in at) == line.is_ipv6}
        return bool({*(line.names or leading(self._peers))} - used)

    def close(self) -> None:
        self._socket.close()


def _addresses_gone(told: bytes) -> Iterator[str]:
    at = 0
    while at + _HEADER.size <= len(told):
        size, kind, *_ = _HEADER.unpack_from(told, at)
        if size < _HEADER.size:
            return
        if kind == _ADDRESS_GONE:
            yield from _addresses(told[at + _HEADER.size : at + size])
        at += (size + 3) & ~3


def _addresses(message: bytes) -> Iterator[str]:
    if len(message) < _ADDRESS.size:
        return
    family, at = message[0], _ADDRESS.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if size < _ATTRIBUTE.size:
            return
        octets = message[at + _ATTRIBUTE.size : at + size]
        if kind in _OF_ADDRESS and len(octets) == (4 if family == socket.AF_INET else 16):
            yield socket.inet_ntop(socket.AddressFamily(family), octets)
        at += (size + 3) & ~3
