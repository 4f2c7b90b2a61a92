"""Writers and readers of a case: publishers and subscribers here, and endpoints of a program of another DDS."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import rtmw
from tests.net.foreign.peer import Peer
from tests.net.hosts import Host
from tests.torture.dds_rtps.cases import Case
from tests.torture.dds_rtps.roles import publisher_qos, subscriber_qos

Seen = list[tuple[str, int]]
"""Colour and size of samples, in the order in which they came."""


class Writer(Protocol):
    def write(self, color: str, size: int) -> None: ...
    def close(self) -> None: ...


class Reader(Protocol):
    def read(self) -> Seen:
        """What has come since the last time."""
        ...

    def is_told_of_deadline(self) -> bool: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Place:
    """What a case is run with."""

    host: Host
    peers: tuple[Peer, Peer]
    """Two programs of one DDS; the second is for a second writer."""
    elsewhere: Peer
    """Another one, on another DDS domain."""
    shape: Any
    """The class of the messages."""

    @property
    def vendor(self) -> str:
        return self.peers[0].vendor

    def message(self, color: str, size: int, extra: int) -> Any:
        return self.shape(color, 1, 2, size, [size % 256] * extra)


class WriterHere:
    def __init__(self, place: Place, case: Case, topic: str) -> None:
        self._place, self._case = place, case
        qos = publisher_qos(case)
        self._publisher = rtmw.Publisher(topic, place.shape, domain=place.host.domain, max_blocking=10.0, **qos)

    def write(self, color: str, size: int) -> None:
        self._publisher.publish(self._place.message(color, size, self._case.extra))

    def close(self) -> None:
        self._publisher.close()


class WriterThere:
    def __init__(self, place: Place, case: Case, topic: str, number: int = 0) -> None:
        self._place, self._case, self._topic, self._peer = place, case, topic, place.peers[number]
        given = {name: value for name, value in case.writer.items() if name != "ends"}
        self._peer.open("writer", topic, place.shape, **given)

    def write(self, color: str, size: int) -> None:
        """Again, where it has no room: Fast DDS keeps 400 messages of an instance that are not acknowledged."""
        for _ in range(100):
            self._peer.write(self._topic, self._place.message(color, size, self._case.extra))
            while not (written := self._peer.said(self._topic, "wrote")) and not self._peer.said(self._topic, "failed"):
                time.sleep(0.0005)
            self._peer.next(self._topic, "wrote" if written else "failed")
            if written:
                return
        raise AssertionError("the other program can write no more")

    def close(self) -> None:
        self._peer.close(self._topic)


class ReaderHere:
    def __init__(self, place: Place, case: Case, topic: str) -> None:
        self._is_late = False
        qos = subscriber_qos(case)
        self._subscriber = rtmw.Subscriber(topic, place.shape, domain=place.host.domain, **qos)

    def read(self) -> Seen:
        try:
            samples = self._subscriber.take_many(10_000)
        except rtmw.DeadlineMissed:
            self._is_late = True
            return []
        return [(sample.value.color, sample.value.size) for sample in samples]

    def is_told_of_deadline(self) -> bool:
        try:
            self._subscriber.receive(timeout=0.1)
        except rtmw.DeadlineMissed:
            self._is_late = True
        except TimeoutError:
            pass
        return self._is_late

    def close(self) -> None:
        self._subscriber.close()


class ReaderThere:
    def __init__(self, place: Place, case: Case, topic: str) -> None:
        self._place, self._topic, self._peer, self._waits = place, topic, place.peers[0], bool(case.read_s)
        given = {"waits": 1, **case.reader} if self._waits else case.reader
        self._peer.open("reader", topic, place.shape, **given)

    def read(self) -> Seen:
        if self._waits:
            self._peer.take(self._topic)
        return [
            self._told(self._peer.next(self._topic, "sample")) for _ in range(self._peer.said(self._topic, "sample"))
        ]

    def _told(self, value: str) -> tuple[str, int]:
        if self._place.vendor == "fastdds":
            color, _, _, size, *_ = value.split()
            return color.strip('"'), int(size)
        found = self._place.shape.deserialize(bytes.fromhex(value))
        return found.color, found.size

    def is_told_of_deadline(self) -> bool:
        return self._peer.said(self._topic, "deadline") > 0

    def close(self) -> None:
        self._peer.close(self._topic)
