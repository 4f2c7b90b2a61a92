"""What is urgent overtakes what is large; a route that is stuck delays no other; ceilings hold."""

from __future__ import annotations

import time

import pytest

import rtmw
from rtmw import Reliability
from tests.net.link.ends import PATIENCE, WINDOW, Ends, wait_until

RELIABLE = Reliability.RELIABLE


@pytest.mark.parametrize("fixture", ["ends", "tls_ends"])
def test_an_alarm_overtakes_images_that_were_published_before(fixture: str, request: pytest.FixtureRequest) -> None:
    ends: Ends = request.getfixturevalue(fixture)
    ends.route("image", window=16 << 20)
    ends.route("alarm")
    with (
        rtmw.Publisher("image", domain=ends.here.domain, reliability=RELIABLE, max_blocking=PATIENCE) as images,
        rtmw.Publisher("alarm", domain=ends.here.domain, reliability=RELIABLE, priority=7) as alarms,
        rtmw.Subscriber("image", domain=ends.there.domain, reliability=RELIABLE, depth=100) as seen,
        rtmw.Subscriber("alarm", domain=ends.there.domain, reliability=RELIABLE) as heard,
    ):
        ends.here.line.limit(8 << 20)
        for _ in range(8):
            images.publish(bytes(1 << 20))
        alarms.publish(b"fire")
        ends.join()
        heard.receive(timeout=PATIENCE)
        assert len(seen.take_many(100)) < 8


def test_within_a_connection_a_higher_band_goes_between_the_chunks_of_a_lower_one(ends: Ends) -> None:
    ends.route("image", window=16 << 20)
    ends.route("sooner")
    with (
        rtmw.Publisher("image", domain=ends.here.domain, reliability=RELIABLE) as images,
        rtmw.Publisher("sooner", domain=ends.here.domain, reliability=RELIABLE, priority=3) as sooner,
        rtmw.Subscriber("image", domain=ends.there.domain, reliability=RELIABLE) as seen,
        rtmw.Subscriber("sooner", domain=ends.there.domain, reliability=RELIABLE) as heard,
    ):
        ends.here.line.limit(4 << 20)
        ends.join()
        ends.up()
        images.publish(bytes(8 << 20))
        wait_until(lambda: ends.here.line.info()["sent"] > 200_000)  # it is under way
        sooner.publish(b"x")
        heard.receive(timeout=PATIENCE)
        assert not seen.take_many(1)
        seen.receive(timeout=PATIENCE)


def test_a_full_reliable_subscriber_delays_no_other_topic(ends: Ends) -> None:
    stuck, _ = ends.route("stuck", depth=8, window=100_000)
    ends.route("flows")
    ends.join()
    ends.up()
    with (
        rtmw.Publisher("stuck", domain=ends.here.domain, reliability=RELIABLE, max_blocking=0) as full,
        rtmw.Publisher("flows", domain=ends.here.domain, reliability=RELIABLE, max_blocking=PATIENCE) as publisher,
        rtmw.Subscriber("stuck", domain=ends.there.domain, reliability=RELIABLE, depth=4, lease=PATIENCE) as reader,
        rtmw.Subscriber("flows", domain=ends.there.domain, reliability=RELIABLE) as subscriber,
    ):
        published = 0
        wait_until(lambda: stuck.counters()["blocked"] > 0 or not full.publish(bytes(10_000)))
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            published += full.publish(published.to_bytes(4, "little") + bytes(10_000))
        assert ends.here.line.info()["unacknowledged"] <= WINDOW  # credit bounds what is on its way
        for number in range(500):
            publisher.publish(b"%d" % number)
            assert bytes(subscriber.receive(timeout=PATIENCE).data) == b"%d" % number
        got = 0
        while got < published:
            got += sum(len(one.data) > 10_000 for one in reader.take_many(100))
            published += full.publish(published.to_bytes(4, "little") + bytes(10_000)) if got < 20 else 0


def test_credit_bounds_what_waits_at_the_peer(ends: Ends) -> None:
    _, inbound = ends.route("stuck", window=100_000)
    ends.join()
    with (
        rtmw.Publisher("stuck", domain=ends.here.domain, reliability=RELIABLE, max_blocking=0, depth=1000) as publisher,
        rtmw.Subscriber("stuck", domain=ends.there.domain, reliability=RELIABLE, depth=2, lease=PATIENCE) as reader,
    ):
        count = 0
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            count += publisher.publish(bytes(1_000))
        assert inbound.counters()["delayed"] <= 100_000 // 1_064 + 2
        got = 0
        while got < count:
            got += len(reader.take_many(100))


def test_ceilings_are_kept_at_the_end_that_receives_and_told_once(ends: Ends) -> None:
    _, inbound = ends.route("limited", max_priority=4, max_size=1_000, max_rate=100_000)
    ends.join()
    with (
        rtmw.Publisher("limited", domain=ends.here.domain, reliability=RELIABLE) as publisher,
        rtmw.Subscriber("limited", domain=ends.there.domain, reliability=RELIABLE) as subscriber,
    ):
        for _ in range(3):
            publisher.publish(b"urgent", priority=5)
            publisher.publish(bytes(1_001))
        publisher.publish(bytes(100_000), priority=1)
        publisher.publish(b"last")
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == b"last"
        wait_until(lambda: inbound.counters()["priority"] == 3)
        assert (inbound.counters()["size"], inbound.counters()["lost"]) == (4, 0)
        for _ in range(300):
            publisher.publish(bytes(1_000))
            subscriber.take_many(10)
        wait_until(lambda: inbound.counters()["rate"] > 0)
    told = [(number, why) for kind, number, why in ends.there.look() if kind == "refused"]
    assert sorted(told) == [(1, b"priority"), (1, b"rate"), (1, b"size")]


def test_a_rate_holds_for_one_route_and_leaves_others_alone(ends: Ends) -> None:
    slow, _ = ends.route("slow", window=64 << 20)
    ends.route("fast")
    slow.limit(1 << 20)
    ends.join()
    with (
        rtmw.Publisher("slow", domain=ends.here.domain, reliability=RELIABLE, depth=1000) as publisher,
        rtmw.Publisher("fast", domain=ends.here.domain, reliability=RELIABLE) as other,
        rtmw.Subscriber("slow", domain=ends.there.domain, reliability=RELIABLE, depth=1000) as subscriber,
        rtmw.Subscriber("fast", domain=ends.there.domain, reliability=RELIABLE) as heard,
    ):
        begin = time.monotonic()
        for _ in range(10):
            publisher.publish(bytes(100_000))
        other.publish(b"x")
        heard.receive(timeout=PATIENCE)
        for _ in range(10):
            subscriber.receive(timeout=PATIENCE)
        assert time.monotonic() - begin > 0.8  # a megabyte a second, but for the first message
