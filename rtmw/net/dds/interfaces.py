"""Which network interfaces DDS uses, and why: the library says neither, but it binds the sockets that it sends with."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from rtmw.net.settings import Settings


@dataclass(frozen=True)
class Used:
    """Interfaces that carry a node's topics."""

    names: str
    """With a comma between; empty: they cannot be found out."""
    why: str


def are_named_by_experts() -> bool:
    """Does CYCLONEDDS_URI name interfaces? Then those count, whatever the settings say: DDS refuses one named twice."""
    given = os.environ.get("CYCLONEDDS_URI", "")
    files = [Path(part.strip().removeprefix("file://")) for part in given.split(",") if "<" not in part]
    texts = [given, *(file.read_text(errors="replace") for file in files if file.is_file())]
    return any("<NetworkInterface" in text for text in texts)


def used_by(settings: Settings) -> Used:
    """To be asked once the DDS domain is joined."""
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
