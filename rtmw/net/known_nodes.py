"""The nodes that a node knows: which of them it hears, and by which ways it meets them.

`hearing` makes the rows of the node's document (status.py) that say who hears whom. `nodes_met` reads that document, in
the node or in a command, and joins what it says of DDS and of links: a node that is met by both is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtmw.net.dds.own_topics import Peer

_SAME = ("host", "pid", "domain", "address", "max_rate", "warning")
"""Fields of a peer of a link that those of DDS have, too."""
_BY_LINK = {"way": "link", "why": "", "advice": "", "unfound": ""}
NONE_YET = "link, none yet"
"""The way to a node with which a link is missing."""


def hearing(
    heard: Iterable[Peer], lost: Iterable[Peer], addresses: Iterable[str], named: Iterable[str], now: float
) -> list[dict[str, Any]]:
    """A row for each node that is `heard`, or was and is `lost`, and for each host in `named` that has none of the
    `addresses` of DDS participants. `now`: CLOCK_MONOTONIC, in seconds.

    `silent_s`: seconds since it was heard; None: never. `deaf_s`: seconds since it showed that it hears this node, or
    since it was heard first; None: not known.
    """
    known = {_host(address) for address in addresses}
    rows = [_heard(peer.host, peer.pid, peer.domain, now - peer.heard, now - peer.hears) for peer in heard]
    rows += [_heard(peer.host, peer.pid, peer.domain, now - peer.heard, None) for peer in lost]
    return rows + [_heard(host, None, None, None, None) for host in named if _host(host) not in known]


def _heard(
    host: str, pid: int | None, domain: int | None, silent_s: float | None, deaf_s: float | None
) -> dict[str, Any]:
    return {"host": host, "pid": pid, "domain": domain, "silent_s": silent_s, "deaf_s": deaf_s}


def _host(address: str) -> str:
    """The host of an address such as `10.0.0.7`, `10.0.0.7:7410` or `[fd00::7]:7410`; an IPv6 host keeps its `[`."""
    return address.partition("]")[0] if address.startswith("[") else address.partition(":")[0]


def nodes_met(status: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each: those of `peers` with `by`, the way, and `name`, in its certificate or of its user. What is
    measured over DDS counts where a node is met by both."""
    told: list[dict[str, Any]] = status["links"]["peers"] if status.get("links") else []
    links = {_who(peer): peer for peer in told}
    found = list[dict[str, Any]]()
    for peer in status["peers"]:
        link = links.pop(_who(peer), None)
        name = link["peer"] if link else None
        found.append({**peer, "name": name, "by": _by(peer, link)})
    return found + [_row(link) for link in links.values()]


def _row(link: dict[str, Any]) -> dict[str, Any]:
    row = {name: link[name] for name in _SAME}
    clock = {"offset_ns": link["clock_offset_ns"], "round_trip_ns": link["least_round_trip_ns"]}
    return {"node": None, **row, **clock, **_BY_LINK, "name": link["peer"], "by": _way(link)}


def _by(peer: dict[str, Any], link: dict[str, Any] | None) -> str:
    """A node that is heard over DDS, too, where topics go by link alone, is not met by both."""
    way = peer.get("way", "DDS")
    if way == "link":
        return _way(link) if link else NONE_YET
    return f"{way}, {_way(link)}" if link else way


def _who(peer: dict[str, Any]) -> tuple[str, int, int]:
    return peer["host"], peer["pid"], peer["domain"]


def _way(link: dict[str, Any]) -> str:
    return "link" if link["up"] else "link, cut"
