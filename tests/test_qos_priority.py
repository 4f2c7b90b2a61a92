"""Eight strict priorities (requirements P2, P3): of what is there, a subscriber gets the highest first."""

from __future__ import annotations

import random
import threading

import pytest

import rtmw
from tests.bus import LONG, taken

pytestmark = pytest.mark.usefixtures("domain")


def test_the_highest_priority_is_taken_first() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    for priority in (3, 0, 7, 5, 1, 6, 2, 4):
        publisher.publish(b"%d" % priority, priority=priority)
    assert taken(subscriber) == [b"7", b"6", b"5", b"4", b"3", b"2", b"1", b"0"]


def test_within_a_priority_the_order_is_that_of_publishing() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=1000)
    order = random.Random(7)
    sent = [(order.randrange(8), number) for number in range(500)]
    for priority, number in sent:
        publisher.publish(b"%d" % number, priority=priority)
    expected = sorted(sent, key=lambda message: (-message[0], message[1]))
    assert [(sample.priority, int(sample.value)) for sample in subscriber.take_many(1000)] == expected


def test_what_comes_between_two_takes_with_a_higher_priority_overtakes() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"low 1", b"low 2"])
    assert subscriber.receive(1).value == b"low 1"
    publisher.publish(b"high", priority=1)
    assert taken(subscriber) == [b"high", b"low 2"]


def test_a_publisher_has_a_priority_and_a_message_may_have_another() -> None:
    publisher, subscriber = rtmw.Publisher("t", priority=4), rtmw.Subscriber("t")
    publisher.publish(b"own")
    publisher.publish(b"lower", priority=0)
    publisher.publish(b"higher", priority=7)
    publisher.publish(b"none", priority=None)
    publisher.publish_many([b"many"])
    assert [(s.priority, s.value) for s in subscriber.take_many(9)] == [
        (7, b"higher"), (4, b"own"), (4, b"none"), (4, b"many"), (0, b"lower"),
    ]  # fmt: skip


def test_priorities_hold_across_publishers() -> None:
    low, high = rtmw.Publisher("t", priority=1), rtmw.Publisher("t", priority=2)
    subscriber = rtmw.Subscriber("t")
    for number in range(3):
        low.publish(b"l%d" % number)
        high.publish(b"h%d" % number)
    assert taken(subscriber) == [b"h0", b"h1", b"h2", b"l0", b"l1", b"l2"]


def test_receive_and_iteration_give_the_highest_first_too() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    for priority in (0, 7, 3):
        publisher.publish(b"%d" % priority, priority=priority)
    assert subscriber.receive(1).value == b"7"
    assert next(subscriber).value == b"3"
    assert subscriber.receive(1).value == b"0"


def test_expired_messages_of_a_high_priority_do_not_stand_in_the_way() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"late", priority=7, valid_until=1.0)
    publisher.publish(b"valid", priority=0)
    assert taken(subscriber) == [b"valid"]
    assert subscriber.stats().expired == 1


def test_each_subscriber_is_served_by_priority_on_its_own() -> None:
    publisher, first, second = rtmw.Publisher("t"), rtmw.Subscriber("t"), rtmw.Subscriber("t")
    publisher.publish(b"low")
    assert taken(first) == [b"low"]
    publisher.publish(b"high", priority=7)
    assert taken(first) == [b"high"]
    assert taken(second) == [b"high", b"low"]


def test_priorities_hold_while_publishers_and_the_subscriber_run_at_once() -> None:
    count, subscriber = 1000, rtmw.Subscriber("t")
    publishers = [rtmw.Publisher("t", priority=priority) for priority in (0, 3, 7)]
    threads = [
        threading.Thread(target=lambda own=own: [own.publish(b"%d" % number) for number in range(count)])  # type: ignore[misc]
        for own in publishers
    ]
    for thread in threads:
        thread.start()
    seen: dict[int, list[int]] = {0: [], 3: [], 7: []}
    for _ in range(3 * count):
        sample = subscriber.receive(LONG)
        seen[sample.priority].append(int(sample.value))
    for thread in threads:
        thread.join(LONG)
    assert seen == {priority: list(range(count)) for priority in (0, 3, 7)}
    assert subscriber.stats().missed == 0
