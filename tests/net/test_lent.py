"""Large messages are sent from where they lie; DDS holds little of the pool meanwhile, and gives all of it back."""

from __future__ import annotations

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from tests.books import examine
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until

Pair = tuple[Host, Host]
FRAGMENT = 65_000
"""Bytes of a sample that go into a datagram (wire.py)."""
BEFORE = 8
"""Bytes of a sample before the message."""
SIZES = [
    *(16_384 + n for n in (-1, 0, 1, 2, 3)),
    *(FRAGMENT - BEFORE + n for n in (-36, -35, -32, -4, -1, 0, 1, 4)),
    *(2 * FRAGMENT - BEFORE + n for n in (-33, 0, 1)),
    900_000,
]


def test_messages_of_all_sizes_around_the_ends_of_fragments_arrive_whole(pair: Pair) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("large", domain=there.domain)
    publisher = rtmw.Publisher("large", domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for size in SIZES:
        payload = np.random.default_rng(size).bytes(size)
        publisher.publish(payload)
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload, size
    for host in pair:
        wait_until(lambda host=host: examine(host.domain).descriptors_held == 0, "some are held")  # type: ignore[misc]


@pytest.mark.parametrize("reliability", [Reliability.TIMELY, Reliability.ADAPTIVE])
def test_a_node_far_away_that_stands_still_leaves_the_pool_to_the_programs_here(
    pair: Pair, reliability: Reliability
) -> None:
    here, there = pair
    far = rtmw.Subscriber("large", domain=there.domain, reliability=reliability, depth=200)
    near = rtmw.Subscriber("other", domain=here.domain, depth=1)
    publisher = rtmw.Publisher("large", domain=here.domain, reliability=reliability, depth=200, max_blocking=0)
    other = rtmw.Publisher("other", domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    halt(there)
    for _ in range(2000):
        publisher.publish(bytes(60_000))
    wait_until(lambda: here.crossed("out", "large")["sent"] > 0, "nothing leaves")
    assert other.publish(bytes(200_000))
    assert len(near.receive(timeout=PATIENCE).data) == 200_000
    go_on(there)
    wait_until(lambda: publisher.publish(b"go on") and far.receive(timeout=PATIENCE).value == b"go on", "it does not")


def test_a_node_that_is_stopped_while_it_waits_for_another_one_gives_everything_back(pair: Pair) -> None:
    here, there = pair
    far = rtmw.Subscriber("large", domain=there.domain, reliability=Reliability.RELIABLE)
    publisher = rtmw.Publisher("large", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    halt(there)
    for number in range(20):
        publisher.publish(number.to_bytes(20_000, "little"))
    wait_until(lambda: here.crossed("out", "large")["sent"] > 0, "nothing leaves")
    assert here.stop() == 0
    books = examine(here.domain)
    assert (books.descriptors_held, books.descriptors_loaned) == (0, 0)
    go_on(there)
    far.close()
