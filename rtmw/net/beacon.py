"""Nodes tell each other once a second who they are, and measure between them how far their clocks are apart.

As in NTP (RFC 5905, section 8): with my sending time t1, its receiving time t2, its sending time t3 and my receiving
time t4, its clock is ((t2 - t1) + (t3 - t4)) / 2 ahead of mine, and the way there and back took (t4 - t1) - (t3 - t2).
The measurement with the shortest way of the last minute counts.
"""

import asyncio
import os
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from rtmw.net.cyclone import DataReader, DataWriter, DomainParticipant, Policy, Qos, Topic, make_idl_struct
from rtmw.net.cyclone import types as idl
from rtmw.net.library import Bell

_TOPIC = "rtmw/node"
_KEPT = 60
SILENT_S = 5.0


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
    """CLOCK_MONOTONIC, seconds."""
    last: Any
    measured: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Way there and back, and how far its clock is ahead, in nanoseconds."""

    @property
    def offset_ns(self) -> int | None:
        """How far its clock is ahead of ours; None: not measured yet."""
        return min(self.measured)[1] if self.measured else None

    @property
    def round_trip_ns(self) -> int | None:
        return min(self.measured)[0] if self.measured else None


class Beacons:
    """Sends ours, and keeps what others sent."""

    def __init__(self, participant: DomainParticipant, domain: int, loop: asyncio.AbstractEventLoop) -> None:
        self.node = int.from_bytes(os.urandom(8), "little")
        self._own = (socket.gethostname(), os.getpid(), domain)
        quality = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(64), Policy.IgnoreLocal.Participant)
        topic = Topic(participant, _TOPIC, Beacon)
        self._writer: Any = DataWriter(participant, topic, qos=quality)
        self._reader: Any = DataReader(participant, topic, qos=quality)
        self._bell, self._loop = Bell(self._reader._ref), loop
        loop.add_reader(self._bell.fileno(), self._receive)
        self.peers: dict[int, Peer] = {}

    def send(self) -> None:
        """Send ours, and forget who has been silent."""
        now = time.monotonic()
        for node in [node for node, peer in self.peers.items() if now - peer.heard > SILENT_S]:
            del self.peers[node]
        echoes = [peer.last for peer in self.peers.values()]
        self._writer.write(Beacon(self.node, *self._own, time.time_ns(), echoes))

    def close(self) -> None:
        """What still comes is nobody's."""
        self._loop.remove_reader(self._bell.fileno())
        self._bell.close()

    def _receive(self) -> None:
        now_ns, ages_ns = time.time_ns(), self._bell.silence()
        beacons: list[Any] = self._reader.take(len(ages_ns)) if ages_ns else []
        for beacon, age_ns in zip(beacons, ages_ns[-len(beacons) :], strict=True):  # the reader keeps the newest
            if isinstance(beacon, Beacon) and beacon.node != self.node:
                self._on_beacon(beacon, now_ns - age_ns)

    def _on_beacon(self, beacon: Any, received_ns: int) -> None:
        last = Echo(beacon.node, beacon.sent_ns, received_ns)
        peer = self.peers.get(beacon.node)
        if peer is None:
            peer = Peer(beacon.node, beacon.host, beacon.pid, beacon.domain, 0.0, last)
            self.peers[beacon.node] = peer
        peer.heard, peer.last = time.monotonic(), last
        for echo in beacon.echoes:
            if echo.node == self.node:
                way = (received_ns - echo.sent_ns) - (beacon.sent_ns - echo.received_ns)
                ahead = ((echo.received_ns - echo.sent_ns) + (beacon.sent_ns - received_ns)) // 2
                peer.measured.append((way, ahead))
