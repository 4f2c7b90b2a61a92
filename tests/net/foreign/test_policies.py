"""Quality of service means the same here and there. The names are those of the OMG's interoperability tests
(omg-dds/dds-rtps, `test_suite.py`), as far as rtmw has the policy: it has no ownership, partitions, content filters,
coherent sets or instances."""

from __future__ import annotations

import time
from typing import Any

import pytest

import rtmw
from rtmw import Reliability, observe
from tests.bus import lifetime_of
from tests.net.foreign.peer import Peer
from tests.net.hosts import PATIENCE, Host, wait_until
from topics.river import Alarm, Quality, Reading

BEST_EFFORT, RELIABLE, ADAPTIVE = Reliability.TIMELY, Reliability.RELIABLE, Reliability.ADAPTIVE


def reading(number: int) -> Reading:
    return Reading("s1", "pH", float(number), Quality.GOOD, number)


def publisher_of(host: Host, topic: str, **qos: Any) -> rtmw.Publisher[Reading]:
    return rtmw.Publisher(topic, Reading, domain=host.domain, **qos)


def met(publisher: rtmw.Publisher[Any], peer: Peer) -> None:
    """Both sides know of each other."""
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    assert peer.next(publisher.topic, "matched") == "1"


def subscriber_of(host: Host, topic: str, **qos: Any) -> rtmw.Subscriber[Reading]:
    return rtmw.Subscriber(topic, Reading, domain=host.domain, **qos)


def numbers_read_by(peer: Peer, topic: str, count: int) -> list[int]:
    expected = {peer.value(reading(number)): number for number in range(100)}
    return [expected[peer.next(topic, "sample")] for _ in range(count)]


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        pytest.param(BEST_EFFORT, 1, id="Test_Reliability_0: best effort, best effort"),
        pytest.param(RELIABLE, 1, id="Test_Reliability_1: reliable, best effort"),
        pytest.param(RELIABLE, 0, id="Test_Reliability_3: reliable, reliable"),
        pytest.param(ADAPTIVE, 0, id="ADAPTIVE, reliable"),
    ],
)
def test_reliability_of_publishers_here(host: Host, peer: Peer, topic: str, offered: Reliability, asked: int) -> None:
    peer.open("reader", topic, Reading, best_effort=asked)
    with publisher_of(host, topic, reliability=offered) as publisher:
        met(publisher, peer)
        heard = 0
        while heard == 0 or (asked == 0 and heard < 10):  # best effort: some arrive
            publisher.publish(reading(heard))
            wait_until(lambda: peer.said(topic, "sample") > 0, "nothing arrives") if asked == 0 else time.sleep(0.1)
            heard += len(numbers_read_by(peer, topic, peer.said(topic, "sample")))
        assert peer.said(topic, "incompatible") == 0


def test_reliability_2_a_reader_that_asks_for_more_than_is_offered_is_not_matched(
    host: Host, peer: Peer, topic: str
) -> None:
    """Test_Reliability_2: best effort, reliable."""
    peer.open("reader", topic, Reading)
    with publisher_of(host, topic, reliability=BEST_EFFORT) as publisher:
        peer.next(topic, "incompatible")
        assert publisher.stats().subscribers == 0


@pytest.mark.parametrize("asked", [BEST_EFFORT, ADAPTIVE, RELIABLE])
@pytest.mark.parametrize("best_effort", [0, 1])
def test_reliability_of_subscribers_here(
    host: Host, peer: Peer, topic: str, best_effort: int, asked: Reliability
) -> None:
    peer.open("writer", topic, Reading, best_effort=best_effort)
    with subscriber_of(host, topic, reliability=asked) as subscriber:
        if best_effort and asked is RELIABLE:
            wait_until(lambda: bool(subscriber.stats().unheard), "nobody says that it is not matched")
            assert "RELIABLE" in subscriber.stats().unheard[0]
            return
        assert peer.next(topic, "matched") == "1"
        heard: list[float] = []
        while not heard:
            peer.write(topic, reading(5))
            sample = subscriber.receive(timeout=PATIENCE) if not best_effort else subscriber.take()
            heard += [sample.value.value] if sample else []
            time.sleep(0.01)
        assert heard[0] == 5.0


@pytest.mark.parametrize("depth", [1, 4], ids=["Test_History_0: KEEP_LAST 1", "Test_History_1: KEEP_LAST 4"])
def test_durability_and_history_of_publishers_here(host: Host, peer: Peer, topic: str, depth: int) -> None:
    """Test_Durability_17: a late reader gets what a transient-local writer keeps, and no more than that."""
    with publisher_of(host, topic, history=depth, reliability=ADAPTIVE) as publisher:
        for number in range(10):
            publisher.publish(reading(number))
        peer.open("reader", topic, Reading, durable=1)
        assert numbers_read_by(peer, topic, depth) == list(range(10 - depth, 10))


@pytest.mark.parametrize("depth", [1, 4])
def test_durability_and_history_of_writers_there(host: Host, peer: Peer, topic: str, depth: int) -> None:
    peer.open("writer", topic, Reading, durable=1, depth=depth)
    for number in range(10):
        peer.write(topic, reading(number))
        peer.next(topic, "wrote")
    with subscriber_of(host, topic, history=depth) as subscriber:
        heard = [subscriber.receive(timeout=PATIENCE).value.measured_ns for _ in range(depth)]
        assert heard == list(range(10 - depth, 10))


