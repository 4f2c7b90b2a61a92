"""observe (requirement P10): what is published, queued, held and lost can be seen without taking part."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

import rtmw
from rtmw import Reliability, observe
from tests.bus import Reading, taken
from tests.child import Spawn


def topic_named(domain: rtmw.Domain, name: str) -> observe.TopicView:
    return next(view for view in observe.topics(domain) if view.name == name)


def test_a_domain_without_topics_shows_none(domain: rtmw.Domain) -> None:
    assert observe.topics(domain) == []
    assert observe.queue(domain, "nobody uses it") == []


def test_topics_are_shown_by_name_with_their_types(domain: rtmw.Domain) -> None:
    ends = [rtmw.Publisher("b", Reading), rtmw.Publisher("a"), rtmw.Subscriber("b", rtmw.ANY), rtmw.Subscriber("b")]
    assert {view.name: view.types for view in observe.topics(domain)} == {"a": ("bytes",), "b": ("Reading", "bytes")}
    assert len(ends) == 4


def test_a_publisher_is_shown_with_its_settings_and_counters(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher(
        "t", Reading, priority=3, depth=7, history=2, reliability=Reliability.RELIABLE, max_blocking=0
    )
    blocking = rtmw.Subscriber("t", Reading, reliability=Reliability.RELIABLE, depth=2)
    for number in range(5):
        publisher.publish(Reading("A1", number))
    (view,) = topic_named(domain, "t").publishers
    assert (view.pid, view.type_name, view.reliability) == (os.getpid(), "Reading", Reliability.RELIABLE)
    assert (view.priority, view.depth, view.history) == (3, 7, 2)
    stats = publisher.stats()
    assert (view.published, view.bytes, view.timed_out, view.exhausted) == (2, stats.bytes, 3, 0)
    assert "python" in view.process or "pytest" in view.process
    assert blocking.stats().waiting == 2


def test_a_subscriber_is_shown_with_its_settings_and_its_drops_by_cause(domain: rtmw.Domain) -> None:
    timely, typed = rtmw.Publisher("t", reliability=Reliability.TIMELY), rtmw.Publisher("t", Reading)
    subscriber = rtmw.Subscriber("t", depth=3, min_interval=1000)
    for number in range(5):
        timely.publish(b"%d" % number)
    assert taken(subscriber) == [b"2"]
    timely.publish(b"expired", lifetime=0)
    typed.publish(Reading("A1", 1.0))
    assert taken(subscriber) == []
    timely.publish(b"left")
    (view,) = topic_named(domain, "t").subscribers
    assert (view.pid, view.type_name, view.reliability, view.depth) == (os.getpid(), "bytes", Reliability.ADAPTIVE, 3)
    assert (view.received, view.bytes, view.behind) == (1, 1, 1)
    assert (view.missed, view.thinned, view.expired, view.other_types, view.unmatched) == (2, 2, 1, 1, 0)
    assert (view.deadlines_missed, view.lapses) == (0, 0)


def test_a_subscriber_is_shown_with_what_it_asked_for(domain: rtmw.Domain) -> None:
    asking = rtmw.Subscriber("pump/speed", history=3, min_interval=0.5, deadline=2.0, domain=domain)
    (view,) = observe.topics(domain)[0].subscribers
    assert (view.history, view.min_interval_ns, view.deadline_ns) == (3, 500_000_000, 2_000_000_000)
    asking.close()


def test_views_and_stats_show_the_same(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", rtmw.ANY)
    publisher.publish_many([b"a", b"bb", b"ccc"])
    subscriber.take_many(2)
    shown, told = topic_named(domain, "t").subscribers[0], subscriber.stats()
    assert shown.type_name == "*"
    assert (shown.received, shown.bytes, shown.behind) == (told.received, told.bytes, told.waiting) == (2, 3, 1)
    for cause in ("missed", "expired", "thinned", "unmatched", "other_types", "deadlines_missed", "lapses"):
        assert getattr(shown, cause) == getattr(told, cause) == 0


def test_endpoints_of_other_processes_are_shown(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn("import rtmw; p = rtmw.Publisher('t', priority=6); p.publish(b'12345'); print(); input()")
    child.line()
    (view,) = topic_named(domain, "t").publishers
    assert (view.pid, view.priority, view.published, view.bytes) == (child.pid, 6, 1, 5)


def test_totals_of_a_topic_go_on_when_publishers_go(domain: rtmw.Domain) -> None:
    for _ in range(3):
        with rtmw.Publisher("t") as publisher:
            publisher.publish_many([b"12345"] * 4)
    view = topic_named(domain, "t")
    assert (view.published, view.bytes, view.publishers) == (12, 60, ())


def test_queued_messages_are_counted_by_priority(domain: rtmw.Domain) -> None:
    publisher, _subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    for priority, count in ((0, 3), (5, 2), (7, 1)):
        for _ in range(count):
            publisher.publish(b"x", priority=priority)
    assert topic_named(domain, "t").queued == (3, 0, 0, 0, 0, 2, 0, 1)


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
    assert [m.expires_ns for m in shown] == [None, None, shown[2].source_time_ns + 60 * 10**9, None]


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
    assert topic_named(domain, "t").subscribers[0].behind == 0


def test_unread_messages_are_shown_as_still_to_be_sent(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"a", b"b", b"c"])
    subscriber.take()
    assert [message.to_be_sent for message in observe.queue(domain, "t")] == [False, True, True]
    taken(subscriber)
    assert not any(message.to_be_sent for message in observe.queue(domain, "t"))


def test_unread_messages_of_every_priority_are_shown_as_still_to_be_sent(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"low 1", b"low 2"])
    taken(subscriber)
    publisher.publish(b"high", priority=7)
    shown = {bytes(message.preview): message.to_be_sent for message in observe.queue(domain, "t")}
    assert shown == {b"high": True, b"low 1": False, b"low 2": False}


def test_the_books_of_a_new_domain_are_empty(domain: rtmw.Domain) -> None:
    books = observe.examine(domain)
    assert books.pages == domain.pool // 4096
    assert books.descriptors == books.descriptors_free >= 1024
    assert (books.descriptors_loaned, books.descriptors_queued, books.descriptors_held, books.pages_used) == (
        0,
        0,
        0,
        0,
    )
    assert (books.problems, books.repaired) == ((), ())
    (me,) = books.participants
    assert (me.pid, me.alive, me.publishers, me.subscribers, me.loaned, me.held) == (os.getpid(), True, 0, 0, 0, 0)


def test_the_books_show_where_every_descriptor_is(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    loans = [publisher.loan(10_000) for _ in range(3)]
    samples = []
    for _ in range(4):
        publisher.publish(bytes(10_000))
        samples.append(subscriber.receive(1))
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    assert books.descriptors_loaned == len(loans)
    assert books.descriptors_held + books.descriptors_queued == len(samples)
    assert books.descriptors_queued >= 1, "a queue is never without its last message"
    whole = books.descriptors_free + books.descriptors_loaned + books.descriptors_queued + books.descriptors_held
    assert whole == books.descriptors
    assert books.pages_used >= 7 * 10_000 // 4096
    (me,) = books.participants
    assert (me.publishers, me.subscribers, me.loaned, me.held) == (1, 1, 3, 4)


def test_the_books_name_who_died_and_fix_sweeps_after_it(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn("import rtmw; p = rtmw.Publisher('t'); loan = p.loan(50_000); print(); input()")
    child.line()
    child.kill()
    dead = {view.pid: view for view in observe.examine(domain).participants}.get(child.pid)
    assert dead is None or not dead.alive
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    assert [view.pid for view in books.participants] == [os.getpid()]
    assert (books.descriptors_loaned, books.pages_used) == (0, 0)
    assert observe.examine(domain, fix=True).repaired == (), "once is enough"


@pytest.mark.parametrize("size", [1, 1000, 300_000])
def test_the_pool_is_whole_again_when_all_is_closed(domain: rtmw.Domain, size: int) -> None:
    publisher, subscriber = rtmw.Publisher("t", np.uint8), rtmw.Subscriber("t", np.uint8)
    values = []
    for _ in range(10):
        publisher.publish(np.zeros(size, np.uint8))
        values.append(subscriber.receive(1).value)
    publisher.close()
    subscriber.close()
    del values
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    assert (books.descriptors_held, books.descriptors_loaned) == (0, 0)
    assert books.descriptors_queued <= 10


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
