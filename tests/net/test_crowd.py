"""Thousands of endpoints of a DDS program cost a node a bounded part of a core, of memory and of what it says."""

from __future__ import annotations

from tests.net.crowd import cost, crowd, known
from tests.net.hosts import Host, wait_until
from tests.net.silence import memory
from tests.whole import IS_WHOLE

COUNT = 10_000 if IS_WHOLE else 1500
WATCHED_S = 3.0
CPU_MOST = 0.05
"""Part of a core: a fifth of what 10,000 endpoints took that were looked at again and again."""
STATUS_MOST = 400_000
"""Bytes: a thousand endpoints of 200 bytes each are told, twice."""
RETURNED_LEAST = 0.25
"""Of the memory that they had."""


def test_a_crowd_of_endpoints_is_cheap_while_it_is_there_and_its_memory_is_returned(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start()
    before = memory(host.node.pid)
    with crowd(host, COUNT):
        wait_until(lambda: cost(host, WATCHED_S).cpu < CPU_MOST, "the node goes on working though nothing changes")
        assert cost(host, 0).status < STATUS_MOST
        used = memory(host.node.pid)
    most = used - RETURNED_LEAST * (used - before)
    wait_until(lambda: memory(host.node.pid) < most, f"{before} bytes before, {used} with {COUNT} endpoints")
    after = memory(host.node.pid)
    for _ in range(2):
        with crowd(host, COUNT):
            pass
    wait_until(lambda: memory(host.node.pid) < (after + used) / 2, f"{after} bytes at first, and more each time")
    assert known(host) == 0
    assert not host.info()["refusals"]
