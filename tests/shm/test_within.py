"""What lies in a queue behind a message that a RELIABLE subscriber needs: what of it keeps no memory from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from tests.bus import Order, Reading, eventually, taken

RELIABLE, ADAPTIVE, TIMELY = Reliability.RELIABLE, Reliability.ADAPTIVE, Reliability.TIMELY
POOL = 1 << 20
BLOCK = 32 * 1024
BLOCKS = POOL // BLOCK
DESCRIPTORS = 1024
AT_ONCE = 1e-9
"""A lifetime that is over when the message is in its queue."""
DEEP = 10_000
HOUR = 3600.0


@pytest.fixture(autouse=True)
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """A domain that is soon full, all of it open to every priority."""
    with rtmw.Domain(domain_id, pool=POOL, reserve=0) as attached:
        yield attached


def reliable(topic: str = "t", **settings: Any) -> rtmw.Publisher[bytes]:
    """A publisher that is told at once when there is no room."""
    return rtmw.Publisher(topic, reliability=RELIABLE, max_blocking=0, **settings)


def numbered(number: int, size: int = BLOCK) -> bytes:
    return number.to_bytes(8, "little") + bytes(size - 8)


def numbers(values: list[bytes]) -> list[int]:
    return [int.from_bytes(value[:8], "little") for value in values]


def published(publisher: rtmw.Publisher[bytes], value: bytes, **qos: Any) -> None:
    """A publisher that is refused tries again: one call does a bounded amount of work."""
    eventually(lambda: publisher.publish(value, **qos))


def publish_to_another_topic(count: int = BLOCKS - 4, **qos: Any) -> None:
    """As many as there is room for if nothing but a few messages stays on topic t."""
    reader, publisher = rtmw.Subscriber("elsewhere", reliability=RELIABLE, depth=DEEP), reliable("elsewhere", **qos)
    for number in range(count):
        published(publisher, numbered(number))
    assert numbers(taken(reader)) == list(range(count))


# Thinned


# Proves G63.
def test_what_an_interval_leaves_out_keeps_no_memory_from_others() -> None:
    hung = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP, min_interval=HOUR)
    publisher = reliable()
    for number in range(3 * BLOCKS):
        assert publisher.publish(numbered(number)), number
    publish_to_another_topic()
    assert numbers(taken(hung)) == [0]
    assert (hung.stats().thinned, hung.stats().missed, hung.stats().expired) == (3 * BLOCKS - 1, 0, 0)


# Proves G65.
def test_a_subscriber_that_hung_gets_what_one_with_its_interval_got_that_did_not() -> None:
    interval = 0.02
    hung, lively = (rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP, min_interval=interval) for _ in range(2))
    publisher, got, number = reliable(), [], 0
    while len(got) < BLOCKS // 2 and number < DESCRIPTORS * 3 // 4:
        published(publisher, numbered(number))
        number += 1
        got += numbers(taken(lively))
    assert numbers(taken(hung)) == got
    assert (hung.stats().thinned, hung.stats().missed) == (number - len(got), 0)


def test_what_an_interval_leaves_out_behind_a_message_that_was_taken_goes_too() -> None:
    hung = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP, min_interval=HOUR)
    publisher = reliable()
    assert publisher.publish(b"first")
    assert taken(hung) == [b"first"]
    for number in range(3 * BLOCKS):
        assert publisher.publish(numbered(number)), number
    assert taken(hung) == []
    assert (hung.stats().thinned, hung.stats().missed) == (3 * BLOCKS, 0)


# Proves G63.
def test_what_an_interval_leaves_out_of_several_priorities_goes_too() -> None:
    """Whichever it takes first, the subscriber takes no other one within the hour."""
    subscriber = hung(min_interval=HOUR)
    publisher = reliable()
    assert publisher.publish(b"low", priority=0)
    assert publisher.publish(b"high", priority=7)
    for number in range(3 * BLOCKS):
        assert publisher.publish(numbered(number), priority=number % 8), number
    publish_to_another_topic(BLOCKS - 16, priority=7)  # of each priority the first and the last message stay
    assert taken(subscriber) == [b"high"]
    assert (subscriber.stats().thinned, subscriber.stats().missed) == (3 * BLOCKS + 1, 0)


INTERVAL_NS = 5_000_000
UNSURE_NS = 50_000
"""The times that samples show may differ by so much from those that the core compares."""


def assert_let_through(got: list[int], in_order: list[tuple[int, int]], accepted: int) -> None:
    """What is got of the messages in the order in which they are taken is what the interval lets through."""
    left = iter(got)
    following = next(left, None)
    for number, at in in_order:
        if number == following:
            assert at >= accepted + INTERVAL_NS - UNSURE_NS, number
            accepted, following = at, next(left, None)
        else:
            assert at < accepted + INTERVAL_NS + UNSURE_NS, number
    assert following is None


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("priorities", [(0, 7), (7, 0), (0, 3, 5), (5, 5, 1, 6)])
# Proves G65.
def test_of_several_priorities_a_subscriber_that_hung_gets_what_its_interval_lets_through(
    priorities: tuple[int, ...], before: int
) -> None:
    hangs, viewer, publisher = hung(min_interval=INTERVAL_NS / 1e9), rtmw.Subscriber("t"), reliable()
    accepted, seen = 0, list[tuple[int, int, int]]()
    for number in range(DESCRIPTORS // 2):
        if seen and seen[-1][2] > seen[0][2] + 10 * INTERVAL_NS:  # more might need more than there is
            break
        size, priority = 8 if number < before else BLOCK // 4, priorities[number % len(priorities)]
        published(publisher, numbered(number, size), priority=priority)
        at = next((sample.source_time_ns, sample.priority) for sample in viewer.take_many(DEEP))
        if number >= before:
            seen.append((-at[1], number, at[0]))
        for sample in hangs.take_many(DEEP) if number < before else ():
            accepted = sample.source_time_ns
    received = hangs.stats().received
    got = numbers(taken(hangs))
    assert_let_through(got, [(number, time) for _, number, time in sorted(seen)], accepted)
    assert (hangs.stats().received - received, hangs.stats().missed) == (len(got), 0)


@pytest.mark.parametrize("readers", [9, 32])
# Proves G63.
def test_what_the_intervals_of_many_subscribers_leave_out_keeps_no_memory_from_others(readers: int) -> None:
    seldom = [hung(min_interval=HOUR) for _ in range(readers)]
    publisher = reliable()
    for number in range(3 * BLOCKS):
        published(publisher, numbered(number))
    publish_to_another_topic()
    assert [numbers(taken(reader)) for reader in seldom] == [[0]] * readers


def test_a_subscriber_with_an_interval_beside_one_that_hangs_without_loses_nothing() -> None:
    seldom = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP, min_interval=HOUR)
    all_of_it = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP)
    publisher, count = reliable(), 0
    while publisher.publish(numbered(count)):
        count += 1
    assert numbers(taken(all_of_it)) == list(range(count))
    assert numbers(taken(seldom)) == [0]


# Expired


@pytest.mark.parametrize("priority", [0, 5])
# Proves G63.
def test_what_has_expired_behind_a_message_that_is_needed_gives_way(priority: int) -> None:
    hung, publisher = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP), reliable()
    assert publisher.publish(b"needed", priority=priority)
    for number in range(3 * BLOCKS):
        published(publisher, numbered(number), priority=priority, lifetime=AT_ONCE)
    publish_to_another_topic()
    assert taken(hung) == [b"needed"]
    assert (hung.stats().expired, hung.stats().missed) == (3 * BLOCKS, 0)


def test_what_expires_while_it_lies_behind_one_that_is_needed_gives_way_then() -> None:
    hung, publisher = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP), reliable()
    assert publisher.publish(b"needed")
    for number in range(BLOCKS - 1):
        assert publisher.publish(numbered(number), lifetime=0.2)
    publish_to_another_topic()
    got = taken(hung)
    assert got[0] == b"needed"
    assert (hung.stats().expired, hung.stats().missed) == (BLOCKS - len(got), 0), "the newest may live yet"


# Floods


def test_a_flood_behind_a_message_that_is_needed_gives_way() -> None:
    hung, publisher = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP), reliable()
    viewer, flood = rtmw.Subscriber("t", depth=DEEP), rtmw.Publisher("t", reliability=TIMELY)
    assert publisher.publish(b"needed")
    for number in range(3 * BLOCKS):
        assert flood.publish(numbered(number))
    assert publisher.publish(b"too")
    publish_to_another_topic(priority=1)
    assert taken(hung) == [b"needed", b"too"]
    assert (hung.stats().unmatched, hung.stats().missed) == (3 * BLOCKS, 0)
    got = len(taken(viewer)) - 2
    assert viewer.stats().missed == 3 * BLOCKS - got > 0


# Proves G63.
def test_a_flood_gives_way_also_where_a_topic_has_more_offers_than_are_counted_apart() -> None:
    offers = [rtmw.Publisher("t", kind, reliability=TIMELY) for kind in (Reading, Order)]
    hung, publisher = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP), reliable()
    assert offers[0].publish(Reading("A1", 1.0))
    assert offers[1].publish(Order("1"))
    assert rtmw.Publisher("t", Order, reliability=ADAPTIVE).publish(Order("2"))
    flood = rtmw.Publisher("t", reliability=TIMELY)
    for number in range(3 * BLOCKS):
        assert flood.publish(numbered(number))
    assert publisher.publish(b"needed")
    for number in range(3 * BLOCKS):
        assert flood.publish(numbered(number))
    publish_to_another_topic()
    assert taken(hung) == [b"needed"]
    assert (hung.stats().unmatched, hung.stats().other_types, hung.stats().missed) == (6 * BLOCKS, 3, 0)


# Descriptors: a message stays in its queue as one, so a queue that is mostly for nobody ends before it has all of them

Floods = Callable[[], tuple[rtmw.Subscriber[bytes], rtmw.Publisher[Any], Any]]


def hung(**settings: Any) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP, **settings)


def reliable_orders() -> rtmw.Publisher[Order]:
    return rtmw.Publisher("t", Order, reliability=RELIABLE, max_blocking=0)


floods = pytest.mark.parametrize(
    "begin",
    [
        lambda: (hung(), rtmw.Publisher("t", reliability=TIMELY), b"x"),
        lambda: (hung(), rtmw.Publisher("t", reliability=ADAPTIVE), bytes(200)),
        lambda: (hung(), reliable_orders(), Order("1")),
        lambda: (hung(), reliable(lifetime=AT_ONCE), b"x"),
        lambda: (hung(min_interval=HOUR), reliable(), b"x"),
    ],
    ids=["TIMELY", "ADAPTIVE with blocks", "another type", "expired", "thinned"],
)


@floods
# Proves G64.
def test_a_flood_behind_a_message_that_is_needed_leaves_descriptors_to_others(begin: Floods) -> None:
    subscriber, flood, value = begin()
    assert reliable().publish(b"needed")
    accepted = sum(flood.publish(value) for _ in range(2 * DESCRIPTORS))
    assert accepted <= DESCRIPTORS * 15 // 16
    reader, other = rtmw.Subscriber("elsewhere", reliability=RELIABLE, depth=DEEP), reliable("elsewhere")
    for number in range(DESCRIPTORS // 16):
        assert other.publish(number.to_bytes(8, "little")), number
    assert numbers(taken(reader)) == list(range(DESCRIPTORS // 16))
    assert taken(subscriber) == [b"needed"]
    assert subscriber.stats().missed == 0
    assert flood.publish(value), "nobody hangs there any more"


def test_what_a_reliable_subscriber_needs_may_have_all_descriptors() -> None:
    subscriber, publisher, accepted = hung(), reliable(), 0
    while publisher.publish(accepted.to_bytes(8, "little")):
        accepted += 1
    assert accepted == DESCRIPTORS
    assert numbers(taken(subscriber)) == list(range(accepted))


def test_what_is_needed_may_have_all_descriptors_behind_as_many_that_are_not() -> None:
    """Half of the queue is for nobody, and no more."""
    subscriber, publisher, flood = hung(), reliable(), rtmw.Publisher("t", reliability=TIMELY)
    assert publisher.publish(b"needed")
    accepted = 1
    while publisher.publish(b"too"):
        accepted += 1
        if accepted % 2 == 0 and accepted < DESCRIPTORS // 2:
            assert flood.publish(b"x")
    assert accepted >= DESCRIPTORS * 3 // 4 - 1
    assert taken(subscriber) == [b"needed"] + [b"too"] * (accepted - 1)


# Proves G64.
def test_a_flood_is_not_refused_while_a_lower_priority_holds_what_may_go() -> None:
    idle, low = rtmw.Subscriber("low", depth=DEEP), rtmw.Publisher("low")
    for _ in range(DESCRIPTORS):
        assert low.publish(b"x")
    subscriber, flood = hung(), rtmw.Publisher("t", reliability=TIMELY, priority=7)
    assert reliable(priority=7).publish(b"needed")
    for number in range(DESCRIPTORS * 3 // 4):
        assert flood.publish(b"x"), number
    assert taken(subscriber) == [b"needed"]
    assert idle.stats().missed > 0


def test_a_publisher_that_waits_for_a_queue_that_is_mostly_for_nobody_goes_on_when_its_subscriber_does() -> None:
    subscriber, flood = hung(), rtmw.Publisher("t", reliability=TIMELY)
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=60)
    assert publisher.publish(b"needed")
    while flood.publish(b"x"):
        pass
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(publisher.publish, b"too")
        with pytest.raises(TimeoutError):
            answer.result(0.3)
        assert taken(subscriber)[0] == b"needed"
        assert answer.result(60)


# What stays


def test_what_a_publisher_promised_to_keep_stays_behind_a_message_that_is_needed() -> None:
    hung, publisher = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP), reliable()
    assert publisher.publish(b"needed")
    keeper = rtmw.Publisher("t", reliability=ADAPTIVE, history=4)
    for number in range(8):
        assert keeper.publish(numbered(number))
    other, count = reliable("elsewhere"), 0
    reader = rtmw.Subscriber("elsewhere", reliability=RELIABLE, depth=DEEP)
    while other.publish(numbered(count)):
        count += 1
    late = rtmw.Subscriber("t", depth=DEEP, history=4)
    assert numbers(taken(late)) == [4, 5, 6, 7]
    assert count == BLOCKS - 4
    assert (taken(hung), len(taken(reader))) == ([b"needed"], count)


def test_a_sample_that_is_kept_behind_a_message_that_is_needed_stays_as_it_is() -> None:
    hung, publisher = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP), reliable()
    viewer, flood = rtmw.Subscriber("t"), rtmw.Publisher("t", reliability=TIMELY)
    assert publisher.publish(b"needed")
    assert flood.publish(numbered(1))
    kept = viewer.take_many(DEEP)[-1]
    for number in range(2, BLOCKS):
        assert flood.publish(numbered(number))
    publish_to_another_topic(priority=1)
    assert bytes(kept.data) == numbered(1)
    assert taken(hung) == [b"needed"]
