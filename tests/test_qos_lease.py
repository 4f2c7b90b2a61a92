"""The lease of a RELIABLE subscriber (requirement P5): who stands still while a publisher waits stops counting."""

from __future__ import annotations

import threading
import time

import pytest

import rtmw
from rtmw import Reliability
from tests.bus import LONG, numbered, numbers, publish_all, taken

pytestmark = pytest.mark.usefixtures("domain")

RELIABLE = Reliability.RELIABLE


def test_a_subscriber_that_stands_still_for_its_lease_stops_counting_and_is_told() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=2, lease=0.1)
    publish_all(publisher, numbered(2))
    begin = time.monotonic()
    assert publisher.publish(b"0000000002"), "it goes on without the subscriber"
    assert time.monotonic() - begin >= 0.09
    assert publisher.subscribers == 0
    with pytest.raises(rtmw.LeaseExpired, match="lease") as raised:
        subscriber.take()
    assert raised.value.missed == subscriber.stats().missed
    assert numbers(subscriber) == [0, 1, 2][raised.value.missed :]
    assert subscriber.stats().lapses == 1
    assert publisher.subscribers == 1, "and is counted on again"


def test_what_a_lapsed_subscriber_missed_is_counted_exactly(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, depth=4, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=2, lease=0.05)
    count = 200
    publish_all(publisher, numbered(count, 20_000))
    with pytest.raises(rtmw.LeaseExpired) as raised:
        subscriber.receive(LONG)
    missed = raised.value.missed
    assert 0 < missed < count
    assert numbers(subscriber) == list(range(missed, count))
    assert (subscriber.stats().missed, subscriber.stats().received) == (missed, count - missed)


def test_a_lease_of_0_is_refused_and_the_shortest_one_is_not_for_ever() -> None:
    with pytest.raises(ValueError, match="lease=0 is not possible; it must be seconds above 0"):
        rtmw.Subscriber("t", reliability=RELIABLE, lease=0)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1, lease=1e-12)
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=LONG)
    assert publisher.publish_many([b"1", b"2"]) == 2
    with pytest.raises(rtmw.LeaseExpired):
        subscriber.take()


def test_a_lapsed_subscriber_goes_on_with_new_messages() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1, lease=0.05)
    for round in (1, 2):
        publish_all(publisher, [b"a", b"b"])
        with pytest.raises(rtmw.LeaseExpired):
            subscriber.take_many(5)
        taken(subscriber)
        assert publisher.publish(b"new")
        assert taken(subscriber) == [b"new"]
        assert subscriber.stats().lapses == round


def test_waiting_on_an_empty_queue_costs_no_lease() -> None:
    """A reader that waits on an empty queue does not stand still: no publisher waits for it."""
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0.01)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1, lease=0.05)
    with pytest.raises(TimeoutError):
        subscriber.receive(0.2)
    assert publisher.publish(b"x")
    assert subscriber.receive(LONG).value == b"x"
    assert subscriber.stats().lapses == 0


def test_without_a_lease_a_publisher_waits_for_as_long_as_max_blocking_says() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0.3)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1)
    publisher.publish(b"1")
    assert publisher.publish(b"2") is False
    assert publisher.subscribers == 1
    assert taken(subscriber) == [b"1"]
    assert subscriber.stats().lapses == 0


def test_a_subscriber_that_moves_slowly_keeps_its_lease() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1, lease=1.0)
    thread = threading.Thread(target=publish_all, args=(publisher, numbered(15)))
    thread.start()
    got: list[int] = []
    while len(got) < 15:
        time.sleep(0.1)
        got += numbers(subscriber)
    thread.join(LONG)
    assert got == list(range(15))
    assert subscriber.stats().lapses == 0


def test_a_lease_longer_than_max_blocking_runs_over_several_publishes() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0.02)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1, lease=0.1)
    publisher.publish(b"1")
    begin = time.monotonic()
    refused = 0
    while not publisher.publish(b"2"):
        refused += 1
        assert time.monotonic() - begin < LONG
    assert time.monotonic() - begin >= 0.09
    assert publisher.stats().timed_out == refused
    with pytest.raises(rtmw.LeaseExpired):
        subscriber.take()


# Proves G23.
def test_a_lease_does_not_run_from_one_wait_of_a_publisher_to_the_next() -> None:
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0.02)
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=1, lease=1.0)
    assert publisher.publish_many([b"1", b"2"]) == 1
    time.sleep(1.1)
    assert not publisher.publish(b"2")
    assert subscriber.stats().lapses == 0
