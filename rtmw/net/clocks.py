"""When do the clocks of two hosts disagree so far that absolute times mean nothing between them?

Lifetimes and deadlines of nodes travel as what is left of them, and need no clocks. These need them: `valid_until` that
is reckoned from another host's source time, the Lifespan of plain DDS writers, and how old a message is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.discovery import Discovery
from rtmw.net.dds.own_topics import Peer
from rtmw.net.neighbours import LocalTopic

_Name = TypeVar("_Name")
_Named = TypeVar("_Named")

NOTICED_NS = 10_000_000
"""Largest offset that ordinary NTP leaves in a local network; a smaller one is nobody's fault."""
SHARE = 10
"""An offset may be one part in so many of the shortest lifetime."""
ASSUMED_NS = 1_000_000_000
"""The shortest lifetime as long as none is seen."""


def shortest_lifetime_ns(topics: dict[str, LocalTopic], bridge: Bridge) -> int | None:
    """The shortest lifetime or deadline that anybody has announced here or elsewhere; None: there is none."""
    found = [taker.deadline_ns for topic in topics.values() for taker in topic.subscribers]
    found += [sender.lifetime_ns for topic in topics.values() for sender in topic.publishers]
    found.append(bridge.discovery.shortest_ns)
    return min((ns for ns in found if ns > 0), default=None)


def measured_clocks(peers: Iterable[Peer], discovery: Discovery) -> list[tuple[bytes, int, int]]:
    """Clocks of nodes, in nanoseconds: the GUID of the node's participant, how far its steady clock is ahead of this
    one, and half of the round trip, by which that may be wrong. Hosts that were cloned may have one name, and their
    nodes one pid. Such nodes are left out, for the clock might be the other's."""
    named = _once(((of.host, of.pid, of.domain), guid) for guid, of in discovery.participants.items())
    heard = _once(((peer.host, peer.pid, peer.domain), peer) for peer in peers)
    found = ((named.get(name), peer) for name, peer in heard.items())
    return [
        (bytes.fromhex(guid), peer.ahead_ns, peer.round_trip_ns // 2)
        for guid, peer in found
        if guid is not None and peer.ahead_ns is not None and peer.round_trip_ns is not None
    ]


def _once(pairs: Iterable[tuple[_Name, _Named]]) -> dict[_Name, _Named]:
    """The things by their names, without those whose name another thing has, too."""
    listed = [*pairs]
    times = Counter(name for name, _ in listed)
    return {name: named for name, named in listed if times[name] == 1}


class Measured(NamedTuple):
    """The clock of a peer of a link."""

    host: str
    domain: int
    offset_ns: int | None
    round_trip_ns: int | None


def disagreement(peer: Peer | Measured, shortest_ns: int | None) -> str | None:
    """The warning about a peer's clock; None while there is nothing to say.

    Half of the way there and back is what the measurement may be wrong by, so that a busy machine is not accused.
    """
    if peer.offset_ns is None or peer.round_trip_ns is None:
        return None
    certain = abs(peer.offset_ns) - peer.round_trip_ns // 2
    if certain <= max(NOTICED_NS, (shortest_ns or ASSUMED_NS) // SHARE):
        return None
    way = "ahead of" if peer.offset_ns > 0 else "behind"
    known = (
        f"the shortest lifetime or deadline here is {_in_words(shortest_ns)}" if shortest_ns else "no lifetime is known"
    )
    return (
        f"the clock of {peer.host} (domain {peer.domain}) is {_in_words(abs(peer.offset_ns))} {way} this one, and {known}: "
        "valid_until and the Lifespan of DDS writers mean nothing between these hosts; keep their clocks together with "
        "NTP or PTP"
    )


def _in_words(ns: int) -> str:
    return f"{ns / 1e9:.3g} s" if ns >= 1_000_000_000 else f"{ns / 1e6:.3g} ms"
