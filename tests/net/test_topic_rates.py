"""A topic with a limit of its own leaves no faster than that, and keeps no other back."""

from __future__ import annotations

import time

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host

SIZE, COUNT = 5_000, 40
RATE = 50 << 10


def test_a_topic_with_a_limit_leaves_no_faster_and_delays_no_other(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--topic-rates", "slow/*=50K", "*=1G")
    there.start()
    reliable = Reliability.RELIABLE
    subscribers = {
        name: rtmw.Subscriber(name, domain=there.domain, reliability=reliable, depth=COUNT)
        for name in ("slow/one", "fast")
    }
    publishers = {
        name: rtmw.Publisher(name, domain=here.domain, reliability=reliable, depth=COUNT, max_blocking=PATIENCE)
        for name in subscribers
    }
    for publisher in publishers.values():
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    begun = time.monotonic()
    for name in ("slow/one", "fast"):
        for _ in range(COUNT):
            assert publishers[name].publish(bytes(SIZE))
    for _ in range(COUNT):
        subscribers["fast"].receive(timeout=PATIENCE)
    come = len(subscribers["slow/one"].take_many(COUNT))
    assert come < COUNT
    for _ in range(COUNT - come):
        subscribers["slow/one"].receive(timeout=PATIENCE)
    assert time.monotonic() - begun > 0.8 * SIZE * COUNT / RATE
