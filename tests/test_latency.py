"""Latency: percentiles of every message, from the histogram that lies in the region."""

from __future__ import annotations

import random
import time

import pytest

import rtmw
from rtmw import Latency, observe
from tests.bus import taken
from tests.child import Spawn

FINEST_NS = 4


def exact(times_ns: list[int]) -> Latency:
    """A histogram with a bucket a time."""
    return Latency.of((ns, ns, 1) for ns in set(times_ns))


def test_nothing_was_taken_and_nothing_is_known() -> None:
    empty = Latency()
    assert (empty.count, empty.percentile(50), empty.shortest, empty.longest, empty.mean) == (0, None, None, None, None)
    assert empty.summary()["p99"] is None


def test_a_percentile_is_the_time_within_which_so_many_of_a_hundred_were_taken() -> None:
    latency = exact(list(range(1, 1001)))
    assert [latency.percentile(p) for p in (0.1, 50, 99, 99.9, 100)] == [1e-9, 500e-9, 990e-9, 999e-9, 1000e-9]
    assert (latency.shortest, latency.longest) == (1e-9, 1000e-9)


@pytest.mark.parametrize("percent", [-1, 100.1])
def test_there_is_no_percentile_beyond_0_and_100(percent: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100"):
        exact([1]).percentile(percent)


def test_the_percentile_of_a_bucket_is_its_upper_end() -> None:
    assert Latency.of([(100, 131, 5)]).percentile(50) == 131e-9


def test_what_came_since_an_earlier_reading_is_a_histogram_too() -> None:
    earlier, later = Latency.of([(1, 1, 5), (2, 2, 1)]), Latency.of([(1, 1, 7), (2, 2, 1), (3, 3, 4)])
    assert later.since(earlier) == Latency.of([(1, 1, 2), (3, 3, 4)])
    assert later.since(later) == Latency()


def test_two_subscribers_together_are_as_if_all_were_one() -> None:
    one, other = exact([1, 2, 3]), exact([3, 4])
    assert (one + other).buckets == ((1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 4, 1))


# Proves G38.
def test_every_message_that_is_taken_is_counted_once(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=2000)
    publisher.publish_many([b"x"] * 500)
    assert len(subscriber.take_many(100)) == 100
    assert subscriber.take() is not None
    assert subscriber.receive(1) is not None
    assert subscriber.stats().latency.count == subscriber.stats().received == 102
    taken(subscriber)
    assert subscriber.stats().latency.count == 500


def test_what_is_dropped_has_no_latency(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", min_interval=1000)
    publisher.publish(b"expired", lifetime=0)
    publisher.publish_many([b"x"] * 5)
    assert taken(subscriber) == [b"x"]
    assert subscriber.stats().latency.count == 1


def test_the_time_that_a_message_lay_in_the_queue_is_part_of_it(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    before = time.monotonic()
    publisher.publish(b"x")
    published = time.monotonic()
    while time.monotonic() < published + 0.05:
        pass
    least = time.monotonic() - published
    assert subscriber.take() is not None
    most = time.monotonic() - before
    (bucket,) = subscriber.stats().latency.buckets
    assert bucket[0] / 1e9 <= most
    assert bucket[1] / 1e9 >= least
    assert bucket[1] - bucket[0] < bucket[0] / 32 + FINEST_NS


def test_buckets_are_narrow_and_leave_no_gap(domain: rtmw.Domain) -> None:
    publisher, subscriber, chance = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=10_000), random.Random(1)
    for _ in range(2000):
        publisher.publish(b"x")
        if chance.random() < 0.5:
            taken(subscriber)
    taken(subscriber)
    for low, high, count in subscriber.stats().latency.buckets:
        assert count > 0
        assert low % FINEST_NS == 0
        assert (high + 1) % FINEST_NS == 0
        assert high - low < max(FINEST_NS, low / 32 + 1)


def test_a_new_subscriber_begins_at_nothing(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t")
    for _ in range(3):
        with rtmw.Subscriber("t") as subscriber:
            assert subscriber.stats().latency == Latency()
            publisher.publish(b"x")
            taken(subscriber)
            assert subscriber.stats().latency.count == 1


def test_the_latency_of_a_subscriber_elsewhere_is_seen_without_its_help(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        "import rtmw; s = rtmw.Subscriber('t'); print(s.identity)\n"
        "for n in range(7): s.receive(30)\n"
        "print(s.stats().latency.buckets); input()"
    )
    identity = int(child.line())
    publisher = rtmw.Publisher("t")
    publisher.publish_many([b"x"] * 7)
    told = child.line(30)
    child.stop()
    ((view,),) = [topic.subscribers for topic in observe.topics(domain)]
    assert (view.identity, view.pid) == (identity, child.pid)
    assert view.latency.count == 7
    assert str(view.latency.buckets) == told
