"""The network under a node: which interfaces have an address to use, whether the one in use is still there, and which
hosts it is told to look for.

The DDS library takes the addresses of its interfaces when it starts, and for good: when one is gone, nothing is heard
of the node, also when the same address comes back, for its multicast groups do not. So the node ends and begins anew as
the same process (`NetworkChanged`), as soon as an interface that it is to use has an address that it does not use yet.
IPv4 is used where there is IPv4. An IPv6 address that is valid on its link only does not count: each interface has one.

The library does not say which interfaces it uses, and how large datagrams they carry, but it binds the sockets that it
sends with. It finds names of hosts itself, but ends the whole process when one cannot be found: so they are looked up
here.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from rtmw.errors import RtmwError
from rtmw.net.process import hold_signals
from rtmw.net.settings import LOOPBACK, Settings
from rtmw.text.addresses import IPV6, bracketed, parts


@dataclass(frozen=True)
class Used:
    """Interfaces that carry a node's topics."""

    names: str
    """With a comma between; empty: they cannot be found out."""
    why: str


DATAGRAM_MOST: Final = 65_500
"""Bytes of a datagram over interfaces with large frames: about what UDP allows."""
_MTU_LEAST: Final = 1280
"""The least that IPv6 allows. A datagram for smaller frames would have no room for a fragment as RTPS wants it."""
_MTU_JUMBO: Final = 8192
"""From this MTU on, IP divides the largest datagram into so few frames that they are cheaper than datagrams of one
each."""
_HEADS_IPV4, _HEADS_IPV6 = 28, 48
"""Bytes of IP and UDP in the first frame of a datagram."""


def datagram_size(mtus: Iterable[int], is_ipv6: bool) -> int:
    """The most bytes of a datagram that leaves by interfaces with these MTUs: what fits one frame of each of them. IP
    would divide a larger one, and whoever loses one of its frames loses all of it. Loopback loses nothing."""
    least = min(mtus, default=_MTU_JUMBO)  # where there is no other, loopback is used
    if least >= _MTU_JUMBO:
        return DATAGRAM_MOST
    return max(least, _MTU_LEAST) - (_HEADS_IPV6 if is_ipv6 else _HEADS_IPV4)


def mtus(names: tuple[str, ...]) -> list[int]:
    """The MTUs of these interfaces. Where none is named: of those that CYCLONEDDS_URI names, or else of all that are
    up, but for loopback."""
    names = names or tuple(_NAME.findall(_said_by_experts()))
    return [
        about.mtu
        for name, about in psutil.net_if_stats().items()
        if (name in names if names else about.isup and name != LOOPBACK)
    ]


_NAME: Final = re.compile(r"""<NetworkInterface\b[^>]*\bname\s*=\s*["']([^"']+)""")


def are_named_by_experts() -> bool:
    """Does CYCLONEDDS_URI name interfaces? Then those count, whatever the settings say: DDS refuses one named twice."""
    return "<NetworkInterface" in _said_by_experts()


def is_sized_by_experts() -> bool:
    """Does CYCLONEDDS_URI say how large datagrams are?"""
    return "<MaxMessageSize" in _said_by_experts()


def _said_by_experts() -> str:
    """CYCLONEDDS_URI, and the files that it names."""
    given = os.environ.get("CYCLONEDDS_URI", "")
    files = [Path(part.strip().removeprefix("file://")) for part in given.split(",") if "<" not in part]
    return "\n".join([given, *(file.read_text(errors="replace") for file in files if file.is_file())])


def used_by(settings: Settings) -> Used:
    """The interfaces that DDS uses, and why. Call it once the DDS domain is joined."""
    used = dict(bound())
    names = ", ".join(dict.fromkeys(used.values()))
    if are_named_by_experts():
        return Used(names or (", ".join(settings.wire_interfaces)), "CYCLONEDDS_URI names it")
    if settings.interface is not None:
        missing = [name for name in settings.wire_interfaces if names and name not in used.values()]
        without = f", but {' and '.join(missing)} without an address" if missing else ""
        return Used(names or settings.interface, f"it was named{without}")
    if not settings.peers:
        return Used(names or (", ".join(settings.wire_interfaces)), _LOOPBACK)
    return Used(names, f"{', '.join(used)}; {_CHOSEN}")


_LOOPBACK = "neither interface nor peers are named: it reaches this host only"
_CHOSEN = (
    "peers are named and no interface, so it is the one by which the kernel reaches them; --interface names another"
)


def sending() -> list[int]:
    """Descriptors of the sockets that DDS sends with."""
    return [descriptor for descriptor, _, _ in _sockets()]


def bound() -> Iterator[tuple[str, str]]:
    """Addresses that datagram sockets of this process are bound to, each with the name of its interface."""
    return ((address, name) for _, address, name in _sockets())


def _sockets() -> Iterator[tuple[int, str, str]]:
    """Datagram sockets of this process that are bound to an address of an interface: descriptor, address and name."""
    names = {entry.address.partition("%")[0]: name for name, of in psutil.net_if_addrs().items() for entry in of}
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile, or no socket
            duplicate = os.dup(int(descriptor.name))
            try:
                one = socket.socket(fileno=duplicate)
            except OSError:
                os.close(duplicate)
                continue
            with one:
                is_datagram = one.type == socket.SOCK_DGRAM and one.family in (socket.AF_INET, socket.AF_INET6)
                address: str = one.getsockname()[0].partition("%")[0] if is_datagram else ""
            if address in names:
                yield int(descriptor.name), address, names[address]


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
        hold_signals()
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
