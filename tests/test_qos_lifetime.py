"""Lifetime and absolute validity (requirement P2): what has expired is never delivered, and is counted."""

from __future__ import annotations

import time

import pytest

import rtmw
from tests.bus import lifetime_of, taken

pytestmark = pytest.mark.usefixtures("domain")

SHORT = 0.03


def test_an_expired_message_is_never_delivered_and_is_counted() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"short", lifetime=SHORT)
    publisher.publish(b"long", lifetime=3600)
    publisher.publish(b"for ever")
    time.sleep(2 * SHORT)
    assert taken(subscriber) == [b"long", b"for ever"]
    stats = subscriber.stats()
    assert (stats.received, stats.expired, stats.missed, stats.waiting) == (2, 1, 0, 0)


def test_a_lifetime_of_0_expires_at_once() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x", lifetime=0)
    assert subscriber.take() is None
    assert subscriber.stats().expired == 1


def test_a_publisher_has_a_lifetime_and_a_message_may_have_another() -> None:
    publisher, subscriber = rtmw.Publisher("t", lifetime=100), rtmw.Subscriber("t")
    publisher.publish(b"own")
    publisher.publish(b"none is the publisher's", lifetime=None)
    publisher.publish(b"another", lifetime=200)
    publisher.publish(b"expired", lifetime=0)
    publisher.publish_many([b"many"])
    lifetimes = {sample.value: lifetime_of(sample) for sample in subscriber.take_many(9)}
    assert lifetimes == {b"own": 100, b"none is the publisher's": 100, b"another": 200, b"many": 100}


def test_valid_until_is_an_absolute_time() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    future = time.time() + 3600
    publisher.publish(b"future", valid_until=future)
    publisher.publish(b"past", valid_until=time.time() - 1)
    publisher.publish(b"long past", valid_until=1)
    (sample,) = subscriber.take_many(9)
    assert sample.value == b"future"
    assert sample.expires_ns is not None
    assert abs(sample.expires_ns - future * 1e9) < 1e8  # converted twice, by clocks that are read one after the other
    assert subscriber.stats().expired == 2


def test_valid_until_in_the_future_expires_when_it_is_there() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x", valid_until=time.time() + SHORT)
    time.sleep(2 * SHORT)
    assert subscriber.take() is None
    assert subscriber.stats().expired == 1


def test_valid_until_0_is_long_past() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"1970", valid_until=0)
    assert subscriber.take() is None
    assert subscriber.stats().expired == 1


@pytest.mark.parametrize(("lifetime", "until", "lives"), [(0, 3600, False), (3600, -1, False), (3600, 3600, True)])
def test_of_lifetime_and_valid_until_the_earlier_counts(lifetime: float, until: float, lives: bool) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x", lifetime=lifetime, valid_until=time.time() + until)
    assert taken(subscriber) == ([b"x"] if lives else [])


def test_a_very_long_lifetime_is_for_ever() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    for lifetime in (1e9, 1e12, 1e300, float("inf")):
        publisher.publish(b"x", lifetime=lifetime)
        publisher.publish(b"x", valid_until=lifetime)
    assert len(taken(subscriber)) == 7, "only 1e9 as an absolute time is past: September 2001"


def test_a_sample_taken_in_time_stays_readable_after_it_has_expired() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x", lifetime=0.5)
    sample = subscriber.take()
    assert sample is not None
    assert sample.expires_ns is not None
    while time.time_ns() < sample.expires_ns:
        time.sleep(0.05)
    assert sample.value == b"x"


def test_expired_messages_do_not_count_as_received_by_a_waiting_reader() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x", lifetime=0)
    with pytest.raises(TimeoutError):
        subscriber.receive(0.02)
    assert subscriber.stats().expired == 1


def test_expired_messages_are_not_given_to_a_late_subscriber() -> None:
    publisher = rtmw.Publisher("t", history=10)
    publisher.publish(b"expired", lifetime=0)
    publisher.publish(b"valid")
    assert taken(rtmw.Subscriber("t", history=10)) == [b"valid"]


def test_expired_messages_are_evicted_before_live_ones(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t", depth=100), rtmw.Subscriber("t", depth=100)
    megabyte = 1 << 20
    for number in range(4):
        publisher.publish(b"%d" % number * megabyte, priority=0)
    for _ in range(4):
        publisher.publish(b"e" * megabyte, priority=7, lifetime=0)
    for number in range(4, 7):  # the pool of 8 MiB is full: each needs the room of another
        assert publisher.publish(b"%d" % number * megabyte, priority=0)
    assert [sample.data[0] for sample in subscriber.take_many(99)] == [ord("0") + number for number in range(7)]
