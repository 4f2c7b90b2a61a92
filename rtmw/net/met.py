"""The other nodes that a node meets, over DDS, over links, or both, from its document (status.py)."""

from __future__ import annotations

from typing import Any

_SAME = ("host", "pid", "domain", "address", "max_rate", "warning")
"""Fields of a peer of a link that those of DDS have, too."""
_BY_LINK = {"way": "link", "why": "", "advice": "", "unfound": ""}
NONE_YET = "link, none yet"
"""The way to a node with which a link is missing."""


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
