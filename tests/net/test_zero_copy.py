"""Large messages are sent from the pool and received into loans; all that is held meanwhile comes back."""

from __future__ import annotations

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.library import DomainParticipant
from tests.books import examine
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.raw import octets, octets_writer, trailer, write_bytes

Pair = tuple[Host, Host]
FRAGMENT = 65_000
"""Bytes of a sample that go into a datagram (wire.py)."""
BEFORE = 8
"""Bytes of a sample before the message."""
LEAST = 16_384
"""Bytes of a message that is not copied."""
SIZES = [
    *(LEAST + n for n in (-1, 0, 1, 2, 3)),
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
    wait_until(lambda: here.crossed("out", "large")["uncopied"] > 0, "they were not sent from the pool")
    wait_until(lambda: there.crossed("in", "large")["uncopied"] > 0, "they were not received into loans")
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
    wait_until(lambda: other.publish(bytes(200_000)), "the pool stays full")
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


def test_a_route_that_closes_while_large_messages_come_gives_everything_back(pair: Pair) -> None:
    here, there = pair
    publisher = rtmw.Publisher("large", domain=here.domain)
    for _ in range(10):
        with rtmw.Subscriber("large", domain=there.domain) as subscriber:

            def is_heard(subscriber: rtmw.Subscriber[bytes] = subscriber) -> bool:
                publisher.publish(bytes(300_000))
                return subscriber.take() is not None

            wait_until(is_heard, "nothing arrives")
            for _ in range(20):
                publisher.publish(bytes(300_000))
    wait_until(lambda: not there.crossed("in", "large"), "the route stays")
    for host in pair:
        wait_until(lambda host=host: examine(host.domain).descriptors_held == 0, "some are held")  # type: ignore[misc]
        assert host.stop() == 0
        assert examine(host.domain).descriptors_loaned == 0


LARGE = bytes(range(256)) * 400
FAKED: dict[str, bytes] = {
    "another magic": octets(LARGE) + trailer(magic=b"wmtr"),
    "another version": octets(LARGE) + trailer(version=9),
    "more padding than there is": octets(LARGE) + trailer(padding=200),
    "a pack of nothing": octets(LARGE) + trailer(version=2, messages=0),
    "cut short": octets(LARGE) + trailer()[:-4],
}


def test_a_large_sample_that_is_not_as_a_node_sends_it_is_counted_and_not_published(
    hosts: Pair, participant: DomainParticipant
) -> None:
    host, _ = hosts
    host.start()
    subscriber = rtmw.Subscriber("large", domain=host.domain, reliability=Reliability.RELIABLE)
    writer = octets_writer(participant, "large", is_node=True)
    for sample in FAKED.values():
        write_bytes(writer, sample)
    write_bytes(writer, octets(LARGE) + trailer(sequence=2))
    assert bytes(subscriber.receive(timeout=PATIENCE).data) == LARGE
    assert subscriber.take() is None
    wait_until(lambda: host.crossed("in", "large")["malformed"] == len(FAKED), "they are not counted")


def test_large_messages_of_a_plain_program_are_published_even_if_they_end_like_those_of_a_node(
    hosts: Pair, participant: DomainParticipant
) -> None:
    host, _ = hosts
    host.start()
    subscriber = rtmw.Subscriber("large", domain=host.domain, reliability=Reliability.RELIABLE)
    writer = octets_writer(participant, "large", is_node=False)
    for payload in (LARGE, LARGE + trailer()):
        write_bytes(writer, octets(payload))
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload
    wait_until(lambda: host.crossed("in", "large")["received"] == 2, "they are not counted")
    assert host.crossed("in", "large")["malformed"] == 0
