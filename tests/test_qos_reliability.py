"""Reliability against timeliness (requirement P5): what gives way when a queue or the pool is full."""

from __future__ import annotations

import os
import threading
import time

import pytest

import rtmw
from rtmw import Reliability
from tests.bus import LONG, held, numbered, numbers, publish_all, taken
from tests.child import Spawn

pytestmark = pytest.mark.usefixtures("domain")

RELIABLE, ADAPTIVE, TIMELY = Reliability.RELIABLE, Reliability.ADAPTIVE, Reliability.TIMELY
MEGABYTE = 1 << 20


# TIMELY


@pytest.mark.parametrize(
    ("offered", "requested"), [(TIMELY, TIMELY), (TIMELY, ADAPTIVE), (ADAPTIVE, TIMELY), (RELIABLE, TIMELY)]
)
def test_a_timely_pair_keeps_the_newest_depth_and_counts_the_rest_as_missed(
    offered: Reliability, requested: Reliability
) -> None:
    publisher = rtmw.Publisher("t", reliability=offered)
    subscriber = rtmw.Subscriber("t", reliability=requested, depth=4)
    publish_all(publisher, numbered(100))
    assert numbers(subscriber) == [96, 97, 98, 99]
    stats = subscriber.stats()
    assert (stats.received, stats.missed, stats.waiting) == (4, 96, 0)


def test_timely_keeps_the_newest_depth_of_each_priority() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", reliability=TIMELY, depth=2)
    for number in range(3):
        for band in (0, 3, 7):
            publisher.publish(b"%d.%d" % (band, number), priority=band)
    publisher.publish(b"3.3", priority=3)
    assert taken(subscriber) == [b"7.1", b"7.2", b"3.2", b"3.3", b"0.1", b"0.2"]
    assert subscriber.stats().missed == 4


def test_a_timely_publisher_never_waits_for_anybody() -> None:
    publisher = rtmw.Publisher("t", reliability=TIMELY, max_blocking=None)
    subscribers = [rtmw.Subscriber("t", reliability=each, depth=1) for each in (TIMELY, ADAPTIVE)]
    publish_all(publisher, numbered(10_000))
    assert publisher.stats().timed_out == publisher.stats().exhausted == 0
    assert [numbers(subscriber) for subscriber in subscribers] == [[9999], [9999]]


def test_a_timely_subscriber_that_keeps_up_misses_nothing() -> None:
    publisher, subscriber = rtmw.Publisher("t", reliability=TIMELY), rtmw.Subscriber("t", reliability=TIMELY, depth=1)
    for number in range(1000):
        publisher.publish(b"%d" % number)
        assert taken(subscriber) == [b"%d" % number]
    assert subscriber.stats().missed == 0


# ADAPTIVE


def test_adaptive_keeps_unread_messages_beyond_the_depth_while_the_pool_has_room() -> None:
    publisher, subscriber = rtmw.Publisher("t", depth=2), rtmw.Subscriber("t", depth=2)
    publish_all(publisher, numbered(1000))
    assert numbers(subscriber) == list(range(1000))
    assert subscriber.stats().missed == 0


def test_adaptive_keeps_large_unread_messages_too() -> None:
    publisher, subscriber = rtmw.Publisher("t", depth=1), rtmw.Subscriber("t", depth=1)
    publish_all(publisher, numbered(6, MEGABYTE))
    assert numbers(subscriber) == list(range(6))


@pytest.mark.parametrize("size", [10, 20_000])
def test_when_the_pool_runs_low_adaptive_keeps_the_depth_and_counts_the_rest_as_missed(size: int) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=16)
    publish_all(publisher, numbered(20_000 if size == 10 else 2000, size))
    count = publisher.stats().published
    got = numbers(subscriber)
    assert got == list(range(count - len(got), count)), "the newest, without gaps"
    assert len(got) >= 16
    stats = subscriber.stats()
    assert stats.received + stats.missed == count
    assert (publisher.stats().timed_out, publisher.stats().exhausted) == (0, 0)


