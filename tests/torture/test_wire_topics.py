"""Whatever is said on the nodes' own topics, they live, carry a stream whole, take no memory, and tell no lies.

Here some seconds of it; `make torture-net` goes on for minutes, each time from another seed (RTMW_SEED repeats one).
"""

from __future__ import annotations

import os
import time

import psutil
import pytest

import rtmw
from rtmw import Reliability
from tests.net.conftest import dds_domain, hosts
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.torture.wire.own_topics import Attacker, attack
from tests.whole import IS_WHOLE

__all__ = ["dds_domain", "hosts"]

SECONDS = 180.0 if IS_WHOLE else 5.0
MEMORY = 96 << 20
"""Bytes more than after the first second: up to 10,000 members are kept and shown, and free memory stays."""
LOG = 64 << 10
"""Bytes a minute."""


class Stream:
    """Numbers on a RELIABLE topic."""

    def __init__(self, here: Host, there: Host) -> None:
        reliable = Reliability.RELIABLE
        self._subscriber = rtmw.Subscriber("whole", domain=there.domain, reliability=reliable, depth=1000)
        self._publisher = rtmw.Publisher("whole", domain=here.domain, reliability=reliable, max_blocking=0)
        assert self._publisher.wait_for_subscribers(1, timeout=PATIENCE)
        self._sent, self._got = 0, 0

    def move(self) -> None:
        for _ in range(20):
            self._sent += self._publisher.publish(b"%d" % self._sent)
        for sample in self._subscriber.take_many(1000):
            assert int(sample.value) == self._got
            self._got += 1

    def comes_to_its_end(self) -> None:
        def is_whole() -> bool:
            self.move()
            return self._got > mark

        mark = self._sent
        wait_until(is_whole, "the stream stands")
        assert self._subscriber.stats().missed == 0


def tells_the_truth(here: Host, there: Host, node: int) -> None:
    """Of the other node, which lives and calls itself that, and of the stream."""
    told = here.info()
    peer = next((peer for peer in told["peers"] if peer["node"] == node), None)
    assert peer is not None, "a node that lives is not told of"
    assert (peer["pid"], peer["domain"]) == (there.node.pid, there.number)
    assert abs(peer["offset_ns"] or 0) < 1_000_000_000
    assert not any(row["lost"] for row in told["in"] if row["topic"] == "whole")


@pytest.mark.timeout(900)
# Proves G291.
def test_whatever_is_said_on_the_nodes_own_topics_harms_no_node_no_stream_and_no_truth(
    hosts: tuple[Host, Host], dds_domain: int
) -> None:
    here, there = hosts
    for host in hosts:
        host.start()
    with rtmw.Subscriber("fuzzed", domain=here.domain), rtmw.Subscriber("fuzzed", domain=there.domain):
        stream = Stream(here, there)
        for one, other in (hosts, hosts[::-1]):
            wait_until(lambda one=one, other=other: is_measured(one, other), "the nodes do not hear each other")
        nodes = {other.number: peer["node"] for host, other in (hosts, hosts[::-1]) for peer in host.info()["peers"]}
        seed = int(os.environ.get("RTMW_SEED") or (time.time_ns() & 0xFFFFFFFF if IS_WHOLE else 1))
        attacker = Attacker(dds_domain, seed, there.info())
        attack(attacker, 1.0, stream.move)
        before = [rss(host) for host in hosts]
        attack(attacker, SECONDS, stream.move)
        assert attacker.sent > 100
        stream.comes_to_its_end()
        for host, other in (hosts, hosts[::-1]):
            assert host.node.poll() is None, f"seed {seed}: {host.said}"
            tells_the_truth(host, other, nodes[other.number])
        assert [max(0, rss(host) - was) // MEMORY for host, was in zip(hosts, before, strict=True)] == [0, 0], seed
        assert all(sum(host.info()["refusals"].values()) > 0 for host in hosts)
        assert all(len(host.said) < LOG * (2 + SECONDS / 60) for host in hosts)
        attacker.close()
        stream.comes_to_its_end()
        for host, other in (hosts, hosts[::-1]):
            tells_the_truth(host, other, nodes[other.number])


def is_measured(here: Host, there: Host) -> bool:
    return any(peer["pid"] == there.node.pid and peer["offset_ns"] is not None for peer in here.info()["peers"])


def rss(host: Host) -> int:
    """Bytes of memory that its node uses."""
    return int(psutil.Process(host.node.pid).memory_info().rss)
