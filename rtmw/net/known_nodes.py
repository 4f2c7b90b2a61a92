"""The nodes that a node knows: which of them it hears, and by which ways it meets them.

`hearing` makes what the node's document (rtmw/observe/node_status.py) says of who hears whom. `nodes_met` reads that
document, in the node or in a command, and joins what it says of DDS and of links: a node that is met by both is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rtmw.observe.node_status import Hearing

if TYPE_CHECKING:
    from rtmw.net.dds.own_topics import Peer
    from rtmw.observe.node_status import DdsPeer, LinkPeer, NodeStatus

NONE_YET: Final = "link, none yet"
"""The way to a node with which a link is missing."""


@dataclass(frozen=True, slots=True, repr=False)
class KnownNode:
    """Another node, and how it is met. What is measured over DDS counts where a node is met by both ways."""

    node: int | None
    """The number in its beacons; None: it is not heard over DDS."""
    host: str
    pid: int
    domain: int
    address: str
    max_rate: int | None
    """Bytes a second that may leave towards it; 0 or None: no limit."""
    offset_ns: int | None
    """Nanoseconds by which its wall clock is ahead of ours; None: not measured yet."""
    round_trip_ns: int | None
    warning: str | None
    """Why its clock is in the way; None: it is not."""
    way: str
    """How topics go: `DDS`, `DDS in clear`, `link` or `refused`."""
    why: str
    """Why nothing crosses, or in clear; empty: nothing is to be said."""
    advice: str
    unfound: str
    """Why the two do not find each other for a link; empty: they do, or need not."""
    name: str | None
    """Its name in its certificate, or of its user."""
    by: str
    """The ways by which it is met, and their state."""

    def json_names(self) -> tuple[str, ...]:
        return _BY_LINK if self.node is None else _BY_DDS


_BY_DDS: Final = (
    "node", "host", "pid", "domain", "address", "max_rate", "offset_ns", "round_trip_ns", "warning", "way", "why",
    "advice", "unfound", "name", "by",
)  # fmt: skip
_BY_LINK: Final = (
    "node", "host", "pid", "domain", "address", "max_rate", "warning", "offset_ns", "round_trip_ns", "way", "why",
    "advice", "unfound", "name", "by",
)  # fmt: skip


def hearing(
    heard: Iterable[Peer], lost: Iterable[Peer], addresses: Iterable[str], named: Iterable[str], now: float
) -> tuple[Hearing, ...]:
    """One for each node that is `heard`, or was and is `lost`, and for each host in `named` that has none of the
    `addresses` of DDS participants. `now`: CLOCK_MONOTONIC, in seconds."""
    known = {_host(address) for address in addresses}
    rows = [Hearing(peer.host, peer.pid, peer.domain, now - peer.heard, now - peer.hears) for peer in heard]
    rows += [Hearing(peer.host, peer.pid, peer.domain, now - peer.heard) for peer in lost]
    return (*rows, *(Hearing(host) for host in named if _host(host) not in known))


def _host(address: str) -> str:
    """The host of an address such as `10.0.0.7`, `10.0.0.7:7410` or `[fd00::7]:7410`; an IPv6 host keeps its `[`."""
    return address.partition("]")[0] if address.startswith("[") else address.partition(":")[0]


def nodes_met(status: NodeStatus) -> list[KnownNode]:
    """The nodes that are heard over DDS, and then those that are met by link alone."""
    links = {_who(peer): peer for peer in status.links.peers} if status.links else {}
    found = [_heard(peer, links.pop(_who(peer), None)) for peer in status.peers]
    return [*found, *map(_linked, links.values())]


def _heard(peer: DdsPeer, link: LinkPeer | None) -> KnownNode:
    return KnownNode(
        peer.node, peer.host, peer.pid, peer.domain, peer.address, peer.max_rate, peer.offset_ns, peer.round_trip_ns,
        peer.warning, peer.way, peer.why, peer.advice, peer.unfound, link.peer if link else None, _by(peer.way, link),
    )  # fmt: skip


def _linked(link: LinkPeer) -> KnownNode:
    return KnownNode(
        None, link.host, link.pid, link.domain, link.address, link.max_rate, link.clock_offset_ns,
        link.least_round_trip_ns, link.warning, "link", "", "", "", link.peer, _state(link),
    )  # fmt: skip


def _by(way: str, link: LinkPeer | None) -> str:
    """A node that is heard over DDS, too, where topics go by link alone, is not met by both."""
    if way == "link":
        return _state(link) if link else NONE_YET
    return f"{way}, {_state(link)}" if link else way


def _who(peer: DdsPeer | LinkPeer) -> tuple[str, int, int]:
    return peer.host, peer.pid, peer.domain


def _state(link: LinkPeer) -> str:
    return "link" if link.up else "link, cut"