def test_durability_0_a_late_reader_of_a_volatile_publisher_gets_nothing_old(
    host: Host, peer: Peer, topic: str
) -> None:
    with publisher_of(host, topic) as publisher:
        publisher.publish(reading(1))
        peer.open("reader", topic, Reading)
        met(publisher, peer)
        publisher.publish(reading(2))
        assert numbers_read_by(peer, topic, 1) == [2]


def test_a_reader_that_asks_for_history_is_not_matched_with_a_volatile_publisher(
    host: Host, peer: Peer, topic: str
) -> None:
    peer.open("reader", topic, Reading, durable=1)
    with publisher_of(host, topic) as publisher:
        peer.next(topic, "incompatible")
        assert publisher.stats().subscribers == 0


def test_deadline_2_a_reader_hears_of_a_publisher_that_is_silent(host: Host, peer: Peer, topic: str) -> None:
    peer.open("reader", topic, Reading, deadline=0.3)
    with publisher_of(host, topic) as publisher:
        met(publisher, peer)
        publisher.publish(reading(1))
        assert numbers_read_by(peer, topic, 1) == [1]
        peer.next(topic, "deadline")


def test_a_subscriber_here_hears_of_a_writer_that_is_silent(host: Host, peer: Peer, topic: str) -> None:
    peer.open("writer", topic, Reading, deadline=0.1)
    with subscriber_of(host, topic, deadline=0.5) as subscriber:
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, reading(1))
        wait_until(lambda: bool(subscriber.take()), "it is not received")
        with pytest.raises(rtmw.DeadlineMissed):
            subscriber.receive(timeout=PATIENCE)


def test_a_writer_that_promises_no_deadline_is_heard_all_the_same(host: Host, peer: Peer, topic: str) -> None:
    """In DDS it would not be matched. Here the subscriber watches over its deadline itself."""
    peer.open("writer", topic, Reading)
    with subscriber_of(host, topic, deadline=30.0) as subscriber:
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, reading(1))
        assert subscriber.receive(timeout=PATIENCE).value == reading(1)


def test_time_based_filter_0_a_reader_is_sent_no_more_than_it_asks_for(host: Host, peer: Peer, topic: str) -> None:
    peer.open("reader", topic, Reading, interval=60.0)
    with publisher_of(host, topic) as publisher:
        met(publisher, peer)
        for number in range(20):
            publisher.publish(reading(number))
        assert numbers_read_by(peer, topic, 1) == [0]
        wait_until(lambda: subscriber_counts(host, topic)["thinned"] == 19, "the node does not thin out")
        assert peer.said(topic, "sample") == 0


def subscriber_counts(host: Host, topic: str) -> dict[str, int]:
    """What the node's subscriber has counted."""
    view = next(view for view in observe.topics(host.domain) if view.name == topic)
    return {"thinned": sum(one.thinned for one in view.subscribers)}


def test_lifespan_0_what_has_expired_is_not_delivered(host: Host, peer: Peer, topic: str) -> None:
    with publisher_of(host, topic, history=2, lifetime=0.5) as publisher:
        publisher.publish(reading(1))
        publisher.publish(reading(2), lifetime=0.001)
        time.sleep(1.0)
        publisher.publish(reading(3))
        peer.open("reader", topic, Reading, durable=1)
        met(publisher, peer)
        while peer.said(topic, "sample") == 0:
            publisher.publish(reading(4))
            time.sleep(0.05)
        assert set(numbers_read_by(peer, topic, peer.said(topic, "sample"))) <= {3, 4}


def test_lifespan_of_writers_there_is_the_lifetime_here(host: Host, peer: Peer, topic: str) -> None:
    peer.open("writer", topic, Reading, lifespan=500.0)
    with subscriber_of(host, topic) as subscriber:
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, reading(1))
        sample = subscriber.receive(timeout=PATIENCE)
        assert lifetime_of(sample) == 500


def test_priority_of_writers_there_is_the_priority_here(host: Host, peer: Peer, topic: str) -> None:
    if peer.vendor == "fastdds":
        pytest.skip("Fast DDS 2.9 does not announce the transport priority of a writer")
    peer.open("writer", topic, Reading, priority=5)
    with subscriber_of(host, topic) as subscriber:
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, reading(1))
        assert subscriber.receive(timeout=PATIENCE).priority == 5


@pytest.mark.parametrize("size", [100_000, 2_000_000])
def test_large_data_0_crosses_in_fragments(host: Host, peer: Peer, topic: str, size: int) -> None:
    alarm = Alarm("s1", "pH", True, 1.0, 2.0, 3, "".join(chr(97 + n % 26) for n in range(size)))
    back = f"{topic}/back"
    peer.open("reader", topic, Alarm)
    with rtmw.Publisher(topic, Alarm, domain=host.domain, reliability=RELIABLE) as publisher:
        met(publisher, peer)
        publisher.publish(alarm)
        assert peer.next(topic, "sample") == peer.value(alarm)
    peer.open("writer", back, Alarm)
    with rtmw.Subscriber(back, Alarm, domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(back, "matched") == "1"
        peer.write(back, alarm)
        assert subscriber.receive(timeout=PATIENCE).value == alarm
