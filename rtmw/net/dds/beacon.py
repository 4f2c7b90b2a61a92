"""Nodes tell each other once a second who they are, and measure between them how far their clocks are apart.

As in NTP (RFC 5905, section 8): with my sending time t1, its receiving time t2, its sending time t3 and my receiving
time t4, its clock is ((t2 - t1) + (t3 - t4)) / 2 ahead of mine, and the way there and back took (t4 - t1) - (t3 - t2).
The measurement with the shortest way of the last minute counts.

These are times of steady clocks (now.h), which nobody sets: by them lifetimes are dated. People and foreign programs
read wall clocks, so each beacon says, too, what both clocks of its node show: in an echo of the node itself. Older
nodes, whose times are those of the wall clock, pass over that, and send none.

A way below 0 is possible without a fault: between t2 and t3, about a second, two clocks run at different rates, and by
then they may have moved further apart than a short line takes. So a way that is not further below 0 than rates may
differ is taken to be that long (the RFC clamps it, too). One that is further below means that a clock was set, and is
refused.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from rtmw.clock import CLOCK
from rtmw.net.dds.channel import Channel
from rtmw.net.dds.cyclone import DomainParticipant, make_idl_struct
from rtmw.net.dds.cyclone import types as idl
from rtmw.net.dds.library import DataEvent, steady_ns
from rtmw.net.refusals import Refusals, Refused
from rtmw.visible import visible

log = logging.getLogger("rtmw.node")

BEACON_TOPIC = "rtmw/node"
_NAMED_MOST = 16
_DRIFT_NS = 10_000_000
"""Drift of two clocks that nobody sets, at most, between two measurements of a minute."""
_RATES = 1000
"""One part in so many is what rates of two clocks may differ by: adjtime(3) and NTP slew each by 500 ppm at most."""
_THERE_MOST_NS = 10_000_000_000
"""Time between two beacons of a node for which that counts: there is one a second."""
_KEPT = 60
_BEACON_LONGEST = 64 << 10
"""Bytes of a beacon."""
_NAME_LONGEST = 255
SILENT_S = 5.0
_LOST_MOST = 16
"""Silent nodes that are remembered."""
_SENT_MOST = 64
"""Beacons of ours of which is remembered when they were sent."""
PEERS_MOST = 1000
"""Nodes that are known at a time; of further ones nothing is kept."""


Echo: Any = make_idl_struct("Echo", "rtmw::Echo", {"node": idl.uint64, "sent_ns": idl.int64, "received_ns": idl.int64})
Beacon: Any = make_idl_struct(
    "Beacon",
    "rtmw::Beacon",
    {
        "node": idl.uint64,
        "host": str,
        "pid": idl.uint32,
        "domain": idl.uint32,
        "sent_ns": idl.int64,
        "echoes": idl.sequence[Echo],
    },
)


@dataclass
class Peer:
    """Another node."""

    node: int
    host: str
    pid: int
    domain: int
    heard: float
    """CLOCK_MONOTONIC, seconds, as all times here."""
    last: Any
    writer: int
    """The DDS writer of its beacons, by its handle."""
    measured: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Way there and back, and how far its steady clock is ahead, in nanoseconds."""
    set_ns: int = 0
    """By how much more than ours its wall clock was set since it began."""
    hears: float = 0.0
    """When that beacon of ours was sent which it has received last; before it named any: when it was heard first."""

    @property
    def ahead_ns(self) -> int | None:
        """How far its steady clock is ahead of ours; None: not measured yet."""
        return min(self.measured)[1] if self.measured else None

    @property
    def offset_ns(self) -> int | None:
        """How far its wall clock is ahead of ours; None: not measured yet."""
        return None if self.ahead_ns is None else self.ahead_ns + self.set_ns

    @property
    def round_trip_ns(self) -> int | None:
        return min(self.measured)[0] if self.measured else None


def _say(what: str, peers: list[Peer]) -> None:
    """Logs what each of these peers did. For more than _NAMED_MOST, which somebody may have made up, it logs their
    number."""
    if len(peers) > _NAMED_MOST:
        log.info("of %d other nodes each %s", len(peers), what)
        return
    for peer in peers:
        log.info("the node of domain %d on %s (%d) %s", peer.domain, peer.host, peer.pid, what)


