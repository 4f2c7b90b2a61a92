"""Admission (requirements P2, P3, P5): what may enter a full queue or a full pool, and what gives way to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from tests.bus import Order, Reading, taken

RELIABLE, ADAPTIVE, TIMELY = Reliability.RELIABLE, Reliability.ADAPTIVE, Reliability.TIMELY
POOL = 1 << 20
BLOCK = 32 * 1024
BLOCKS = POOL // BLOCK
DESCRIPTORS = 1024
AT_ONCE = 1e-9
"""A lifetime that is over when the message is in its queue."""
DEEP = 10_000

sizes = pytest.mark.parametrize("size", [8, BLOCK], ids=["descriptors", "pool"])


@pytest.fixture(autouse=True)
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """A domain that is soon full, all of it open to every priority."""
    with rtmw.Domain(domain_id, pool=POOL, reserve=0) as attached:
        yield attached


def room_for(size: int) -> int:
    """Messages of this size that fill the domain."""
    return DESCRIPTORS if size < 256 else POOL // size


def publish_all(publisher: rtmw.Publisher[bytes], count: int, size: int = 8, **qos: Any) -> None:
    for number in range(count):
        assert publisher.publish(number.to_bytes(8, "little") + bytes(size - 8), **qos), number


def fill(publisher: rtmw.Publisher[bytes], size: int, **qos: Any) -> int:
    """Publishes until the publisher is refused; how many."""
    count = 0
    while publisher.publish(bytes(size), **qos):
        count += 1
    return count


# Depth counts what the subscriber will get


# Proves G59.
def test_a_reliable_queue_that_holds_only_expired_messages_is_empty() -> None:
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=5)
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    publish_all(publisher, 5, lifetime=AT_ONCE)
    assert publisher.publish(b"new")
    assert taken(subscriber) == [b"new"]
    assert (subscriber.stats().expired, subscriber.stats().missed) == (5, 0)


def test_expired_messages_do_not_count_among_those_that_have_not() -> None:
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=5)
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    for lifetime in (None, AT_ONCE, None, AT_ONCE, None):
        assert publisher.publish(b"x", lifetime=lifetime)
    assert [publisher.publish(b"x") for _ in range(4)] == [True, True, False, False]
    assert len(taken(subscriber)) == 5


# Proves G59.
def test_messages_that_are_not_matched_with_a_reliable_subscriber_do_not_fill_its_depth() -> None:
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=5)
    unmatched = rtmw.Publisher("t", reliability=ADAPTIVE)
    reliable = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    publish_all(unmatched, 100)
    assert [reliable.publish(b"r") for _ in range(6)] == [True] * 5 + [False]
    assert taken(subscriber) == [b"r"] * 5
    assert subscriber.stats().unmatched == 100


def test_messages_of_another_type_do_not_fill_the_depth_of_a_reliable_subscriber() -> None:
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=5)
    others = rtmw.Publisher("t", Reading, reliability=RELIABLE, max_blocking=0)
    reliable = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    assert others.publish_many([Reading("A1", 1.0)] * 100) == 100
    assert [reliable.publish(b"r") for _ in range(6)] == [True] * 5 + [False]
    assert taken(subscriber) == [b"r"] * 5
    assert subscriber.stats().other_types == 100


def test_messages_that_will_be_thinned_do_not_fill_the_depth_of_a_reliable_subscriber() -> None:
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=5, min_interval=1000)
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    publish_all(publisher, 100)
    assert len(taken(subscriber)) == 1
    assert subscriber.stats().thinned == 99


def test_messages_of_another_type_do_not_push_out_those_of_a_timely_subscriber() -> None:
    subscriber = rtmw.Subscriber("t", Order, reliability=TIMELY, depth=4)
    orders, readings = rtmw.Publisher("t", Order), rtmw.Publisher("t", Reading)
    assert orders.publish(Order("1"))
    assert readings.publish_many([Reading("A1", 1.0)] * 10) == 10
    assert [sample.value for sample in subscriber.take_many(DEEP)] == [Order("1")]
    assert (subscriber.stats().missed, subscriber.stats().other_types) == (0, 10)


@pytest.mark.parametrize("offers", [4, 6])
def test_depth_is_right_also_where_a_topic_has_more_kinds_of_offers_than_are_counted_apart(offers: int) -> None:
    ends: list[rtmw.Publisher[Any]] = [
        rtmw.Publisher("t", type, reliability=reliability)
        for type in (Reading, Order)
        for reliability in (TIMELY, ADAPTIVE, RELIABLE)
    ]
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=5)
    for end in ends[: offers - 1]:
        value = Reading("A1", 1.0) if end.type.name == "Reading" else Order("1")
        assert end.publish(value)
    reliable = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    answers = [reliable.publish(b"r") for _ in range(6)]
    assert answers.count(True) <= 5
    assert taken(subscriber) == [b"r"] * answers.count(True), "what is counted together may count too early"
    assert reliable.publish(b"r")


# What nobody can receive pins nothing


Floods = Callable[[], rtmw.Publisher[Any]]
large = Order("x" * BLOCK)


@pytest.mark.parametrize(
    ("flooding", "value", "lifetime"),
    [
        (lambda: rtmw.Publisher("t", reliability=TIMELY), bytes(BLOCK), None),
        (lambda: rtmw.Publisher("t", reliability=ADAPTIVE), bytes(BLOCK), None),
        (lambda: rtmw.Publisher("t", Order, reliability=RELIABLE, max_blocking=0), large, None),
        (lambda: rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0), bytes(BLOCK), AT_ONCE),
    ],
    ids=["TIMELY", "ADAPTIVE", "another type", "expired"],
)
# Proves G62.
def test_a_flood_that_a_reliable_subscriber_never_gets_keeps_no_memory_from_others(
    flooding: Floods, value: Any, lifetime: float | None
) -> None:
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP)
    reliable = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    flood, elsewhere = flooding(), rtmw.Publisher("elsewhere")
    for _ in range(3 * BLOCKS):
        assert flood.publish(value, lifetime=lifetime)
    for _ in range(BLOCKS):
        assert elsewhere.publish(bytes(BLOCK))
    assert reliable.publish(b"r")
    assert taken(subscriber) == [b"r"]
    stats = subscriber.stats()
    assert stats.missed == 0
    assert stats.unmatched + stats.other_types + stats.expired == 3 * BLOCKS


# What gives way


@pytest.fixture(params=["bytes", "another type", "any type", "timely", "deep"])
def viewer(request: pytest.FixtureRequest) -> rtmw.Subscriber[Any]:
    """A subscriber that never takes anything."""
    viewers: dict[str, Callable[[], rtmw.Subscriber[Any]]] = {
        "bytes": lambda: rtmw.Subscriber("camera"),
        "another type": lambda: rtmw.Subscriber("camera", Reading),
        "any type": lambda: rtmw.Subscriber("camera", rtmw.ANY),
        "timely": lambda: rtmw.Subscriber("camera", reliability=TIMELY),
        "deep": lambda: rtmw.Subscriber("camera", depth=DEEP),
    }
    return viewers[request.param]()


@sizes
@pytest.mark.parametrize("alarm_size", [8, 200])
# Proves G52.
def test_a_viewer_that_hangs_keeps_no_alarm_out(viewer: rtmw.Subscriber[Any], size: int, alarm_size: int) -> None:
    camera, alarms = rtmw.Publisher("camera"), rtmw.Publisher("alarm", priority=7)
    publish_all(camera, 3 * room_for(size), size)
    subscriber = rtmw.Subscriber("alarm", depth=200)
    publish_all(alarms, 200, alarm_size)
    assert len(taken(subscriber)) == 200
    assert subscriber.stats().missed == 0
    assert viewer.stats().received == 0


@sizes
# Proves G54.
def test_the_oldest_of_the_lowest_priority_of_any_topic_goes_first(size: int) -> None:
    subscribers = {name: rtmw.Subscriber(name, depth=DEEP) for name in ("low", "middle", "high")}
    room = room_for(size)
    publish_all(rtmw.Publisher("middle", priority=2), room * 5 // 8, size)
    publish_all(rtmw.Publisher("low", priority=1), room // 4, size)
    publish_all(rtmw.Publisher("high", priority=3), room // 4, size)
    missed = {name: subscriber.stats().missed for name, subscriber in subscribers.items()}
    assert 0 < missed["low"] <= room * 3 // 16, missed
    assert (missed["middle"], missed["high"]) == (0, 0)
    got = [int.from_bytes(value[:8], "little") for value in taken(subscribers["low"])]
    assert got == list(range(room // 4 - len(got), room // 4)), "the newest are left"


@sizes
# Proves G54.
def test_no_publisher_is_refused_while_a_lower_priority_holds_what_may_go(size: int) -> None:
    subscribers = [rtmw.Subscriber(f"t/{priority}", depth=DEEP) for priority in range(8)]
    count = room_for(size) - 16
    for priority in range(8):
        publish_all(rtmw.Publisher(f"t/{priority}", priority=priority), count, size)
        assert subscribers[priority].stats().missed == 0
    for subscriber in subscribers:
        got = len(taken(subscriber))
        assert subscriber.stats().missed == count - got


# Proves G54.
def test_a_crowd_of_topics_that_all_have_a_right_to_what_they_hold_gives_way_to_what_is_urgent() -> None:
    """A search for what is spare looks at more topics than one call may, and finds nothing."""
    topics = 100
    readers = [rtmw.Subscriber(f"t/{number}") for number in range(topics)]
    crowd = [rtmw.Publisher(f"t/{number}") for number in range(topics)]
    for _ in range(DESCRIPTORS // topics + 1):
        for publisher in crowd:
            assert publisher.publish(bytes(8))
    urgent = rtmw.Subscriber("urgent", depth=DEEP)
    count = DESCRIPTORS - 3 * topics
    publish_all(rtmw.Publisher("urgent", priority=7), count)
    assert len(taken(urgent)) == count
    assert sum(reader.stats().missed for reader in readers) >= count


@sizes
def test_in_its_own_priority_a_publisher_takes_from_the_topic_that_holds_most(size: int) -> None:
    more, fewer, _mine = (rtmw.Subscriber(name, depth=DEEP) for name in ("more", "fewer", "mine"))
    room = room_for(size)
    publish_all(rtmw.Publisher("fewer"), room // 4, size)
    publish_all(rtmw.Publisher("more"), room * 3 // 4, size)
    publish_all(rtmw.Publisher("mine"), room // 4, size)
    assert fewer.stats().missed == 0
    assert more.stats().missed > 0


@sizes
def test_equals_leave_each_other_alone_and_take_from_themselves(size: int) -> None:
    other, mine = (rtmw.Subscriber(name, depth=DEEP) for name in ("other", "mine"))
    room = room_for(size)
    publish_all(rtmw.Publisher("other"), room // 2, size)
    publish_all(rtmw.Publisher("mine"), room * 2, size)
    assert len(taken(other)) >= room // 4
    assert len(taken(mine)) >= room // 4
    assert mine.stats().missed >= room


@sizes
# Proves G57.
def test_what_has_expired_goes_before_all_that_has_not_whatever_its_priority(size: int) -> None:
    expired, low, other = (rtmw.Subscriber(name, depth=DEEP) for name in ("expired", "low", "other"))
    room = room_for(size)
    publish_all(rtmw.Publisher("low"), room // 2, size)
    publish_all(rtmw.Publisher("expired", priority=6), room // 2 - 4, size, lifetime=AT_ONCE)
    publish_all(rtmw.Publisher("other"), room // 4, size)
    assert taken(expired) == []
    assert (len(taken(low)), len(taken(other))) == (room // 2, room // 4)


DEPTHS = (("idle", 4), ("low", DEEP), ("other", DEEP))


# Proves G57.
def test_what_is_over_its_own_depth_goes_before_what_is_not_whatever_its_priority() -> None:
    idle, low, other = (rtmw.Subscriber(name, depth=depth) for name, depth in DEPTHS)
    publish_all(rtmw.Publisher("low"), BLOCKS // 2, BLOCK)
    publish_all(rtmw.Publisher("idle", priority=6), BLOCKS // 2 - 2, BLOCK)
    publish_all(rtmw.Publisher("other"), BLOCKS // 4, BLOCK)
    assert len(taken(idle)) >= 4
    assert (len(taken(low)), len(taken(other))) == (BLOCKS // 2, BLOCKS // 4)


def test_expired_messages_behind_none_that_is_needed_go_also_from_a_reliable_subscriber() -> None:
    subscriber, other = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP), rtmw.Subscriber("other", depth=DEEP)
    reliable = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    publish_all(reliable, BLOCKS - 1, BLOCK, lifetime=AT_ONCE)
    assert reliable.publish(bytes(BLOCK))
    publish_all(rtmw.Publisher("other"), BLOCKS // 2, BLOCK)
    assert subscriber.stats().missed == 0
    assert subscriber.stats().expired > 0, "counted at once, without a take"
    assert len(taken(other)) == BLOCKS // 2
    assert len(taken(subscriber)) == 1
    assert subscriber.stats().expired == BLOCKS - 1


def test_no_urgent_message_evicts_what_a_reliable_subscriber_has_not_read() -> None:
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP)
    count = fill(rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0), BLOCK)
    urgent = rtmw.Publisher("urgent", priority=7)
    assert not urgent.publish(bytes(BLOCK))
    assert urgent.stats().exhausted == 1
    assert len(taken(subscriber)) == count
    assert urgent.publish(bytes(BLOCK)), "what has been read may go"


# Each drop is counted for whom it happened to


# Proves G69.
def test_an_evicted_message_is_counted_at_once_and_for_those_alone_who_had_not_read_it() -> None:
    behind, reader = rtmw.Subscriber("t", depth=DEEP), rtmw.Subscriber("t", depth=DEEP)
    other_type, urgent = rtmw.Subscriber("t", Reading), rtmw.Subscriber("urgent", depth=DEEP)
    publish_all(rtmw.Publisher("t"), BLOCKS, BLOCK)
    assert len(taken(reader)) == BLOCKS
    publish_all(rtmw.Publisher("urgent", priority=7), BLOCKS // 2, BLOCK)
    missed = behind.stats().missed
    assert BLOCKS // 2 - 1 <= missed <= BLOCKS // 2 + 8
    assert behind.stats().waiting == BLOCKS - missed
    assert [each.stats().missed for each in (reader, other_type, urgent)] == [0, 0, 0]
    assert len(taken(behind)) == BLOCKS - missed
    assert behind.stats().missed == missed, "counted once"


# Proves G69.
def test_the_refusals_of_a_publisher_are_counted_by_cause() -> None:
    full = rtmw.Subscriber("t", reliability=RELIABLE, depth=1)
    publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
    assert [publisher.publish(b"x") for _ in range(3)] == [True, False, False]
    assert (publisher.stats().timed_out, publisher.stats().exhausted) == (2, 0)
    taken(full)
    loan = rtmw.Publisher("loan").loan(POOL)
    assert not publisher.publish(bytes(BLOCK))
    assert (publisher.stats().timed_out, publisher.stats().exhausted) == (2, 1)
    loan.drop()


# One that idles takes nothing from others


# Proves G58.
def test_an_idle_subscriber_of_one_topic_costs_others_no_message_on_theirs() -> None:
    idle, idle_publisher = rtmw.Subscriber("idle"), rtmw.Publisher("idle")
    reader, publisher = rtmw.Subscriber("busy"), rtmw.Publisher("busy")
    publish_all(idle_publisher, 3 * DESCRIPTORS)
    for _ in range(20):
        for _ in range(10):
            publish_all(publisher, 20)
            publish_all(idle_publisher, 5)
        assert len(taken(reader)) == 200
    assert reader.stats().missed == 0
    assert idle.stats().missed > 0
