"""One order over all lines of a node: they share a sender, the rate of an interface, and that of a topic."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.link.library import Line
from tests.net.link.ends import PATIENCE, End, Ends, Wire, wait_until

RATE = 1 << 20
AT_ONCE = RATE // 50
"""Bytes that may leave before the rate tells: what was not used just before, and a burst of each line."""
MEASURED_S = 1.0
RELIABLE = Reliability.RELIABLE

Two = tuple[Ends, Ends]


@pytest.fixture
def two(domains: tuple[rtmw.Domain, rtmw.Domain]) -> Iterator[Two]:
    """Two lines of one node, joined with those of two others, which have one domain."""
    here, there = domains
    one, other = End(here), End(here)
    other.line.close()
    other.bus.close()
    other.bus, other.line = one.bus, Line(one.bus, other.zero_copy_most)
    pair = Ends(one, End(there)), Ends(other, End(there))
    for ends in pair:
        ends.join()
        ends.up()
    yield pair
    for ends in pair:
        ends.close()


def floods(two: Two, topics: tuple[str, str], sent: Callable[[], int]) -> float:
    """Messages for both lines, faster than the rate; how many times the rate `sent` grows meanwhile."""
    here, there = two[0].here.domain, two[0].there.domain
    with (
        rtmw.Publisher(topics[0], domain=here, reliability=RELIABLE) as one,
        rtmw.Publisher(topics[1], domain=here, reliability=RELIABLE) as other,
        rtmw.Subscriber(topics[0], domain=there, reliability=RELIABLE) as seen,
        rtmw.Subscriber(topics[1], domain=there, reliability=RELIABLE) as seen_too,
    ):

        def move() -> None:
            one.publish(bytes(4096))
            other.publish(bytes(4096))
            seen.take_many(100)
            seen_too.take_many(100)

        before = sent()
        until = time.monotonic() + PATIENCE
        while sent() < before + 4 * AT_ONCE:  # both flow
            move()
            assert time.monotonic() < until
        before, begun = sent(), time.monotonic()
        while time.monotonic() < begun + MEASURED_S:
            move()
        after = sent()
        return (after - before - AT_ONCE) / (RATE * (time.monotonic() - begun))


# Proves G224.
def test_the_rate_of_an_interface_holds_over_all_lines_that_leave_by_it(two: Two) -> None:
    for ends, topic in zip(two, ("one", "other"), strict=True):
        ends.route(topic)
        ends.here.line.limit(RATE)
    assert floods(two, ("one", "other"), lambda: sum(ends.here.line.info()["sent"] for ends in two)) <= 1.05


# Proves G224.
def test_the_rate_of_a_topic_holds_over_all_lines_that_carry_it(two: Two) -> None:
    routes = [ends.route("shared")[0] for ends in two]
    for route in routes:
        route.limit(0, 7, 0, RATE)
    assert floods(two, ("shared", "shared"), lambda: sum(route.counters()["bytes"] for route in routes)) <= 1.05


# Proves G224.
def test_an_alarm_over_one_line_waits_for_no_flood_over_another_that_has_used_up_the_rate(two: Two) -> None:
    one, other = two
    one.route("image", window=16 << 20)
    other.route("alarm")
    here, there = one.here.domain, one.there.domain
    with (
        rtmw.Publisher("image", domain=here, reliability=RELIABLE) as images,
        rtmw.Publisher("alarm", domain=here, reliability=RELIABLE, priority=7) as alarms,
        rtmw.Subscriber("image", domain=there, reliability=RELIABLE) as seen,
        rtmw.Subscriber("alarm", domain=there, reliability=RELIABLE) as heard,
    ):
        for ends in two:
            ends.here.line.limit(RATE)
        images.publish(bytes(4 * RATE))
        wait_until(lambda: one.here.line.info()["sent"] > AT_ONCE)
        for _ in range(20):
            alarms.publish(b"fire")
            assert heard.receive(timeout=PATIENCE).value == b"fire"
        assert not seen.take_many(1)


def test_a_line_has_one_thread_and_all_lines_of_a_node_have_one_sender(
    domains: tuple[rtmw.Domain, rtmw.Domain],
) -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    before, end = threads(), End(domains[0])
    lines = [Line(end.bus) for _ in range(3)]
    assert threads() - before == 1 + 1 + len(lines)
    for line in lines:
        line.close()
    end.close()
    wait_until(lambda: threads() == before)


def pings(wire: Wire) -> int:
    """Frames of that kind in both directions."""
    return sum(kind == 8 for seen in wire.seen for kind in kinds(bytes(seen)))


def kinds(seen: bytes) -> Iterator[int]:
    while len(seen) >= 8:
        length, kind = struct.unpack_from("<HB", seen)
        yield kind
        seen = seen[length:]


def test_of_both_connections_of_a_line_that_rests_one_is_pinged_at_a_time(ends: Ends) -> None:
    silence, wires = 0.4, (Wire(), Wire())
    for end in (ends.here, ends.there):
        end.line.lease(int(silence * 1e9))
    begun = time.monotonic()
    ends.join(*wires)
    ends.up()
    time.sleep(5 * silence)  # nothing is to come in it but what is counted
    counted, quarters = sum(map(pings, wires)), 4 * (time.monotonic() - begun) / silence
    assert counted <= 4 + 2 * (quarters + 1), "one of each end in a quarter of the silence, besides the first ones"
    assert not [one for one in ends.here.look() + ends.there.look() if one[0] == "down"]


@pytest.mark.parametrize("priority", [0, 7])
def test_two_lines_share_the_rate_of_a_topic_of_which_each_would_take_all(two: Two, priority: int) -> None:
    routes = [ends.route("t", Reliability.TIMELY)[0] for ends in two]
    for route in routes:
        route.limit(0, 7, 0, RATE)

    def carried() -> list[int]:
        return [route.counters()["bytes"] for route in routes]

    with rtmw.Publisher("t", domain=two[0].here.domain, reliability=Reliability.TIMELY, priority=priority) as out:
        until = time.monotonic() + PATIENCE
        while sum(carried()) < 2 * RATE:
            out.publish(bytes(4096))
            time.sleep(0.001)
            assert time.monotonic() < until
    assert min(carried()) > 0.25 * sum(carried())


def test_a_message_of_many_frames_that_expires_on_its_way_is_counted_once(two: Two) -> None:
    """At its beginning by the clock of who receives, or at its end by that of who sends."""
    ends = two[0]
    outbound, inbound = ends.route("t", RELIABLE, window=16 << 20)
    here, there = ends.here.domain, ends.there.domain
    with (
        rtmw.Publisher("t", domain=here, reliability=RELIABLE, max_blocking=0.05, lifetime=0.0005) as out,
        rtmw.Subscriber("t", domain=there, reliability=RELIABLE) as into,
    ):
        until = time.monotonic() + PATIENCE
        while inbound.counters()["expired"] < 300 and time.monotonic() < until:
            out.publish(bytes(600_000))
            into.take_many(100)

        def come() -> int:
            into.take_many(100)
            return inbound.counters()["received"] + inbound.counters()["expired"]

        wait_until(lambda: come() >= outbound.counters()["sent"])
        assert come() == outbound.counters()["sent"]
