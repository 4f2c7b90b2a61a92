"""Eight strict priorities (requirements P2, P3): of what is there, a subscriber gets the highest first."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import rtmw
from rtmw import Reliability, observe
from tests.bus import LONG, eventually, taken

pytestmark = pytest.mark.usefixtures("domain")

BLOCK = 100_000

LAST = b"last"

Subscriber = rtmw.Subscriber[bytes]
Samples = list[rtmw.Sample[bytes]]


def is_over(got: Samples) -> bool:
    """LAST is the last to come."""
    return bool(got) and got[-1].value == LAST


def until_last(take: Callable[[], rtmw.Sample[bytes]]) -> Samples:
    """What comes one by one."""
    got: Samples = []
    while not is_over(got):
        got.append(take())
    return got


def by_wait_set(subscriber: Subscriber) -> Samples:
    """A sample each time that a WaitSet says that there is one."""
    waits = rtmw.WaitSet(subscriber)
    return until_last(lambda: waits.wait(LONG)[0].receive(0))


def by_listener(subscriber: Subscriber) -> Samples:
    """The samples with which a Listener calls."""
    got: Samples = []
    with subscriber.listen(got.append):
        eventually(lambda: is_over(got))
    return got


def by_event_loop(subscriber: Subscriber) -> Samples:
    """The samples for which a coroutine waits."""

    async def gather() -> Samples:
        got: Samples = []
        while not is_over(got):
            got.append(await asyncio.wait_for(anext(subscriber), LONG))
        return got

    return asyncio.run(gather())


WAYS: dict[str, Callable[[Subscriber], Samples]] = {
    "receive": lambda subscriber: until_last(lambda: subscriber.receive(0)),
    "take": lambda subscriber: list(iter(subscriber.take, None)),
    "take_many": lambda subscriber: list(subscriber.take_many(1000)),
    "iteration": lambda subscriber: until_last(lambda: next(subscriber)),
    "WaitSet": by_wait_set,
    "Listener": by_listener,
    "asyncio": by_event_loop,
}


@dataclass(frozen=True)
class Flood:
    """A TIMELY and an ADAPTIVE publisher of priority 5, a subscriber of depth 1, and who fills the pool elsewhere."""

    domain: rtmw.Domain
    timely: rtmw.Publisher[bytes]
    adaptive: rtmw.Publisher[bytes]
    subscriber: Subscriber
    other: rtmw.Publisher[bytes]

    def evict(self, size: int) -> None:
        """Publish elsewhere until the oldest of priority 5, of this size, gave way, and the next has another size."""
        for _ in range(1000):
            if next(message.size for message in observe.queue(self.domain, "t") if message.priority == 5) != size:
                return
            assert self.other.publish(bytes(BLOCK))
        pytest.fail("no message gave way")


@pytest.fixture
def flood(domain: rtmw.Domain) -> Iterator[Flood]:
    """The subscriber has taken one message, of 5 bytes, with which the queue begins."""
    timely = rtmw.Publisher("t", reliability=Reliability.TIMELY, priority=5)
    adaptive, subscriber = rtmw.Publisher("t", priority=5), rtmw.Subscriber("t", depth=1)
    other, unread = rtmw.Publisher("other", priority=7), rtmw.Subscriber("other", depth=10_000)
    adaptive.publish(b"first")
    assert taken(subscriber) == [b"first"]
    yield Flood(domain, timely, adaptive, subscriber, other)
    unread.close()


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


@pytest.mark.parametrize("way", WAYS)
# Proves G60.
def test_the_highest_comes_first_though_the_oldest_of_a_lower_priority_gave_way(way: str, flood: Flood) -> None:
    flood.timely.publish(bytes(BLOCK))
    for number in range(5):
        flood.adaptive.publish(b"%d" % number + bytes(BLOCK))
    flood.adaptive.publish(LAST)
    flood.adaptive.publish(b"urgent", priority=6)
    flood.evict(len(b"first"))
    flood.evict(BLOCK)
    urgent, *lower = WAYS[way](flood.subscriber)
    assert (urgent.priority, urgent.value) == (6, b"urgent")
    gone = int(lower[0].value[:1])
    assert [sample.value[:1] for sample in lower] == [b"%d" % number for number in range(gone, 5)] + [LAST[:1]]
    assert flood.subscriber.stats().missed == 1 + gone


@pytest.mark.parametrize("reliability", [Reliability.TIMELY, Reliability.ADAPTIVE])
# Proves G61.
def test_what_is_within_depth_comes_though_what_lay_before_it_gave_way(reliability: Reliability, flood: Flood) -> None:
    with rtmw.Subscriber("t", depth=1, reliability=reliability) as subscriber:
        for _ in range(40):
            flood.timely.publish(bytes(BLOCK))
        flood.timely.publish(LAST)
        flood.evict(len(b"first"))
        flood.evict(BLOCK)
        assert taken(subscriber) == [LAST]
        assert subscriber.stats().missed == 40


# Proves G61.
def test_what_is_beyond_depth_is_dropped_though_what_lay_before_it_gave_way(flood: Flood) -> None:
    flood.adaptive.publish(bytes(BLOCK))
    for number in range(3):
        flood.timely.publish(b"%d" % number)
    flood.evict(len(b"first"))
    flood.evict(BLOCK)
    assert taken(flood.subscriber) == [b"2"]
    assert flood.subscriber.stats().missed == 3


# Proves G60.
def test_of_what_lies_there_no_take_gives_a_lower_priority_first_while_memory_is_short(domain: rtmw.Domain) -> None:
    order = random.Random(7)
    publishers = [rtmw.Publisher("t", reliability=reliability, max_blocking=0) for reliability in Reliability]
    subscriber, sizes = rtmw.Subscriber("t", depth=4), (10, 3000, 60_000)
    other, unread = rtmw.Publisher("other", priority=7), rtmw.Subscriber("other", depth=1000)
    for _ in range(300):
        for _ in range(order.randrange(1, 60)):
            order.choice(publishers).publish(bytes(order.choice(sizes)), priority=order.randrange(4, 7))
        for _ in range(order.randrange(60)):
            other.publish(bytes(60_000))
        got = [sample.priority for sample in iter(subscriber.take, None)]
        assert got == sorted(got, reverse=True)
        if order.random() < 0.5:
            unread.take_many(1000)
