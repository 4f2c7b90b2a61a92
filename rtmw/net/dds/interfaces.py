"""Which network interfaces DDS uses, why, and how large datagrams they carry: the library does not say, but it binds
the sockets that it sends with."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from rtmw.net.settings import LOOPBACK, Settings


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
