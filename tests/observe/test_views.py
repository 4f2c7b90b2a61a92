"""observe (requirement P10): what is published, queued, held and lost can be seen without taking part."""

from __future__ import annotations

import math
import os

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
        "t", Reading, priority=3, depth=7, history=2, lifetime=9.5, reliability=Reliability.RELIABLE, max_blocking=0
    )
    blocking = rtmw.Subscriber("t", Reading, reliability=Reliability.RELIABLE, depth=2)
    for number in range(5):
        publisher.publish(Reading("A1", number))
    (view,) = topic_named(domain, "t").publishers
    assert (view.pid, view.type_name, view.reliability) == (os.getpid(), "Reading", Reliability.RELIABLE)
    assert (view.priority, view.depth, view.history, view.lifetime_ns) == (3, 7, 2, 9_500_000_000)
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
    asking = rtmw.Subscriber(
        "t", history=3, min_interval=0.5, deadline=2.0, lease=4.0, reliability=Reliability.RELIABLE
    )
    (view,) = topic_named(domain, "t").subscribers
    assert (view.history, view.min_interval_ns, view.deadline_ns) == (3, 500_000_000, 2_000_000_000)
    assert view.lease_ns == 4_000_000_000
    asking.close()


@pytest.mark.parametrize(("max_blocking", "shown"), [(0.25, 0.25), (0, 0.0), (None, math.inf)])
def test_a_publisher_is_shown_with_how_long_it_waits_for_room(
    domain: rtmw.Domain, max_blocking: float | None, shown: float
) -> None:
    with rtmw.Publisher("t", max_blocking=max_blocking):
        (view,) = topic_named(domain, "t").publishers
    assert view.max_blocking == shown


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


def test_a_subscriber_is_behind_by_those_messages_alone_that_it_gets(domain: rtmw.Domain) -> None:
    ends = {
        "reading": rtmw.Subscriber("t", Reading),
        "bytes": rtmw.Subscriber("t"),
        "*": rtmw.Subscriber("t", rtmw.ANY),
        "unmatched": rtmw.Subscriber("t", reliability=Reliability.RELIABLE),
    }
    readings, raw = rtmw.Publisher("t", Reading), rtmw.Publisher("t", priority=5)
    assert readings.publish_many([Reading("A1", 1.0)] * 3) == 3
    assert raw.publish_many([b"x"] * 2) == 2
    views = {view.identity: view.behind for view in topic_named(domain, "t").subscribers}
    assert {name: views[end.identity] for name, end in ends.items()} == {
        "reading": 3,
        "bytes": 2,
        "*": 5,
        "unmatched": 0,
    }
    assert {name: end.stats().waiting for name, end in ends.items()} == {
        "reading": 3,
        "bytes": 2,
        "*": 5,
        "unmatched": 0,
    }


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


def test_a_topic_has_the_types_of_its_messages_also_when_their_publishers_are_gone(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", Reading) as typed, rtmw.Publisher("t", priority=3) as raw:
        typed.publish(Reading("A1", 1.0))
        typed.publish(Reading("A1", 2.0))
        raw.publish(bytes(5000))
        assert topic_named(domain, "t").types == ("Reading", "bytes")
    assert topic_named(domain, "t").types == ("Reading", "bytes")


# Proves G25.
def test_endpoints_of_the_dead_are_not_shown_and_what_they_counted_stays(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import numpy as np, rtmw
        ends = rtmw.Publisher("t", np.dtype("f8")), rtmw.Subscriber("t"), rtmw.Publisher("t")
        ends[2].publish(b"four", priority=1)
        print()
        input()
        """
    )
    child.line()
    alive = topic_named(domain, "t")
    assert (len(alive.publishers), len(alive.subscribers), alive.types) == (2, 1, ("bytes", "numpy:<f8"))
    child.kill()
    dead = topic_named(domain, "t")
    assert (dead.publishers, dead.subscribers, dead.types) == ((), (), ("bytes",))
    assert (dead.published, dead.bytes, dead.queued) == (alive.published, alive.bytes, alive.queued)
    (message,) = observe.queue(domain, "t")
    assert not message.to_be_sent, "nobody who lives will take it"
    assert observe.graph(observe.topics(domain)).edges == ()
    assert observe.types_in_use(domain, "t") == [("bytes", None)]
    uses = {table.name: table.used for table in observe.tables(domain, observe.examine(domain))}
    assert (uses["publishers"], uses["subscribers"]) == (2, 1), "their places are taken until somebody cleans up"
    assert domain.region.sweep() == 1
    assert topic_named(domain, "t") == dead
