"""The largest messages cross whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host

POOL, SIZE = 160 << 20, 64 << 20
FREE = os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize

pytestmark = pytest.mark.skipif(
    FREE < 3 * POOL, reason=f"needs {3 * POOL >> 20} MiB of /dev/shm, {FREE >> 20} are free"
)


@pytest.fixture
def roomy(dds_domain: int, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Two hosts with large pools, whose nodes are ready."""
    hosts: list[Host] = []
    try:
        for _ in range(2):
            hosts.append(Host(free_number(), dds_domain, tmp_path, pool=str(POOL)))
            hosts[-1].start()
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            host.end()


def test_messages_of_64_mib_arrive_whole(roomy: tuple[Host, Host]) -> None:
    here, there = roomy
    subscriber = rtmw.Subscriber("large", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    publisher = rtmw.Publisher("large", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for seed in range(2):
        payload = np.random.default_rng(seed).bytes(SIZE)
        assert publisher.publish(payload)
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload
