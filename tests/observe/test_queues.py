"""queue: what lies in the queues of a topic, and who holds it, without taking it."""

from __future__ import annotations

import os
import time

import pytest

import rtmw
from rtmw import observe
from tests.bus import Reading, lifetime_of, taken
from tests.child import Spawn


def test_a_queue_shows_its_messages_in_the_order_they_are_taken(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    before = time.time_ns()
    for number, priority in enumerate((0, 7, 0, 3)):
        publisher.publish(b"%d" % number * 100, priority=priority, lifetime=None if number else 60)
    shown = observe.queue(domain, "t")
    assert [(m.priority, m.sequence, m.preview[:1]) for m in shown] == [
        (7, 1, b"1"), (3, 1, b"3"), (0, 1, b"0"), (0, 2, b"2"),
    ]  # fmt: skip
    assert [bytes(sample.data[:1]) for sample in subscriber.take_many(9)] == [m.preview[:1] for m in shown]
    for message in shown:
        assert (message.size, len(message.preview), message.type_name, message.publisher) == (
            100,
            64,
            "bytes",
            os.getpid(),
        )
        assert abs(message.source_time_ns - before) < 60 * 10**9
    assert [lifetime_of(m) for m in shown] == [None, None, 60, None]


def test_a_queue_shows_who_holds_a_message(domain: rtmw.Domain, spawn: Spawn) -> None:
    publisher = rtmw.Publisher("t", history=2)
    child = spawn("import rtmw; s = rtmw.Subscriber('t'); print(); sample = s.receive(10); print(); input()")
    child.line()
    publisher.publish_many([b"held", b"not held"])
    child.line()
    held, free = observe.queue(domain, "t")
    assert held.holders == (child.pid,)
    assert free.holders == ()


def test_looking_at_a_queue_takes_nothing_and_holds_nothing(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"a", bytes(5000)])
    for _ in range(3):
        assert len(observe.queue(domain, "t")) == 2
    assert all(message.holders == () for message in observe.queue(domain, "t"))
    assert len(subscriber.take_many(9)) == 2
    assert subscriber.stats().waiting == 0


def test_unread_messages_are_shown_as_still_to_be_sent(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"a", b"b", b"c"])
    subscriber.take()
    assert [message.to_be_sent for message in observe.queue(domain, "t")] == [False, True, True]
    taken(subscriber)
    assert not any(message.to_be_sent for message in observe.queue(domain, "t"))


def test_messages_are_to_be_sent_to_those_alone_who_get_them_by_type_and_reliability(domain: rtmw.Domain) -> None:
    reliable = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE)
    readings = rtmw.Subscriber("t", Reading)
    publisher, of_readings = rtmw.Publisher("t"), rtmw.Publisher("t", Reading)
    publisher.publish(b"unmatched")
    of_readings.publish(Reading("A1", 1.0))
    assert [message.to_be_sent for message in observe.queue(domain, "t")] == [False, True]
    assert len(readings.take_many(9)) == 1
    assert [message.to_be_sent for message in observe.queue(domain, "t")] == [False, False]
    reliable.close()


def test_unread_messages_of_every_priority_are_shown_as_still_to_be_sent(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"low 1", b"low 2"])
    taken(subscriber)
    publisher.publish(b"high", priority=7)
    shown = {bytes(message.preview): message.to_be_sent for message in observe.queue(domain, "t")}
    assert shown == {b"high": True, b"low 1": False, b"low 2": False}


def test_looking_at_a_queue_while_garbage_with_samples_is_collected_does_not_hang(spawn: Spawn) -> None:
    child = spawn(
        """
        import gc, rtmw
        from rtmw import observe
        publisher, subscriber = rtmw.Publisher("t", history=100), rtmw.Subscriber("t")
        publisher.publish_many([b"x"] * 100)
        gc.disable()
        for sample in subscriber.take_many(50):
            cycle = [sample]
            cycle.append(cycle)
        del sample, cycle
        gc.set_threshold(gc.get_count()[0] + 100)
        gc.enable()
        with rtmw.Domain(int(__import__("os").environ["RTMW_DOMAIN"])) as domain:
            print(len(observe.queue(domain, "t")))
        """
    )
    assert child.line(10) == "100"


def test_as_much_of_each_payload_is_shown_as_was_asked_for(domain: rtmw.Domain) -> None:
    payloads = [bytes(range(256)) * 40, b"small", b"x" * 129]
    with rtmw.Publisher("t", domain=domain, history=3) as publisher:
        publisher.publish_many(payloads)
        for most in (0, 1, 63, 129, 10_240, 1 << 20):
            assert [m.preview for m in observe.queue(domain, "t", most)] == [data[:most] for data in payloads]
        with pytest.raises(ValueError, match="1048576 bytes at most"):
            observe.queue(domain, "t", (1 << 20) + 1)
