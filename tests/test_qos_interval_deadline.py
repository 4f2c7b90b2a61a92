"""Minimum interval and deadline (requirement P4)."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

import rtmw
from tests.bus import LONG, eventually, taken

pytestmark = pytest.mark.usefixtures("domain")


def due(every: rtmw.Subscriber[bytes], interval: float) -> list[bytes]:
    """What a subscriber with this interval gets, by the stamps of all that was published."""
    found: list[bytes] = []
    last_ns = float("-inf")
    for sample in every.take_many(1_000):
        if sample.source_time_ns >= last_ns + interval * 1e9:
            found.append(sample.value)
            last_ns = sample.source_time_ns
    return found


def publish_at_once_and_later(publisher: rtmw.Publisher[bytes], interval: float) -> None:
    """Five messages in a burst, then one after the interval."""
    publisher.publish_many([b"0", b"1", b"2", b"3", b"4"])
    time.sleep(interval)
    publisher.publish(b"5")


def test_after_a_message_nothing_is_received_until_the_interval_has_passed() -> None:
    publisher, every = rtmw.Publisher("t"), rtmw.Subscriber("t")
    subscriber = rtmw.Subscriber("t", min_interval=0.5)
    publish_at_once_and_later(publisher, 0.51)
    received = taken(subscriber)
    assert received == due(every, 0.5), "on a machine that does not stand still: 0 and 5"
    stats = subscriber.stats()
    assert (stats.received, stats.thinned, stats.missed, stats.waiting) == (len(received), 6 - len(received), 0, 0)


@pytest.mark.parametrize("take", ["take", "take_many"])
def test_one_take_passes_over_all_that_it_does_not_get_however_much_that_is(take: str) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", min_interval=1000, depth=10_000)
    subscriber.fileno()
    publisher.publish_many([b"x"] * 3000)
    assert subscriber.receive(LONG).value == b"x"
    assert not (subscriber.take() if take == "take" else subscriber.take_many(10))
    assert (subscriber.stats().thinned, subscriber.stats().waiting) == (2999, 0)


def test_an_interval_of_0_is_every_message() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", min_interval=0.0)
    publisher.publish_many([b"x"] * 50)
    assert len(taken(subscriber)) == 50
    assert subscriber.stats().thinned == 0


def test_the_interval_is_between_publications_however_late_they_are_taken() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", min_interval=0.03)
    for number in range(4):
        publisher.publish(b"%d" % number)
        time.sleep(0.04)
    assert taken(subscriber) == [b"0", b"1", b"2", b"3"]
    assert subscriber.stats().thinned == 0


def test_stamps_of_what_is_received_lie_apart_by_the_interval() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", min_interval=0.01, depth=1000)
    for _ in range(200):
        publisher.publish(b"x")
        time.sleep(0.0005)
    stamps = [sample.source_time_ns for sample in subscriber.take_many(1000)]
    gaps = [later - earlier for earlier, later in pairwise(stamps)]
    assert len(stamps) >= 2
    assert min(gaps) >= 10_000_000 - 100_000, "the wall clock is not the one that the interval is measured with"
    stats = subscriber.stats()
    assert (stats.received, stats.received + stats.thinned) == (len(stamps), 200)


def test_the_interval_thins_each_subscriber_on_its_own() -> None:
    publisher = rtmw.Publisher("t")
    thin, every = rtmw.Subscriber("t", min_interval=100), rtmw.Subscriber("t")
    publisher.publish_many([b"a", b"b", b"c"])
    assert taken(thin) == [b"a"]
    assert taken(every) == [b"a", b"b", b"c"]


def test_an_interval_without_end_is_one_message() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", min_interval=float("inf"))
    publisher.publish_many([b"a", b"b", b"c"])
    assert taken(subscriber) == [b"a"]
    assert subscriber.stats().thinned == 2


def test_expired_messages_do_not_begin_an_interval() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", min_interval=100)
    publisher.publish(b"expired", lifetime=0)
    publisher.publish(b"first")
    publisher.publish(b"second")
    assert taken(subscriber) == [b"first"]
    stats = subscriber.stats()
    assert (stats.received, stats.expired, stats.thinned) == (1, 1, 1)


def test_a_waiting_receive_gets_the_first_message_after_the_interval() -> None:
    publisher, every = rtmw.Publisher("t"), rtmw.Subscriber("t")
    subscriber = rtmw.Subscriber("t", min_interval=0.05)
    thread = threading.Thread(target=publish_at_once_and_later, args=(publisher, 0.06))
    thread.start()
    received = [subscriber.receive(LONG).value]
    while received[-1] != b"5":
        received.append(subscriber.receive(LONG).value)
    thread.join()
    assert received == due(every, 0.05), "on a machine that does not stand still: 0 and 5"


def test_the_deadline_passes_without_a_message() -> None:
    subscriber = rtmw.Subscriber("t", deadline=0.03)
    begin = time.monotonic()
    with pytest.raises(rtmw.DeadlineMissed, match="'t'"):
        subscriber.receive()
    assert time.monotonic() - begin >= 0.025
    assert subscriber.stats().deadlines_missed == 1


def test_a_missed_deadline_is_told_once_a_period() -> None:
    begin = time.monotonic()
    subscriber = rtmw.Subscriber("t", deadline=0.1)
    told = silent = 0
    while told < 3 and time.monotonic() < begin + LONG:
        try:
            subscriber.receive(timeout=0)
        except rtmw.DeadlineMissed:
            told += 1
            assert told * 0.1 <= time.monotonic() - begin
        except TimeoutError:
            silent += 1
    assert (told, subscriber.stats().deadlines_missed) == (3, 3)
    assert silent > 0


def test_a_missed_deadline_is_told_although_nobody_waited() -> None:
    subscriber = rtmw.Subscriber("t", deadline=0.02)
    time.sleep(0.05)
    with pytest.raises(rtmw.DeadlineMissed):
        subscriber.receive(timeout=0)


def test_a_message_begins_the_deadline_anew() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", deadline=0.3)
    begin = time.monotonic()
    longest = received = 0.0
    while received < 10:
        before = time.monotonic()
        time.sleep(0.05)
        publisher.publish(b"x")
        assert subscriber.receive().value == b"x"
        received += 1
        longest = max(longest, time.monotonic() - before)
    assert time.monotonic() - begin > 0.3, "it would not have passed anyway"
    assert subscriber.stats().deadlines_missed == 0 or longest > 0.3
    with pytest.raises(rtmw.DeadlineMissed):
        subscriber.receive()


def test_a_message_that_is_there_is_given_although_the_deadline_has_passed() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", deadline=0.01)
    time.sleep(0.03)
    publisher.publish(b"x")
    assert subscriber.receive().value == b"x"


def test_a_timeout_before_the_deadline_is_a_timeout() -> None:
    subscriber = rtmw.Subscriber("t", deadline=100)
    with pytest.raises(TimeoutError) as raised:
        subscriber.receive(timeout=0.01)
    assert not isinstance(raised.value, rtmw.RtmwError)
    assert subscriber.stats().deadlines_missed == 0


def test_messages_that_it_does_not_get_do_not_keep_the_deadline() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", deadline=0.05)
    stop = threading.Event()

    def expired() -> None:
        while not stop.wait(0.005):
            publisher.publish(b"x", lifetime=0)

    thread = threading.Thread(target=expired)
    thread.start()
    try:
        with pytest.raises(rtmw.DeadlineMissed):
            subscriber.receive(LONG)
    finally:
        stop.set()
        thread.join()


def test_take_does_not_raise_for_a_deadline() -> None:
    subscriber = rtmw.Subscriber("t", deadline=0.01)
    time.sleep(0.02)
    assert subscriber.take() is None


def test_iteration_raises_for_a_missed_deadline_and_goes_on() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", deadline=0.02)
    with pytest.raises(rtmw.DeadlineMissed):
        next(subscriber)
    publisher.publish(b"x")
    assert next(subscriber).value == b"x"


@pytest.mark.parametrize("deadline", [1e9, 1e12, float("inf")])
def test_a_very_long_deadline_is_not_missed(deadline: float) -> None:
    subscriber = rtmw.Subscriber("t", deadline=deadline)
    with pytest.raises(TimeoutError):
        subscriber.receive(timeout=0.01)
    assert subscriber.stats().deadlines_missed == 0


def test_threads_that_wait_on_one_subscriber_are_told_of_a_deadline_once() -> None:
    subscriber = rtmw.Subscriber("t", deadline=0.3)
    ends: list[type[Exception]] = []

    def wait() -> None:
        try:
            subscriber.receive(0.45)
        except (TimeoutError, rtmw.DeadlineMissed) as error:
            ends.append(type(error))

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    eventually(lambda: len(ends) == 4)
    assert ends.count(rtmw.DeadlineMissed) == subscriber.stats().deadlines_missed >= 1


# Proves G19.
def test_in_asyncio_it_looks_by_itself_after_a_quarter_of_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        later = loop.call_later
        monkeypatch.setattr(loop, "call_later", lambda delay, *call: (delays.append(delay), later(delay, *call))[1])
        task: asyncio.Task[Any] = asyncio.ensure_future(anext(rtmw.Subscriber("t", deadline=1.0)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    assert min(delays) <= 0.25
