"""Reliabilities of one topic do not weaken each other: each pair of programs has what the weaker of the two says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

import rtmw
from rtmw import Reliability
from tests.bus import lease_of
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.ways import BOTH_WAYS

pytestmark = BOTH_WAYS

TIMELY, RELIABLE = Reliability.TIMELY, Reliability.RELIABLE
TOPIC = "mixed"
COUNT = 40
"""Messages of a publisher: as many as each subscriber has room for."""

Pair = tuple[Host, Host]


def publisher(host: Host, reliability: Reliability) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(TOPIC, domain=host.domain, reliability=reliability, depth=COUNT, max_blocking=0)


class Listener:
    """A subscriber, and what it heard of publishers of each reliability."""

    def __init__(self, host: Host, asked: Reliability) -> None:
        self.asked = asked
        self.subscriber = rtmw.Subscriber(
            TOPIC,
            domain=host.domain,
            reliability=asked,
            depth=len(Reliability) * COUNT,
            lease=lease_of(asked, PATIENCE),
        )
        self.heard: dict[Reliability, list[int]] = {offered: [] for offered in Reliability}

    def take(self) -> None:
        for sample in self.subscriber.take_many(10 * COUNT):
            offered, number = map(int, bytes(sample.data).split())
            self.heard[Reliability(offered)].append(number)

    def is_matched_with(self, offered: Reliability) -> bool:
        return offered is RELIABLE or self.asked is not RELIABLE


def publish(source: rtmw.Publisher[bytes], number: int) -> None:
    """Once there is room: a queue is one for all publishers of its topic."""
    wait_until(lambda: source.publish(b"%d %d" % (source.reliability, number)), "there is no room")


@pytest.fixture
def publishers(pair: Pair) -> Iterator[list[rtmw.Publisher[bytes]]]:
    """One of each reliability, here."""
    made = [publisher(pair[0], offered) for offered in Reliability]
    yield made
    for one in made:
        one.close()


@pytest.fixture
def listeners(pair: Pair) -> Iterator[list[Listener]]:
    """One of each reliability, there."""
    made = [Listener(pair[1], asked) for asked in Reliability]
    yield made
    for one in made:
        one.subscriber.close()


# Proves G282.
def test_everybody_hears_each_publisher_that_he_is_matched_with_once_and_in_order(
    publishers: list[rtmw.Publisher[bytes]], listeners: list[Listener]
) -> None:
    for one in publishers:
        assert one.wait_for_subscribers(1, timeout=PATIENCE)
    for number, one in product(range(COUNT), publishers):
        publish(one, number)

    def has_arrived() -> bool:
        for listener in listeners:
            listener.take()
        matched = [
            (each, offered) for each, offered in product(listeners, Reliability) if each.is_matched_with(offered)
        ]
        return all(each.heard[offered] for each, offered in matched) and all(
            each.heard[RELIABLE][-1:] == [COUNT - 1] for each in listeners
        )

    wait_until(has_arrived, "the last RELIABLE message does not arrive")
    for listener, offered in product(listeners, Reliability):
        got = listener.heard[offered]
        assert got == sorted(set(got)), f"{listener.asked} hears {offered} twice, or not in order"
        assert bool(got) == listener.is_matched_with(offered), f"{listener.asked} of {offered}: {got}"
    whole = next(listener for listener in listeners if listener.asked is RELIABLE)
    assert whole.heard[RELIABLE] == [*range(COUNT)]


@pytest.mark.usefixtures("listeners")
def test_the_node_is_one_subscriber_to_each_and_refuses_nobody(publishers: list[rtmw.Publisher[bytes]]) -> None:
    for one in publishers:
        assert one.wait_for_subscribers(1, timeout=PATIENCE)
    for one in publishers:
        assert one.stats().subscribers == 1
        assert one.stats().refused == ()


def test_a_reliable_publisher_that_joins_timely_ones_is_heard_from_its_first_message_on(pair: Pair) -> None:
    here, there = pair
    whole, _ = Listener(there, RELIABLE), Listener(there, TIMELY)
    with publisher(here, TIMELY) as timely, publisher(here, RELIABLE) as reliable:
        assert timely.wait_for_subscribers(1, timeout=PATIENCE)
        assert reliable.wait_for_subscribers(1, timeout=PATIENCE)
        for number in range(COUNT):
            publish(reliable, number)

        def has_arrived() -> bool:
            whole.take()
            return whole.heard[RELIABLE][-1:] == [COUNT - 1]

        wait_until(has_arrived, "the last message does not arrive")
    assert whole.heard[RELIABLE] == [*range(COUNT)]


def test_a_reliable_subscriber_that_stands_still_delays_no_timely_publisher_of_the_topic(pair: Pair) -> None:
    here, there = pair
    standing, going = Listener(there, RELIABLE), Listener(there, TIMELY)
    with publisher(here, TIMELY) as timely, publisher(here, RELIABLE) as reliable:
        for one in (timely, reliable):
            assert one.wait_for_subscribers(1, timeout=PATIENCE)
        for _ in range(3):  # full for a while, with all that may be on the way
            wait_until(lambda: not reliable.publish(bytes(100_000)), "the RELIABLE publisher is never told to wait")

        def is_heard() -> bool:
            publish(timely, 0)
            return any(len(sample.data) < 100 for sample in going.subscriber.take_many(10 * COUNT))

        wait_until(is_heard, "the TIMELY publisher is not heard")
        assert standing.subscriber.stats().received == 0
