"""History: what a subscriber that comes late gets of what was published before."""

from __future__ import annotations

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from tests.bus import Reading, taken

pytestmark = pytest.mark.usefixtures("domain")


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


@pytest.mark.parametrize("wanted", [1, 3, 10])
def test_a_late_subscriber_gets_the_last_messages_it_asks_for(wanted: int) -> None:
    publisher = rtmw.Publisher("t", history=10)
    publisher.publish_many(numbered(0, 50))
    assert taken(rtmw.Subscriber("t", history=wanted)) == numbered(50 - wanted, 50)


def test_without_history_it_gets_none() -> None:
    publisher = rtmw.Publisher("t", history=10)
    publisher.publish_many(numbered(0, 50))
    subscriber = rtmw.Subscriber("t")
    assert subscriber.take() is None
    assert subscriber.stats().missed == 0


def test_it_gets_what_there_is_when_it_asks_for_more() -> None:
    publisher = rtmw.Publisher("t", history=10)
    publisher.publish_many(numbered(0, 4))
    assert taken(rtmw.Subscriber("t", history=100)) == numbered(0, 4)
    assert taken(rtmw.Subscriber("nobody publishes here", history=100)) == []


def test_what_comes_after_it_follows_without_a_gap() -> None:
    publisher = rtmw.Publisher("t", history=5)
    publisher.publish_many(numbered(0, 20))
    subscriber = rtmw.Subscriber("t", history=5)
    publisher.publish_many(numbered(20, 25))
    assert taken(subscriber) == numbered(15, 25)
    assert subscriber.stats().missed == 0


@pytest.mark.parametrize("size", [10, 200, 100_000])
def test_the_history_of_a_publisher_is_kept_after_everybody_has_read_it(size: int) -> None:
    publisher, reader = rtmw.Publisher("t", history=5, depth=1), rtmw.Subscriber("t")
    for number in range(100):
        publisher.publish(b"%03d" % number + bytes(size - 3))
        assert reader.take() is not None
    late = rtmw.Subscriber("t", history=5)
    assert [bytes(sample.data[:3]) for sample in late.take_many(99)] == [b"%03d" % number for number in range(95, 100)]


def test_history_survives_want_of_memory() -> None:
    publisher = rtmw.Publisher("t", history=2)
    publisher.publish_many([b"kept 1", b"kept 2"])
    other = rtmw.Publisher("other")
    for _ in range(30):
        assert other.publish(bytes(1 << 20))
    assert taken(rtmw.Subscriber("t", history=2)) == [b"kept 1", b"kept 2"]


def test_small_messages_stay_up_to_the_publishers_depth() -> None:
    publisher, reader = rtmw.Publisher("t", depth=64), rtmw.Subscriber("t")
    for value in numbered(0, 300):
        publisher.publish(value)
        reader.take()
    assert taken(rtmw.Subscriber("t", history=64)) == numbered(236, 300)


def test_history_outlives_its_publisher() -> None:
    with rtmw.Publisher("t", history=3) as publisher:
        publisher.publish_many(numbered(0, 10))
    assert taken(rtmw.Subscriber("t", history=3)) == numbered(7, 10)


def test_over_several_priorities_it_is_the_last_messages_that_count() -> None:
    publisher = rtmw.Publisher("t", history=10)
    for number in range(12):
        publisher.publish(b"%d" % number, priority=number % 3)
    late = rtmw.Subscriber("t", history=5)
    assert [(sample.priority, sample.value) for sample in late.take_many(99)] == [
        (2, b"8"), (2, b"11"), (1, b"7"), (1, b"10"), (0, b"9"),
    ]  # fmt: skip


def test_over_several_publishers_it_is_the_last_messages_that_count() -> None:
    first, second = rtmw.Publisher("t", history=10), rtmw.Publisher("t", history=10)
    for number in range(10):
        (first, second)[number % 2].publish(b"%d" % number)
    assert taken(rtmw.Subscriber("t", history=4)) == numbered(6, 10)


def test_messages_of_other_types_do_not_use_it_up() -> None:
    rows, readings = rtmw.Publisher("t", history=10), rtmw.Publisher("t", Reading, history=10)
    for number in range(4):
        rows.publish(b"%d" % number)
        readings.publish(Reading("A1", number))
    assert taken(rtmw.Subscriber("t", history=3)) == [b"1", b"2", b"3"]
    late = rtmw.Subscriber("t", Reading, history=2)
    assert [sample.value.value for sample in late.take_many(9)] == [2.0, 3.0]


def test_a_late_reliable_subscriber_gets_history_of_reliable_publishers_only() -> None:
    reliable = rtmw.Publisher("t", history=9, reliability=Reliability.RELIABLE)
    adaptive = rtmw.Publisher("t", history=9)
    for number in range(3):
        reliable.publish(b"r%d" % number)
        adaptive.publish(b"a%d" % number)
    assert taken(rtmw.Subscriber("t", history=2, reliability=Reliability.RELIABLE)) == [b"r1", b"r2"]


def test_history_larger_than_a_reliable_depth_holds_the_publisher_until_it_is_read() -> None:
    publisher = rtmw.Publisher("t", history=10, reliability=Reliability.RELIABLE, max_blocking=0)
    publisher.publish_many(numbered(0, 10))
    late = rtmw.Subscriber("t", history=10, depth=4, reliability=Reliability.RELIABLE)
    assert publisher.publish(b"10") is False
    assert taken(late) == numbered(0, 10)
    assert publisher.publish(b"10") is True


def test_history_of_arrays_can_be_read_in_place() -> None:
    publisher = rtmw.Publisher("t", np.int32, history=2)
    for number in range(4):
        publisher.publish(np.full(1000, number, np.int32))
    late = rtmw.Subscriber("t", np.int32, history=2)
    assert [int(sample.value[0]) for sample in late.take_many(9)] == [2, 3]
