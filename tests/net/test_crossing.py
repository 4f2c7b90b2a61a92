"""Topics cross between two hosts, with all that a message is."""

from __future__ import annotations

import time

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.ways import BOTH_WAYS
from topics.river import Quality, Reading

pytestmark = BOTH_WAYS

Pair = tuple[Host, Host]
READING = Reading("A1", "pH", 7.4, Quality.GOOD, 1)


def test_a_message_of_a_type_arrives_as_the_same_value(pair: Pair) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("river/a", Reading, domain=there.domain)
    publisher = rtmw.Publisher("river/a", Reading, domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(READING)
    assert subscriber.receive(timeout=PATIENCE).value == READING


def test_a_subscriber_of_any_type_needs_no_class(pair: Pair) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("river/a", rtmw.ANY, domain=there.domain)
    publisher = rtmw.Publisher("river/a", Reading, domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(READING)
    assert subscriber.receive(timeout=PATIENCE).value.station == "A1"


@pytest.mark.parametrize("size", [0, 1, 3, 128, 5_000, 200_000, 3_000_000])
def test_raw_bytes_arrive_whole(pair: Pair, size: int) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("raw", domain=there.domain)
    publisher = rtmw.Publisher("raw", domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    payload = np.random.default_rng(size).bytes(size)
    publisher.publish(payload)
    assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload


def test_an_array_keeps_its_type_and_shape(pair: Pair) -> None:
    here, there = pair
    kind = np.dtype((np.float32, (480, 640)))
    subscriber = rtmw.Subscriber("image", kind, domain=there.domain)
    publisher = rtmw.Publisher("image", kind, domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    image = np.arange(480 * 640, dtype=np.float32).reshape(480, 640)
    publisher.publish(image)
    assert np.array_equal(subscriber.receive(timeout=PATIENCE).value, image)


def test_priority_lifetime_source_time_and_publisher_are_kept(pair: Pair) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("raw", domain=there.domain)
    publisher = rtmw.Publisher("raw", domain=here.domain)
    near = rtmw.Subscriber("raw", domain=here.domain)
    assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
    publisher.publish(b"urgent", priority=6, lifetime=1000.0)
    publisher.publish(b"for ever", priority=2)
    far, original = subscriber.receive(timeout=PATIENCE), near.receive(timeout=PATIENCE)
    assert (bytes(far.data), far.priority, far.source_time_ns) == (b"urgent", 6, original.source_time_ns)
    assert far.expires_ns is not None
    assert 900e9 < far.expires_ns - time.time_ns() < 1000e9
    later = subscriber.receive(timeout=PATIENCE)
    assert (bytes(later.data), later.priority, later.expires_ns) == (b"for ever", 2, None)
    assert far.publisher == later.publisher == original.publisher == publisher.identity < 1 << 63


def test_a_publisher_has_one_identity_on_each_host_also_when_the_nodes_are_others(pair: Pair) -> None:
    """RELIABLE, so that what is published before the new nodes have met is not lost."""
    here, there = pair
    publisher = rtmw.Publisher("who", domain=here.domain, history=1, reliability=Reliability.RELIABLE)
    other = rtmw.Publisher("who", domain=here.domain, history=1, reliability=Reliability.RELIABLE)

    def seen(host: Host, text: bytes) -> dict[bytes, int]:
        with rtmw.Subscriber("who", domain=host.domain, reliability=Reliability.RELIABLE) as subscriber:
            for one, by in ((publisher, b" by one"), (other, b" by another")):
                assert one.wait_for_subscribers(2 if host is there else 1, timeout=PATIENCE)
                one.publish(text + by)
            return {(sample := subscriber.receive(timeout=PATIENCE)).value: sample.publisher for _ in range(2)}

    def expected(text: bytes) -> dict[bytes, int]:
        return {text + b" by one": publisher.identity, text + b" by another": other.identity}

    with rtmw.Subscriber("who", domain=here.domain):
        assert seen(there, b"first") == expected(b"first")
        for host in pair:
            host.stop()
            host.start()
        assert seen(there, b"again") == expected(b"again")
    assert publisher.identity != other.identity


def test_reliable_messages_all_arrive_in_order(pair: Pair) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("all", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    publisher = rtmw.Publisher("all", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    got, number = list[int](), 0
    while number < 20_000:
        number += publisher.publish(number.to_bytes(4, "little"))
        got += [int.from_bytes(sample.data, "little") for sample in subscriber.take_many(100)]
    while len(got) < 20_000:
        got.append(int.from_bytes(subscriber.receive(timeout=PATIENCE).data, "little"))
    assert got == list(range(20_000))


# Proves G316.
def test_no_message_comes_back_to_where_it_was_published(pair: Pair) -> None:
    both = [(rtmw.Publisher("talk", domain=host.domain), rtmw.Subscriber("talk", domain=host.domain)) for host in pair]
    for publisher, _ in both:
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
    for number in range(50):
        both[0][0].publish(b"from here %d" % number)
        both[1][0].publish(b"from there %d" % number)
    for _, subscriber in both:
        heard = sorted(bytes(subscriber.receive(timeout=PATIENCE).data) for _ in range(100))
        assert heard == sorted(b"from %s %d" % (side, n) for side in (b"here", b"there") for n in range(50))
    # What came back would lie before these, there and back again.
    both[0][0].publish(b"last from here")
    assert both[1][1].receive(timeout=PATIENCE).data == b"last from here"
    both[1][0].publish(b"last from there")
    assert both[0][1].receive(timeout=PATIENCE).data == b"last from here"
    assert both[0][1].receive(timeout=PATIENCE).data == b"last from there"
    assert both[1][1].receive(timeout=PATIENCE).data == b"last from there"


def test_a_late_subscriber_gets_the_kept_messages(pair: Pair) -> None:
    here, there = pair
    publisher = rtmw.Publisher("status", domain=here.domain, history=2)
    for number in range(5):
        publisher.publish(b"%d" % number)
    subscriber = rtmw.Subscriber("status", domain=there.domain, history=2)
    assert [bytes(subscriber.receive(timeout=PATIENCE).data) for _ in range(2)] == [b"3", b"4"]


def test_the_node_counts_as_a_subscriber_while_somebody_far_away_reads(pair: Pair) -> None:
    here, there = pair
    publisher, other = (rtmw.Publisher(name, domain=here.domain) for name in ("read", "read-too"))
    with rtmw.Subscriber("read-too", domain=there.domain):
        assert other.wait_for_subscribers(1, timeout=PATIENCE), "the node has not looked at the topics yet"
    assert publisher.stats().subscribers == 0
    subscriber = rtmw.Subscriber("read", domain=there.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    subscriber.close()
    wait_until(lambda: publisher.stats().subscribers == 0, "the node goes on reading for nobody")
