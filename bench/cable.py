"""Two hosts at one cable: network namespaces, each with one end of a veth pair as its Ethernet interface, MTU 1500."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

INTERFACE = "eth0"


@dataclass(frozen=True)
class Place:
    """Where processes of a measurement run."""

    enter: tuple[str, ...] = ()
    """What stands before a command, so that it runs there; nothing: this machine's own network."""
    address: str = "127.0.0.1"
    interface: str = "lo"


HERE = Place()


class NoCable(Exception):
    """In plain words, why."""


def ip(*words: str) -> None:
    try:
        done = subprocess.run(("ip", *words), capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        raise NoCable("network namespaces need `ip` (Debian: iproute2)") from None
    if done.returncode:
        raise NoCable(f"network namespaces need root: ip {' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def cable() -> Iterator[tuple[Place, Place]]:
    """Both hosts; they are gone when the block is left. Raises NoCable."""
    names = [f"rtmw-bench-{os.getpid()}-{host}" for host in range(2)]
    with ExitStack() as stack:
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        ip("-n", names[0], "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", names[1])
        first, second = (_host(name, f"10.79.0.{host + 1}") for host, name in enumerate(names))
        yield first, second


def _host(name: str, address: str) -> Place:
    changes: Sequence[Sequence[str]] = (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{address}/24", "dev", INTERFACE),
        ("link", "set", INTERFACE, "up"),
    )
    for change in changes:
        ip("-n", name, *change)
    return Place(("ip", "netns", "exec", name), address, INTERFACE)
