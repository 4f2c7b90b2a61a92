"""What carries messages between two hosts where programs do not do so themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path

from bench.cable import Place
from bench.domain import domain
from bench.leaves import leaves
from bench.nodes import hosts, linked
from bench.openssl import newer
from bench.peers import LINK_TCP, LINK_TLS, LINK_TLS_NEWER, NATS, NATS_TLS


class Carrier(Enum):
    NONE = auto()
    NODES = auto()
    """rtmw's, over DDS."""
    LINK = auto()
    LINK_TLS = auto()
    LINK_TLS_NEWER = auto()
    """By an OpenSSL that is newer than that of the system."""
    LEAVES = auto()
    LEAVES_TLS = auto()


CARRIERS = {
    "rtmw": Carrier.NODES,
    LINK_TCP: Carrier.LINK,
    LINK_TLS: Carrier.LINK_TLS,
    LINK_TLS_NEWER: Carrier.LINK_TLS_NEWER,
    NATS: Carrier.LEAVES,
    NATS_TLS: Carrier.LEAVES_TLS,
}
"""By system; the others go from program to program."""


@contextmanager
def carried(
    carrier: Carrier, pool: str, environment: dict[str, str], places: tuple[Place, Place], folder: Path
) -> Iterator[tuple[int, int]]:
    """The domains of both hosts, with what carries messages between them until the block ends."""
    if carrier in (Carrier.NODES, Carrier.LINK, Carrier.LINK_TLS, Carrier.LINK_TLS_NEWER):
        library = newer() if carrier is Carrier.LINK_TLS_NEWER else ""
        has_tls = carrier is not Carrier.LINK
        link = None if carrier is Carrier.NODES else linked(folder, environment, places, has_tls, library)
        with hosts(pool, environment, places, link) as numbers:
            yield numbers
        return
    with domain(pool) as number:
        if carrier is Carrier.NONE:
            yield number, number
            return
        with leaves(folder, places, carrier is Carrier.LEAVES_TLS):
            yield number, number
