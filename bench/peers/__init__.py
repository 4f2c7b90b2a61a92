"""The systems, behind one small interface: open a sender and a receiver, send, loan, take, receive, read.

A message's first eight bytes are a stamp. Who sends writes it, who receives reads it: `send` gets a whole body, `loan`
only the stamp and writes that into a message of full size where it lies. What a system hands out itself is called
directly, without a function of ours in between, wherever its own call has the needed form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

STAMP = struct.Struct("<q")
read_stamp: Callable[[Any], tuple[int, ...]] = STAMP.unpack_from
PATIENCE = 10.0
"""Seconds a blocking receive waits where it has to be told."""


@dataclass(frozen=True)
class Channel:
    """One direction between processes."""

    name: str
    size: int
    """Bytes of the largest body."""
    place: str
    """A folder for sockets."""
    domain: int
    listens: bool
    """Of the two processes, the one that listens where one of them has to."""
    reliable: bool = False
    """Nothing may be lost: who sends waits."""
    readers: int = 1
    waits: bool = False
    """The receiver will block, so the sender has to wake it."""
    spin: float | None = 0.0
    """Seconds to spin before sleeping, for systems that have such a setting; None: their default."""


@dataclass(frozen=True)
class Sender:
    send: Callable[[Any], object]
    loan: Callable[[int], object] | None = None
    send_many: Callable[[list[bytes]], object] | None = None
    kept: object = None
    """What has to live as long as the calls are used."""


@dataclass(frozen=True)
class Receiver:
    take: Callable[[], Any]
    """The next message, or None."""
    receive: Callable[[], Any]
    """The next message; sleeps until there is one."""
    read: Callable[[Any], tuple[int, ...]] = read_stamp
    """A message's stamp."""
    copy: Callable[[Any, memoryview], object] | None = None
    """Copies a whole message out. None: what is handed out is a copy already."""
    take_many: Callable[[int], list[Any]] | None = None
    kept: object = None


class Peer(Protocol):
    """A module of this package."""

    def sender(self, channel: Channel) -> Sender: ...

    def receiver(self, channel: Channel) -> Receiver: ...


MODULES = {
    "rtmw": "rtmw",
    "iceoryx2": "iceoryx2",
    "eclipse-zenoh": "zenoh",
    "pyzmq": "zmq",
    "cyclonedds": "dds",
    "pynng": "nng",
}
"""Distribution → module of this package."""

ZENOH_SHM, ZENOH_TCP, ZENOH_TLS = "zenoh, shared memory", "zenoh, TCP", "zenoh, TLS"
LINK_TCP, LINK_TLS = "rtmw, link over TCP", "rtmw, link over TLS"
LINK_TLS_NEWER = "rtmw, link over TLS, newer OpenSSL"
NATS, NATS_TLS = "NATS leaf, TCP", "NATS leaf, TLS"
TRANSPORTS = {
    ZENOH_SHM: "zenoh",
    ZENOH_TCP: "zenoh_tcp",
    ZENOH_TLS: "zenoh_tls",
    LINK_TCP: "rtmw",
    LINK_TLS: "rtmw",
    LINK_TLS_NEWER: "rtmw",
    NATS: "nats",
    NATS_TLS: "nats",
}
"""One system by the ways its messages may go, where questions tell them apart → module of this package."""

LIBRARIES = {name: name for name in MODULES} | {"pyzmq": "zmq", "eclipse-zenoh": "zenoh"}
"""Distribution → what a program imports."""

ALL = tuple(MODULES)
LOANING = ("rtmw", "iceoryx2", "eclipse-zenoh")
"""Systems that lend memory to write a message in."""


def peer(name: str) -> Peer:
    """ImportError if it is not installed."""
    module: Any = import_module(f"bench.peers.{(MODULES | TRANSPORTS)[name]}")
    return module


def versions() -> dict[str, str]:
    """Of everything that is installed, and "not installed" for the rest."""
    found: dict[str, str] = {}
    for name in (*ALL, "msgspec", "uvloop"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
