"""On a slow line, what is urgent waits for little more than the datagram that is leaving, without any setting."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.namespaces import Network, obstacle, obstacle_to_narrowing
from tests.whole import LONG

WHY_NOT = obstacle() or obstacle_to_narrowing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

DATAGRAM_BITS = 8 * 1500
ALARMS = 31


@pytest.fixture
def narrow(dds_domain: int, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Host, Host]]:
    """Two hosts with nodes, and lines of so many bits a second."""
    network = Network(2)
    hosts = [Host(free_number(), dds_domain, tmp_path, network.place(at), "64M") for at in (0, 1)]
    try:
        for at, host in enumerate(hosts):
            network.narrow(at, request.param)
            host.start()
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            host.end()
        network.close()


@contextmanager
def flood(here: Host, there: Host) -> Generator[None]:
    """A RELIABLE topic of priority 0 with as much as goes."""
    ends = threading.Event()
    publisher = rtmw.Publisher("flood", domain=here.domain, reliability=Reliability.RELIABLE)
    subscriber = rtmw.Subscriber("flood", domain=there.domain, reliability=Reliability.RELIABLE, depth=1000)

    def publish() -> None:
        while not ends.is_set():
            publisher.publish(bytes(1000))

    def take() -> None:
        while not ends.is_set():
            if not subscriber.take_many(1000):
                ends.wait(0.01)

    threads = [threading.Thread(target=publish), threading.Thread(target=take)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: subscriber.stats().received > 0, "the flood does not arrive")
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()


class Alarms:
    """Of priority 7."""

    def __init__(self, here: Host, there: Host) -> None:
        self._subscriber = rtmw.Subscriber("alarm", domain=there.domain, reliability=Reliability.RELIABLE)
        self._publisher = rtmw.Publisher("alarm", domain=here.domain, reliability=Reliability.RELIABLE, priority=7)
        assert self._publisher.wait_for_subscribers(1, timeout=PATIENCE)

    def delay(self) -> float:
        """Seconds that one of several takes, in the middle."""
        return median(self.one() for _ in range(ALARMS))

    def one(self) -> float:
        """Seconds from publish to take, across the line."""
        begun = time.monotonic()
        self._publisher.publish(bytes(64))
        self._subscriber.receive(timeout=PATIENCE)
        return time.monotonic() - begun


@pytest.mark.parametrize(
    "narrow", [1_000_000, pytest.param(8_000_000, marks=LONG), pytest.param(100_000_000, marks=LONG)], indirect=True
)
# Proves G257.
def test_an_alarm_behind_a_flood_waits_for_five_datagrams_at_most(
    narrow: tuple[Host, Host], request: pytest.FixtureRequest
) -> None:
    alarms = Alarms(*narrow)
    bits_per_second: int = request.node.callspec.params["narrow"]
    idle, most = alarms.delay(), 5 * DATAGRAM_BITS / bits_per_second
    with flood(*narrow):
        wait_until(lambda: alarms.delay() <= idle + most, f"an alarm takes more than {1e3 * most} ms longer than alone")
