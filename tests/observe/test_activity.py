"""Activity: what happened between two readings of the counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rtmw
from rtmw import Latency, observe
from tests.bus import taken
from tests.cli.views import PUBLISHER, SUBSCRIBER, topic


def test_the_first_reading_only_starts_the_window() -> None:
    meter = observe.Meter()
    assert meter.read([topic()], 1.0) == []
    assert [found.topic for found in meter.read([topic()], 2.0)] == ["pump/speed"]


def test_rates_are_divided_by_the_time_that_really_passed() -> None:
    meter = observe.Meter()
    meter.read([topic(published=100)], 1.0)
    later = topic(published=350, subscribers=(replace(SUBSCRIBER, received=54),))
    (found,) = meter.read([later], 3.5)
    assert (found.seconds, found.messages_per_s, found.bytes_per_s) == (2.5, 100.0, 1000.0)
    assert found.subscribers[0].received_per_s == 20.0


def test_drops_are_told_by_cause_and_only_those_of_the_window() -> None:
    meter = observe.Meter()
    meter.read([topic()], 0.0)
    later = topic(
        subscribers=(replace(SUBSCRIBER, missed=SUBSCRIBER.missed + 4, thinned=SUBSCRIBER.thinned + 1),),
        publishers=(replace(PUBLISHER, timed_out=PUBLISHER.timed_out + 2),),
    )
    (found,) = meter.read([later], 1.0)
    assert found.dropped == {"missed": 4, "thinned": 1, "timed_out": 2}
    assert found.subscribers[0].dropped == {"missed": 4, "thinned": 1}
    (found,) = meter.read([later], 2.0)
    assert found.dropped == {}


def test_latency_is_that_of_the_window_of_all_subscribers() -> None:
    meter, other = observe.Meter(), replace(SUBSCRIBER, identity=33 << 32)
    meter.read([topic(subscribers=(SUBSCRIBER, other))], 0.0)
    more = SUBSCRIBER.latency + Latency.of([(5000, 5099, 2)])
    later = topic(subscribers=(replace(SUBSCRIBER, latency=more), replace(other, latency=more)))
    (found,) = meter.read([later], 1.0)
    assert found.latency == Latency.of([(5000, 5099, 4)])
    assert [one.latency.count for one in found.subscribers] == [2, 2]


def test_who_came_in_the_window_did_all_that_it_did_inside_it() -> None:
    meter = observe.Meter()
    meter.read([], 0.0)
    (found,) = meter.read([topic()], 1.0)
    assert found.messages_per_s == 10.0
    assert found.latency.count == 4
    assert found.dropped == {"missed": 3, "expired": 2, "thinned": 1, "timed_out": 1}


def test_the_one_that_is_furthest_behind_is_named() -> None:
    meter, slow = observe.Meter(), replace(SUBSCRIBER, identity=33 << 32, pid=33, behind=7)
    meter.read([], 0.0)
    (found,) = meter.read([topic(subscribers=(SUBSCRIBER, slow))], 1.0)
    assert found.behind is not None
    assert (found.behind.pid, found.behind.behind) == (33, 7)
    (found,) = meter.read([topic()], 2.0)
    assert found.behind is None


def test_real_traffic_is_measured_exactly(domain: rtmw.Domain) -> None:
    publisher, subscriber, meter = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=1000), observe.Meter()
    slow = rtmw.Subscriber("t", depth=1000)
    publisher.publish(b"before")
    taken(subscriber)
    meter.read(observe.topics(domain), 0.0)
    publisher.publish_many([bytes(10)] * 300)
    publisher.publish(b"1234567890", lifetime=0)
    taken(subscriber)
    (found,) = meter.read(observe.topics(domain), 2.0)
    assert (found.messages_per_s, found.bytes_per_s) == (pytest.approx(150.5), pytest.approx(1505.0))
    assert found.latency.count == 300
    assert found.dropped == {"expired": 1}
    assert found.behind is not None
    assert (found.behind.identity, found.behind.behind) == (slow.identity, 302)
