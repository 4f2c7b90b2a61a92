"""Many topics at a time."""

from __future__ import annotations

import resource

import rtmw
from tests.net.hosts import PATIENCE, Host

TOPICS = 100
MEMORY = 4 << 30
"""Bytes of address space that a node may have: most of it are stacks of threads, of which little is used."""


def test_a_hundred_topics_of_one_type_cross_in_both_directions(pair: tuple[Host, Host]) -> None:
    for host in pair:
        resource.prlimit(host.node.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
    for here, there in (pair, pair[::-1]):
        names = [f"of/{here.number}/{number}" for number in range(TOPICS)]
        subscribers = [rtmw.Subscriber(name, domain=there.domain) for name in names]
        publishers = [rtmw.Publisher(name, domain=here.domain) for name in names]
        for publisher, name in zip(publishers, names, strict=True):
            assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
            publisher.publish(name.encode())
        assert [subscriber.receive(timeout=PATIENCE).value.decode() for subscriber in subscribers] == names