def test_one_adaptive_subscriber_that_stands_still_takes_nothing_from_one_that_reads() -> None:
    publisher, still, reader = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=4), rtmw.Subscriber("t", depth=4)
    got: list[int] = []
    for value in numbered(20_000):
        assert publisher.publish(value)
        got += numbers(reader)
    assert got == list(range(20_000))
    assert reader.stats().missed == 0
    left = numbers(still)
    assert still.stats().missed == 20_000 - len(left) > 0


# RELIABLE: the queue of a subscriber is full


def test_a_reliable_publisher_waits_for_max_blocking_and_then_says_so() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0.1)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=3)
    publish_all(publisher, numbered(3))
    begin = time.monotonic()
    assert publisher.publish(b"4") is False
    assert time.monotonic() - begin >= 0.095
    assert publisher.publish(b"4") is False
    stats = publisher.stats()
    assert (stats.published, stats.timed_out, stats.exhausted) == (3, 2, 0)
    assert numbers(subscriber) == [0, 1, 2]
    assert subscriber.stats().missed == 0


# Proves G21.
def test_the_stats_of_a_publisher_name_the_program_that_is_in_its_way() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    assert publisher.publish(b"for nobody")
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=2)
    publish_all(publisher, numbered(2))
    assert not publisher.publish(b"refused")
    (said,) = publisher.stats().in_the_way
    assert f"(pid {os.getpid()}): 2 messages unread, and its depth is 2" in said
    assert not said.startswith("?"), "it has a name"
    assert subscriber.take() is not None
    assert publisher.stats().in_the_way == ()


def test_with_max_blocking_0_it_does_not_wait() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1)
    assert [publisher.publish(b"%d" % number) for number in range(100)] == [True] + [False] * 99
    assert publisher.stats().timed_out == 99
    assert taken(subscriber) == [b"0"]


@pytest.mark.parametrize("max_blocking", [None, LONG])
def test_it_goes_on_as_soon_as_the_subscriber_takes(max_blocking: float | None) -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=max_blocking)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=2)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.extend(publisher.publish(value) for value in numbered(500)))
    thread.start()
    got = [int(subscriber.receive(LONG).value) for _ in range(500)]
    thread.join(LONG)
    assert answers == [True] * 500
    assert got == list(range(500))
    assert publisher.stats().timed_out == 0


def test_the_slowest_reliable_subscriber_counts() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    slow, quick = (rtmw.Subscriber("t", reliability=RELIABLE, depth=depth) for depth in (2, 5))
    assert publisher.publish_many(numbered(9)) == 2
    assert numbers(quick) == [0, 1]
    assert publisher.publish(b"x") is False
    assert numbers(slow) == [0, 1]
    assert publisher.publish_many(numbered(9)) == 2
    assert len(taken(slow)) == 2
    assert publisher.publish_many(numbered(9)) == 2
    assert len(taken(quick)) == 4


def test_the_weaker_of_offer_and_request_governs_a_pair() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    weaker = rtmw.Subscriber("t", reliability=ADAPTIVE, depth=1)
    publish_all(publisher, numbered(100))
    assert publisher.stats().timed_out == 0, "it waits for RELIABLE subscribers only"
    assert numbers(weaker) == list(range(100))


# Proves G59.
def test_depth_counts_in_each_priority_so_that_what_is_urgent_never_waits_for_what_is_not() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=2)
    assert [publisher.publish(b"x", priority=0) for _ in range(3)] == [True, True, False]
    assert [publisher.publish(b"x", priority=7) for _ in range(3)] == [True, True, False]
    assert [sample.priority for sample in subscriber.take_many(9)] == [7, 7, 0, 0]


def test_a_subscriber_that_closes_stops_counting_at_once() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1)
    publisher.publish(b"1")
    threading.Timer(0.05, subscriber.close).start()
    assert publisher.publish(b"2")


def test_a_subscriber_that_dies_stops_counting_at_once(spawn: Spawn) -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=LONG)
    child = spawn(
        """
        import rtmw
        subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1)
        print("ready")
        input()
        """
    )
    child.line()
    assert publisher.publish(b"1")
    threading.Timer(0.05, child.kill).start()
    assert publisher.publish(b"2")
    assert publisher.subscribers == 0


