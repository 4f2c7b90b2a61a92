"""A lifetime runs while its message is on the way, too, also where what waits is seen by no node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.net.namespaces import Network, obstacle, obstacle_to_narrowing

WHY_NOT = obstacle() or obstacle_to_narrowing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

LIFETIME = 0.4
SECONDS_QUEUED = 2.5
"""Of what a switch keeps for a line: more than six lifetimes."""
BITS_A_SECOND = 1_000_000


@pytest.fixture
def narrow(dds_domain: int, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Two hosts with nodes that have measured each other's clocks; the second one's line is slow behind the bridge."""
    network = Network(2)
    hosts = [Host(free_number(), dds_domain, tmp_path, network.place(at)) for at in (0, 1)]
    try:
        for host in hosts:
            host.start()
        wait_until(lambda: any(peer["offset_ns"] is not None for peer in hosts[1].info()["peers"]), "no clock")
        network.narrow_behind(1, BITS_A_SECOND, SECONDS_QUEUED)
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            host.end()
        network.close()


# Proves G259.
def test_what_is_too_old_when_it_arrives_is_dropped_and_counted(narrow: tuple[Host, Host]) -> None:
    here, there = narrow
    publisher = rtmw.Publisher(
        "old", domain=here.domain, reliability=Reliability.TIMELY, lifetime=LIFETIME, max_blocking=0
    )
    subscriber = rtmw.Subscriber("old", domain=there.domain, reliability=Reliability.TIMELY)
    ages = list[float]()

    def expires() -> bool:
        """Of twice as much as the line carries."""
        publisher.publish(bytes(BITS_A_SECOND // 8 // 25))
        ages.extend((time.time_ns() - sample.source_time_ns) / 1e9 for sample in subscriber.take_many(100))
        return len(ages) > 10 and there.crossed("in", "old")["expired"] > 10

    until = time.monotonic() + 2 * SECONDS_QUEUED
    wait_until(lambda: expires() and time.monotonic() > until, "nothing expires on the way")
    assert max(ages) < 2 * LIFETIME
