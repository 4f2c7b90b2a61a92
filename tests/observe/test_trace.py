"""Trace (requirement P10): what happens to each message on a topic, by whom and when, and what that costs nobody."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

import rtmw
from rtmw import Reliability, observe
from tests.bus import Reading, eventually, taken
from tests.child import Spawn


def told(trace: observe.Trace) -> list[tuple[str, int | None, int]]:
    return [(event.what, event.sequence, event.count) for event in trace.read()]


def is_traced(domain: rtmw.Domain, topic: str = "t") -> bool:
    """Does a message on this topic leave an event behind?"""
    before = domain.region.trace_next()
    with rtmw.Publisher(topic, domain=domain) as publisher:
        publisher.publish(b"probe")
    return domain.region.trace_next() != before


def test_a_message_is_told_when_it_is_published_and_each_time_it_is_taken(domain: rtmw.Domain) -> None:
    publisher, one, other = rtmw.Publisher("t", priority=3), rtmw.Subscriber("t"), rtmw.Subscriber("t")
    with observe.Trace(domain, ["t"]) as trace:
        before = time.time_ns()
        publisher.publish(b"12345")
        one.take()
        other.take()
        after = time.time_ns()
        events = trace.read()
    assert [event.what for event in events] == ["published", "taken", "taken"]
    assert [event.identity for event in events] == [publisher.identity, one.identity, other.identity]
    for event in events:
        assert (event.topic, event.pid, event.publisher) == ("t", os.getpid(), os.getpid())
        assert (event.priority, event.sequence, event.count, event.size) == (3, 1, 1, 5)
        assert before - 10**7 <= event.at_ns <= after + 10**7
        assert "py" in event.process
    assert events[0].latency is None
    assert all(event.latency is not None and 0 <= event.latency <= (after - before) / 1e9 for event in events[1:])
    assert trace.lost == 0


def test_messages_of_every_way_to_publish_and_to_take_are_told(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    with observe.Trace(domain, ["t"]) as trace:
        publisher.publish(b"1")
        publisher.publish_many([b"2", bytes(1000)])
        with publisher.loan(5000) as loan:
            loan.publish()
        assert subscriber.take() is not None
        assert len(subscriber.take_many(2)) == 2
        assert subscriber.receive(10) is not None
        events = trace.read()
    assert [event.sequence for event in events if event.what == "published"] == [1, 2, 3, 4]
    assert [event.sequence for event in events if event.what == "taken"] == [1, 2, 3, 4]
    assert [event.size for event in events] == [1, 1, 1000, 5000] * 2


def test_a_drop_is_told_with_its_cause(domain: rtmw.Domain) -> None:
    timely, typed = rtmw.Publisher("t", reliability=Reliability.TIMELY), rtmw.Publisher("t", Reading)
    subscriber = rtmw.Subscriber("t", depth=3, min_interval=1000)
    reliable = rtmw.Subscriber("t", rtmw.ANY, reliability=Reliability.RELIABLE)
    with observe.Trace(domain, ["t"]) as trace:
        timely.publish_many([b"%d" % number for number in range(5)])
        assert taken(subscriber) == [b"2"]
        timely.publish(b"expired", lifetime=0)
        typed.publish(Reading("A1", 1.0))
        assert taken(subscriber) == []
        assert reliable.take() is None
        events = trace.read()
    of = Counter((event.what, event.identity) for event in events)
    stats = subscriber.stats()
    for cause in ("missed", "thinned", "expired", "other_types"):
        assert of[cause, subscriber.identity] == getattr(stats, cause) > 0
    assert of["unmatched", reliable.identity] == reliable.stats().unmatched == 7
    assert of["taken", subscriber.identity] == 1
    assert [event.sequence for event in events if event.what == "expired"] == [6]


def test_messages_that_were_gone_before_they_were_looked_at_are_told_in_one(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t", reliability=Reliability.TIMELY, depth=1), rtmw.Subscriber("t", depth=4)
    large = bytes(domain.pool // 4)
    with observe.Trace(domain, ["t"]) as trace:
        for _ in range(20):
            publisher.publish(large)
        got = len(subscriber.take_many(100))
        missed = [event for event in trace.read() if event.what == "missed"]
    assert got + sum(event.count for event in missed) == 20
    assert max(event.count for event in missed) > 1
    gone = next(event for event in missed if event.count > 1)
    assert (gone.size, gone.publisher, gone.latency) == (None, None, None)


def test_a_refusal_is_told_with_its_cause(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t", reliability=Reliability.RELIABLE, max_blocking=0)
    subscriber = rtmw.Subscriber("t", reliability=Reliability.RELIABLE, depth=1)
    with observe.Trace(domain, ["t"]) as trace:
        assert publisher.publish(b"fits")
        assert not publisher.publish(b"does not")
        with publisher.loan(domain.pool // 2), publisher.loan(domain.pool // 4), pytest.raises(rtmw.PoolExhausted):
            publisher.loan(domain.pool // 2)
        assert told(trace) == [("published", 1, 1), ("timed_out", None, 1), ("exhausted", None, 1)]
    assert subscriber.stats().waiting == 1


def test_topics_that_nobody_traces_leave_nothing_behind(domain: rtmw.Domain) -> None:
    traced, other = rtmw.Publisher("traced"), rtmw.Publisher("other")
    with observe.Trace(domain, ["traced"]) as trace:
        other.publish(b"x")
        assert told(trace) == []
        assert not is_traced(domain, "other")
        traced.publish(b"x")
        assert told(trace) == [("published", 1, 1)]


def test_who_traces_sees_only_its_own_topics(domain: rtmw.Domain) -> None:
    a, b = rtmw.Publisher("a"), rtmw.Publisher("b")
    with observe.Trace(domain, ["a"]) as of_a, observe.Trace(domain, ["a", "b"]) as of_both:
        a.publish(b"x")
        b.publish(b"x")
        assert [event.topic for event in of_a.read()] == ["a"]
        assert [event.topic for event in of_both.read()] == ["a", "b"]


def test_a_topic_is_traced_until_the_last_who_traces_it_stops(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t")
    one, other = observe.Trace(domain, ["t"]), observe.Trace(domain, ["t"])
    one.close()
    one.close()
    publisher.publish(b"x")
    assert told(other) == [("published", 1, 1)]
    assert is_traced(domain)
    other.close()
    assert not is_traced(domain)


def test_a_topic_that_does_not_exist_cannot_be_traced(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t"), pytest.raises(KeyError, match="nobody"):
        observe.Trace(domain, ["t", "nobody"])
    assert not is_traced(domain)


# Proves G40.
def test_tracing_ends_when_who_traced_has_died(domain: rtmw.Domain, spawn: Spawn) -> None:
    publisher = rtmw.Publisher("t")
    child = spawn(
        "import os, rtmw\nfrom rtmw import observe\n"
        "domain = rtmw.Domain(int(os.environ['RTMW_DOMAIN']))\n"
        "trace = observe.Trace(domain, ['t']); print(); input()"
    )
    child.line()
    assert is_traced(domain)
    child.kill()
    observe.examine(domain, fix=True)
    assert not is_traced(domain)
    assert publisher.publish(b"x")


# Proves G39.
def test_who_reads_too_slowly_is_told_how_many_events_are_lost(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t")
    with observe.Trace(domain, ["t"]) as trace:
        for _ in range(10):
            publisher.publish_many([b"x"] * 1000)
        events = trace.read()
        assert 1000 <= len(events) < 10_000
        assert trace.lost + len(events) == 10_000
        assert [event.sequence for event in events] == list(range(trace.lost + 1, 10_001))
        publisher.publish(b"x")
        assert told(trace) == [("published", 10_001, 1)]


# Proves G39.
def test_processes_that_die_while_they_are_traced_stop_nobody_and_spoil_no_event(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    program = (
        "import rtmw; p, s = rtmw.Publisher('t'), rtmw.Subscriber('t'); print()\nwhile True: p.publish(b'x'); s.take()"
    )
    publisher = rtmw.Publisher("t")
    seen = Counter[str]()
    with observe.Trace(domain, ["t"]) as trace:
        for _ in range(4):
            children = [spawn(program), spawn(program)]
            pids = {child.pid for child in children}
            for child in children:
                child.line(30)
            until = sum(seen.values()) + 5000
            while sum(seen.values()) < until:
                for event in trace.read():
                    seen[event.what] += 1
                    assert event.what in ("published", "taken", "missed")
                    assert event.pid in pids
            for child in children:
                child.kill()
            trace.read()
            trace.read()  # the first one ends at an entry that the dead have left half written
        observe.examine(domain, fix=True)
        trace.read()
        trace.read()
        publisher.publish(b"still here")
        assert [what for what, *_ in told(trace)] == ["published"]
    assert min(seen["published"], seen["taken"]) > 0
    assert not is_traced(domain)


def test_a_stopped_process_makes_nobody_who_traces_wait(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn("import rtmw; p = rtmw.Publisher('t'); print()\nwhile True: p.publish(b'x')")
    child.line(30)
    publisher, found = rtmw.Publisher("t"), list[observe.TraceEvent]()
    with observe.Trace(domain, ["t"]) as trace:
        for _ in range(20):
            child.stop()
            trace.read()
            publisher.publish(b"mine")
            found.clear()
            eventually(lambda: found.extend(trace.read()) or any(e.pid == os.getpid() for e in found), within=30)
            child.cont()