# The pool is empty


def samples_that_fill_the_pool(count: int = 8) -> tuple[list[rtmw.Sample[bytes]], list[object]]:
    """Samples that hold the whole pool of 8 MiB."""
    publisher, subscriber = rtmw.Publisher("filler"), rtmw.Subscriber("filler")
    samples = []
    for _ in range(count):
        publisher.publish(bytes(MEGABYTE))
        samples.append(subscriber.receive(LONG))
    return samples, [publisher, subscriber]


@pytest.mark.parametrize("reliability", Reliability)
def test_with_the_pool_held_by_samples_publish_says_no_and_counts(reliability: Reliability) -> None:
    samples, _ends = samples_that_fill_the_pool()
    publisher = rtmw.Publisher("t", reliability=reliability, max_blocking=0.05)
    begin = time.monotonic()
    assert publisher.publish(bytes(MEGABYTE)) is False
    waited = time.monotonic() - begin
    assert reliability is not RELIABLE or waited >= 0.045
    assert (publisher.stats().exhausted, publisher.stats().timed_out) == (1, 0)
    with pytest.raises(rtmw.PoolExhausted, match="pool"):
        publisher.loan(MEGABYTE)
    samples.clear()
    _ends.clear()
    assert publisher.publish(bytes(MEGABYTE)), "it goes on when the memory has come back"


def test_a_reliable_publisher_waits_for_memory() -> None:
    samples, ends = samples_that_fill_the_pool()
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=LONG)
    threading.Timer(0.05, lambda: (samples.clear(), ends.clear())).start()
    assert publisher.publish(bytes(MEGABYTE))
    assert publisher.stats().exhausted == 0


@pytest.mark.parametrize("reliability", [ADAPTIVE, TIMELY])
def test_with_the_pool_full_of_unread_messages_the_oldest_goes(reliability: Reliability) -> None:
    publisher = rtmw.Publisher("t", reliability=reliability)
    subscriber = rtmw.Subscriber("t", reliability=reliability, depth=64)
    publish_all(publisher, numbered(20, MEGABYTE))
    got = numbers(subscriber)
    assert got == list(range(20 - len(got), 20))
    assert 1 <= len(got) <= 8
    assert subscriber.stats().missed == 20 - len(got)
    assert publisher.stats().exhausted == 0


def test_with_the_pool_full_of_unread_messages_the_lowest_priority_goes_first() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=64)
    for priority in (7, 7, 0, 0, 0, 0, 0, 0):
        publisher.publish(bytes(MEGABYTE), priority=priority)
    publish_all(publisher, [bytes(MEGABYTE)] * 3)
    assert [sample.priority for sample in subscriber.take_many(99)] == [7, 7, 0, 0, 0, 0, 0, 0]
    assert subscriber.stats().missed == 3


def test_reliable_evicts_nothing_unread_for_want_of_memory() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0.02)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=64)
    answers = [publisher.publish(value) for value in numbered(10, MEGABYTE)]
    assert answers == [True] * 8 + [False] * 2
    assert publisher.stats().exhausted == 2
    assert numbers(subscriber) == list(range(8))
    assert subscriber.stats().missed == 0


def test_other_publishers_evict_nothing_that_a_reliable_subscriber_has_not_read() -> None:
    reliable = rtmw.Publisher("t", reliability=RELIABLE)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=64)
    publish_all(reliable, numbered(4, MEGABYTE))
    timely = rtmw.Publisher("t", reliability=TIMELY)
    for value in numbered(10, MEGABYTE):
        timely.publish(value)
    assert numbers(subscriber) == [0, 1, 2, 3]


def test_after_all_of_it_the_books_balance(domain: rtmw.Domain) -> None:
    for reliability in Reliability:
        publisher = rtmw.Publisher("t", reliability=reliability, max_blocking=0)
        subscriber = rtmw.Subscriber("t", reliability=reliability, depth=8)
        for value in numbered(100, 200_000):
            publisher.publish(value)
        taken(subscriber)
        publisher.close()
        subscriber.close()
    assert held(domain) == 0
