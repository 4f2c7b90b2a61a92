"""How far a RELIABLE lane was carried, as a line leaves it to the next one: of what is lost in between all is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.link.library import Bus, Line, Route
from rtmw.net.neighbours import origin
from tests.child import Child, Spawn
from tests.net.link.ends import PATIENCE, WINDOW, End, Ends, wait_until

TOPIC, RELIABLE, LANE = "told", 2, 7
SMALL, LARGE = b"x", b"x" * 100
LEASE_NS = 50_000_000
MOMENT = 0.001
"""Seconds."""

Domains = tuple[rtmw.Domain, rtmw.Domain]


def open_out(line: Line, number: int = 1, depth: int = 4) -> Route:
    return line.outbound(number, TOPIC, None, RELIABLE, depth, 0, 0, LEASE_NS, LANE)


def open_in(ends: Ends, number: int, begins: int) -> Route:
    return ends.there.line.inbound(
        number, TOPIC, None, RELIABLE, 0, 64, 0, origin(ends.here.domain), False, WINDOW, begins=begins
    )


def publisher_at(domain: rtmw.Domain) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(TOPIC, domain=domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE)


def next_begins(domain: rtmw.Domain, carried: str) -> int:
    """Messages of the lane before the first route of the next node, as it tells the peer."""
    bus = Bus(domain.id, carried)
    line = Line(bus)
    route = open_out(line)
    try:
        return route.begins()
    finally:
        route.close()
        line.close()
        bus.close()


class Linked:
    """Two ends in a process of their own, which can be stopped and killed. No message larger than SMALL may be sent."""

    def __init__(self, spawn: Spawn, domains: Domains, carried: str) -> None:
        self.process: Child = spawn(f"""
            import sys

            import rtmw
            from tests.net.link.ends import End, Ends
            from tests.net.link.test_told import SMALL, open_in, open_out

            here, there = (rtmw.Domain(number) for number in {[domain.id for domain in domains]})
            ends = Ends(End(here, carried={carried!r}), End(there))
            route = open_out(ends.here.line)
            route.limit(0, 7, len(SMALL))
            ends.routes += [route, open_in(ends, 1, route.begins())]
            ends.join()
            print("joined")
            for name in sys.stdin:
                count = route.counters()[name.strip()]
                print(count * route.delivered())
        """)
        assert self.process.line() == "joined"

    def counted(self, name: str) -> int:
        """One of the counters of the route; 0 while it has something to send."""
        self.process.send(name)
        return int(self.process.line())

    def stand_still(self, publisher: rtmw.Publisher[bytes], behind: str) -> None:
        """For longer than the lease. Then the bus has only messages that the route passes over, counted as `behind`."""
        assert publisher.publish(SMALL)
        wait_until(lambda: self.counted("sent") == 1)
        self.process.stop()
        for _ in range(1000):
            assert publisher.publish(SMALL)
        for _ in range(1000):
            assert publisher.publish(LARGE) if behind == "size" else publisher.publish(SMALL, lifetime=MOMENT)
        over = time.monotonic() + MOMENT
        wait_until(lambda: time.monotonic() > over)
        self.process.cont()
        wait_until(lambda: self.counted(behind))
        assert self.counted("sent") == 1


@pytest.mark.parametrize("behind", ["size", "expired"])
def test_what_the_bus_could_not_keep_is_told_by_the_next_node_though_nothing_was_sent_behind_it(
    domains: Domains, spawn: Spawn, tmp_path: Path, behind: str
) -> None:
    carried = str(tmp_path / "carried")
    linked = Linked(spawn, domains, carried)
    with publisher_at(domains[0]) as publisher:
        linked.stand_still(publisher, behind)
        linked.process.kill()
        assert next_begins(domains[0], carried) == 2001


def test_what_was_told_with_the_next_message_is_not_told_again_by_the_next_node(
    domains: Domains, spawn: Spawn, tmp_path: Path
) -> None:
    carried = str(tmp_path / "carried")
    linked = Linked(spawn, domains, carried)
    with publisher_at(domains[0]) as publisher:
        linked.stand_still(publisher, "size")
        assert publisher.publish(SMALL)
        wait_until(lambda: linked.counted("sent") == 2)
        missed, withheld = linked.counted("missed"), linked.counted("size")
        assert publisher.publish(LARGE)
        wait_until(lambda: linked.counted("size") > withheld)
        linked.process.kill()
        assert next_begins(domains[0], carried) == missed + 2


@pytest.fixture
def ends(domains: Domains, tmp_path: Path) -> Iterator[Ends]:
    """Two lines that write how far they carry, joined."""
    both = Ends(*(End(domain, carried=f"{tmp_path}/{domain.id}") for domain in domains))
    both.join()
    yield both
    both.close()


def test_what_is_published_while_a_route_opens_is_carried_by_it(ends: Ends, spawn: Spawn) -> None:
    """Nobody at the peer asks for kept messages: what comes as one of those is neither delivered nor told."""
    source = spawn(f"""
        import rtmw

        with rtmw.Domain({ends.here.domain.id}) as domain:
            publisher = rtmw.Publisher({TOPIC!r}, domain=domain, reliability=rtmw.Reliability.RELIABLE)
            print("publishes")
            while True:
                publisher.publish(b"x")
    """)
    assert source.line() == "publishes"
    for number in range(1, 101):
        route = open_out(ends.here.line, number, depth=100_000)  # so that the publisher does not wait
        into = open_in(ends, number, route.begins())
        ends.routes += [route, into]
        wait_until(lambda into=into: into.counters()["received"])
        assert into.counters()["old"] == 0
        route.close()
        into.close()
