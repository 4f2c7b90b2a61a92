"""fileno(): a subscriber in select, poll and their kin. Readable if something may be taken, and at times to look."""

from __future__ import annotations

import select
import selectors
import threading

import pytest

import rtmw
from tests.bus import LONG, eventually, taken
from tests.child import Spawn

pytestmark = pytest.mark.usefixtures("domain")


def readable(*subscribers: rtmw.Subscriber[bytes], timeout: float = 0) -> list[rtmw.Subscriber[bytes]]:
    return select.select(subscribers, [], [], timeout)[0]


def test_it_is_not_readable_when_there_is_nothing() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    assert readable(subscriber) == []
    rtmw.Publisher("other").publish(b"x")
    assert readable(subscriber) == []
    assert publisher.subscribers == 1


def test_it_is_readable_when_there_was_something_before_it_was_asked_for() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x")
    assert readable(subscriber) == [subscriber]


def test_it_is_readable_while_there_is_something_and_not_after() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    subscriber.fileno()
    for _ in range(3):
        publisher.publish_many([b"a", b"b", b"c"])
        for _ in range(3):
            assert readable(subscriber) == [subscriber]
            assert subscriber.take() is not None
        assert subscriber.take() is None
        assert readable(subscriber) == []


@pytest.mark.parametrize("how", ["take", "take_many", "receive"])
def test_however_it_is_read_the_next_message_makes_it_readable_again(how: str) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    subscriber.fileno()
    for number in range(50):
        publisher.publish(b"%d" % number)
        assert readable(subscriber, timeout=LONG) == [subscriber], f"message {number}"
        if how == "take":
            while subscriber.take():
                pass
        elif how == "take_many":
            subscriber.take_many(10)
        else:
            subscriber.receive(0)


def test_messages_that_it_does_not_get_leave_it_quiet_once_it_has_looked() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    subscriber.fileno()
    publisher.publish(b"expired", lifetime=0)
    assert subscriber.take() is None
    assert readable(subscriber) == []


def test_a_message_wakes_a_select_that_sleeps() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    timer = threading.Timer(0.03, publisher.publish, [b"x"])
    timer.start()
    assert readable(subscriber, timeout=LONG) == [subscriber]
    assert taken(subscriber) == [b"x"]
    timer.join()


def test_another_process_wakes_a_poll_again_and_again(spawn: Spawn) -> None:
    subscriber, got = rtmw.Subscriber("t"), list[bytes]()
    poll = select.poll()
    poll.register(subscriber, select.POLLIN)
    child = spawn(
        """
        import rtmw, time
        publisher = rtmw.Publisher("t")
        for number in range(500):
            publisher.publish(b"%d" % number)
            time.sleep(0.0002)
        """
    )
    while len(got) < 500:
        assert poll.poll(LONG * 1000), f"asleep after {len(got)} messages"
        got += taken(subscriber)
    assert got == [b"%d" % number for number in range(500)]
    assert child.wait() == 0


def test_each_subscriber_has_a_descriptor_of_its_own() -> None:
    publisher, subscribers = rtmw.Publisher("a"), [rtmw.Subscriber("a"), rtmw.Subscriber("a"), rtmw.Subscriber("b")]
    assert len({subscriber.fileno() for subscriber in subscribers}) == 3
    assert subscribers[0].fileno() == subscribers[0].fileno()
    publisher.publish(b"x")
    assert readable(*subscribers) == subscribers[:2]
    assert taken(subscribers[0]) == [b"x"]
    assert readable(*subscribers) == [subscribers[1]]


def test_selectors_take_subscribers_as_they_are() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    with selectors.DefaultSelector() as selector:
        selector.register(subscriber, selectors.EVENT_READ, "mine")
        assert selector.select(0) == []
        publisher.publish(b"x")
        ((key, _),) = selector.select(LONG)
        assert key.data == "mine"


def test_a_lease_that_ran_out_makes_it_readable() -> None:
    publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1, lease=0.03)
    subscriber.fileno()
    publisher.publish_many([b"1", b"2"])
    assert readable(subscriber, timeout=LONG) == [subscriber]
    with pytest.raises(rtmw.LeaseExpired):
        subscriber.take()


def has_missed_its_deadline(subscriber: rtmw.Subscriber[bytes]) -> bool:
    try:
        subscriber.receive(0)
    except rtmw.DeadlineMissed:
        return True
    except TimeoutError:
        pass
    return False


def test_a_deadline_that_passes_makes_it_readable() -> None:
    subscriber = rtmw.Subscriber("t", deadline=0.05)
    subscriber.fileno()
    while not has_missed_its_deadline(subscriber):
        assert readable(subscriber, timeout=LONG) == [subscriber]


# Proves G19.
def test_now_and_then_it_is_readable_for_a_look_though_nobody_said_anything() -> None:
    subscriber = rtmw.Subscriber("t")
    for _ in range(2):
        assert readable(subscriber) == []
        assert readable(subscriber, timeout=LONG) == [subscriber]
        assert subscriber.take() is None


def test_closing_wakes_a_select_that_sleeps() -> None:
    subscriber = rtmw.Subscriber("t")
    fileno, woken = subscriber.fileno(), list[object]()
    thread = threading.Thread(target=lambda: woken.extend(select.select([fileno], [], [], LONG)[0]))
    thread.start()
    threading.Event().wait(0.03)
    subscriber.close()
    eventually(lambda: not thread.is_alive(), within=LONG / 2)


def test_the_descriptor_goes_with_the_subscriber() -> None:
    subscriber = rtmw.Subscriber("t")
    poll = select.poll()
    fileno = subscriber.fileno()
    subscriber.close()
    poll.register(fileno)
    assert poll.poll(0) == [(fileno, select.POLLNVAL)]