class Beacons:
    """Sends ours, and keeps what others sent."""

    def __init__(
        self, participant: DomainParticipant, domain: int, loop: asyncio.AbstractEventLoop, refusals: Refusals
    ) -> None:
        self.node = int.from_bytes(os.urandom(8), "little")
        self._own = (socket.gethostname(), os.getpid(), domain)
        self._refusals = refusals
        self._channel = Channel(participant, BEACON_TOPIC, Beacon, _BEACON_LONGEST, refusals)
        self._data_event, self._loop = DataEvent(self._channel.reader), loop
        loop.add_reader(self._data_event.fileno(), self._receive)
        self.peers: dict[int, Peer] = {}
        self.lost: dict[int, Peer] = {}
        """Peers that fell silent without leaving, and were not heard since."""
        self._come = list[Peer]()
        """Peers that have come since the last beacon."""
        self._sent: dict[int, float] = {}
        """When our last beacons were sent, by the time that they have."""

    def send(self) -> None:
        """Send ours, and forget who has left or been silent."""
        now = CLOCK.monotonic()
        writers = self._channel.writers()
        gone = [peer for peer in self.peers.values() if peer.writer not in writers]
        silent = [peer for peer in self.peers.values() if now - peer.heard > SILENT_S and peer.writer in writers]
        for peer in gone + silent:
            del self.peers[peer.node]
        self.lost |= {peer.node: peer for peer in silent}
        while len(self.lost) > _LOST_MOST:
            del self.lost[next(iter(self.lost))]
        _say("is heard", self._come)
        self._come.clear()
        _say("has left", gone)
        _say(f"has said nothing for {SILENT_S:.0f} s", silent)
        echoes = [peer.last for peer in self.peers.values()]
        sent_ns = steady_ns()
        echoes.append(Echo(self.node, sent_ns, CLOCK.wall_ns()))
        self._sent[sent_ns] = now
        while len(self._sent) > _SENT_MOST:
            del self._sent[next(iter(self._sent))]
        self._channel.write(Beacon(self.node, *self._own, sent_ns, echoes))

    def unheard(self, seconds: float) -> str | None:
        """The words on a node that was heard, and not for so long, though DDS takes it to be alive."""
        late, writers = CLOCK.monotonic() - seconds, self._channel.writers()
        silent = (peer for peer in self.lost.values() if peer.heard < late and peer.writer in writers)
        return next((f"the node of domain {peer.domain} on {peer.host} ({peer.pid})" for peer in silent), None)

    def close(self) -> None:
        """Beacons that still come are not read."""
        self._loop.remove_reader(self._data_event.fileno())
        self._data_event.close()

    def _receive(self) -> None:
        ages_ns = self._data_event.take()
        now_ns = steady_ns()  # after the ages: late, a time makes the way longer; early, it would make it shorter
        arrived_ns = [now_ns - age for age in ages_ns]  # of the newest that the reader keeps
        self._channel.read(
            lambda writer, beacon, after: self._on_beacon(writer, beacon, arrived_ns[-1 - after]), len(arrived_ns)
        )

    def _on_beacon(self, writer: int, beacon: Any, received_ns: int) -> None:
        if beacon.node == self.node:
            return
        if len(beacon.host) > _NAME_LONGEST:
            raise Refused(f"a host's name has {len(beacon.host)} letters; at most {_NAME_LONGEST} are read")
        last = Echo(beacon.node, beacon.sent_ns, received_ns)
        peer = self.peers.get(beacon.node)
        if peer is not None and peer.writer != writer:  # a node has one writer as long as it lives
            raise Refused(f"a beacon of {beacon.host} is in the name of another node, on {peer.host}")
        if peer is None:
            if len(self.peers) >= PEERS_MOST:
                raise Refused(f"{PEERS_MOST} nodes are known already, and there is another on {beacon.host}")
            peer = Peer(beacon.node, visible(beacon.host), beacon.pid, beacon.domain, 0.0, last, writer)
            peer.hears = CLOCK.monotonic()
            self.peers[beacon.node] = peer
            self._come.append(peer)
            at = (peer.host, peer.domain)  # where it was restarted, its predecessor is missed no longer
            self.lost = {node: lost for node, lost in self.lost.items() if (lost.host, lost.domain) != at}
        peer.heard, peer.last = CLOCK.monotonic(), last
        for echo in beacon.echoes:
            if echo.node == beacon.node:
                peer.set_ns = (echo.received_ns - echo.sent_ns) - (CLOCK.wall_ns() - steady_ns())
            if echo.node == self.node:
                peer.hears = max(peer.hears, self._sent.get(echo.sent_ns, 0.0))
                way = _way(received_ns - echo.sent_ns, beacon.sent_ns - echo.received_ns)
                ahead = ((echo.received_ns - echo.sent_ns) + (beacon.sent_ns - received_ns)) // 2
                if way is None:  # a clock was set in between, or somebody made it up
                    raise Refused(f"a beacon of {beacon.host} was back before it was sent: a clock was set, or it lies")
                if peer.measured and _contradict(min(peer.measured), (way, ahead)):
                    peer.measured.clear()  # one of the two clocks was set
                peer.measured.append((way, ahead))


def _way(away_ns: int, there_ns: int) -> int | None:
    """How long a beacon was under way, of the time that it was away, if by the other clock it was there for so long.
    None: that cannot be."""
    may_differ = min(abs(there_ns), _THERE_MOST_NS) // _RATES
    way = away_ns - there_ns
    return way if way >= 0 else may_differ if way >= -may_differ else None


def _contradict(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Can these two ways and offsets not be of the same two clocks? Each is right within half of its way."""
    return abs(one[1] - other[1]) > (one[0] + other[0]) // 2 + _DRIFT_NS
