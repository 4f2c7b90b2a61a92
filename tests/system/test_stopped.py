"""SIGSTOP: the others go on, and who goes on again after SIGCONT knows exactly what it missed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import pytest

import rtmw
from rtmw import Reliability
from tests.books import assert_whole, examine
from tests.child import Child, Spawn
from tests.system.crowd import TOPICS, Crowd, message

PATIENCE = 20.0
STOPS = 20
DEPTH = 16


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """Whole again after each test."""
    with rtmw.Domain(domain_id, pool="2M", reserve=0) as attached:
        yield attached
        assert_whole(attached)


def subscriber(spawn: Spawn, reliability: Reliability, lease: float | None = None) -> Child:
    """Takes all it can when it is told to, and reports payloads, misses, and leases that ran out."""
    child = spawn(
        f"""
        import json, rtmw
        subscriber = rtmw.Subscriber(
            "a", reliability=rtmw.Reliability.{reliability.name}, depth={DEPTH}, lease={lease}
        )
        print("ready")
        while input() == "report":
            got, lapses = [], []
            while True:
                try:
                    samples = subscriber.take_many(100_000)
                except rtmw.LeaseExpired as error:
                    lapses.append(error.missed)
                    continue
                if not samples:
                    break
                got += [int(sample.value) for sample in samples]
            print(json.dumps([got, subscriber.stats().missed, lapses]))
        """
    )
    assert child.line() == "ready"
    return child


def report(child: Child) -> tuple[list[int], int, list[int]]:
    child.send("report")
    got, missed, lapses = json.loads(child.line())
    return got, missed, lapses


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


@pytest.mark.parametrize("offered", list(Reliability), ids=lambda offered: offered.name)
def test_a_stopped_timely_subscriber_delays_nobody_and_counts_what_it_missed(
    offered: Reliability, domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = subscriber(spawn, Reliability.TIMELY)
    with (
        rtmw.Publisher("a", domain=domain, reliability=offered, max_blocking=None) as publisher,
        rtmw.Subscriber("a", domain=domain, depth=5000) as other,
    ):
        assert publisher.publish_many(numbers(0, 10)) == 10
        assert report(child) == (list(range(10)), 0, [])
        child.stop()
        begin = time.monotonic()
        assert publisher.publish_many(numbers(10, 1010)) == 1000
        assert time.monotonic() - begin < PATIENCE / 2
        assert [sample.value for sample in other.take_many(5000)] == numbers(0, 1010)
        child.cont()
        assert report(child) == (list(range(1010 - DEPTH, 1010)), 1000 - DEPTH, [])
        assert publisher.publish_many(numbers(1010, 1013)) == 3
        assert report(child) == ([1010, 1011, 1012], 1000 - DEPTH, [])
    child.kill()


def test_a_stopped_adaptive_subscriber_keeps_what_the_pool_can_spare_and_counts_the_rest(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = subscriber(spawn, Reliability.ADAPTIVE)
    with rtmw.Publisher("a", domain=domain, max_blocking=None) as publisher:
        child.stop()
        assert publisher.publish_many(numbers(0, 500)) == 500
        child.cont()
        assert report(child) == (list(range(500)), 0, [])
        child.stop()
        assert publisher.publish_many(numbers(500, 10_500)) == 10_000
        child.cont()
        got, missed, lapses = report(child)
        assert got == list(range(10_500 - len(got), 10_500))
        assert len(got) + missed == 10_000
        assert DEPTH <= len(got) <= examine(domain).descriptors
        assert lapses == []
    child.kill()


def test_a_stopped_reliable_subscriber_misses_nothing_and_publishers_are_told(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = subscriber(spawn, Reliability.RELIABLE)
    with (
        rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=0.1) as publisher,
        rtmw.Subscriber("b", domain=domain) as other,
        rtmw.Publisher("b", domain=domain) as elsewhere,
    ):
        child.stop()
        assert publisher.publish_many(numbers(0, 1000)) == DEPTH
        assert not publisher.publish(b"-1")
        assert publisher.stats().timed_out == 2
        assert elsewhere.publish(b"other topics go on")
        assert other.receive(PATIENCE).value == b"other topics go on"
        child.cont()
        assert report(child) == (list(range(DEPTH)), 0, [])
        assert publisher.publish_many(numbers(DEPTH, DEPTH + 5)) == 5
        assert report(child) == (list(range(DEPTH, DEPTH + 5)), 0, [])
    child.kill()


# Proves G22.
def test_a_reliable_subscriber_that_stands_still_for_its_lease_lets_publishers_go_on_and_is_told(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = subscriber(spawn, Reliability.RELIABLE, lease=0.2)
    with (
        rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE) as publisher,
        rtmw.Subscriber("a", domain=domain, reliability=Reliability.RELIABLE, depth=5000) as other,
    ):
        child.stop()
        begin = time.monotonic()
        assert publisher.publish_many(numbers(0, 500)) == 500
        assert 0.19 <= time.monotonic() - begin < PATIENCE / 2  # its clock is a coarse one
        assert publisher.stats().timed_out == 0
        assert [sample.value for sample in other.take_many(5000)] == numbers(0, 500)
        child.cont()
        got, missed, lapses = report(child)
        assert lapses == [missed]
        assert len(got) + missed == 500
        assert got == list(range(500 - len(got), 500))
        assert publisher.publish_many(numbers(500, 500 + DEPTH)) == DEPTH
        assert report(child) == (list(range(500, 500 + DEPTH)), missed, [])
    child.kill()


# Proves G23.
def test_a_lease_does_not_run_while_nobody_waits(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = subscriber(spawn, Reliability.RELIABLE, lease=0.1)
    with rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE) as publisher:
        child.stop()
        assert publisher.publish_many(numbers(0, DEPTH - 1)) == DEPTH - 1
        time.sleep(0.4)
        assert publisher.publish(b"99")
        child.cont()
        assert report(child) == ([*range(DEPTH - 1), 99], 0, [])
    child.kill()


# Proves G22.
def test_a_lease_runs_for_a_publisher_that_only_tries(domain: rtmw.Domain, spawn: Spawn) -> None:
    child, lease = subscriber(spawn, Reliability.RELIABLE, lease=0.1), 0.1
    with rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=0) as publisher:
        child.stop()
        assert publisher.publish_many(numbers(0, DEPTH + 1)) == DEPTH
        begin = time.monotonic()
        while not publisher.publish(b"99"):
            assert time.monotonic() - begin < PATIENCE
        assert time.monotonic() - begin >= 0.9 * lease
    child.kill()


COUNTING = """
    import rtmw
    publisher = rtmw.Publisher("a", reliability=rtmw.Reliability.{name}, max_blocking=0.01, priority=1)
    print("ready"); input()
    number = 0
    while number < 50_000_000:
        number += publisher.publish(b"%d" % number)
"""


@pytest.mark.parametrize("reliability", list(Reliability), ids=lambda reliability: reliability.name)
def test_while_a_publisher_is_stopped_at_any_instruction_others_publish_and_take_and_then_it_goes_on(
    reliability: Reliability, domain: rtmw.Domain, spawn: Spawn
) -> None:
    child, choice = spawn(COUNTING.format(name=reliability.name)), random.Random(7)
    assert child.line() == "ready"
    with (
        rtmw.Subscriber("a", domain=domain, reliability=reliability, depth=DEPTH) as sub,
        rtmw.Publisher("a", domain=domain, reliability=reliability, max_blocking=PATIENCE, priority=1) as mine,
    ):
        child.send()
        received: list[int] = []
        for stop in range(STOPS):
            child.stop()
            received += [int(sample.value) for sample in sub.take_many(1_000_000)]
            assert mine.publish(b"-%d" % (stop + 1))
            while (value := int(sub.receive(PATIENCE).value)) >= 0:
                received.append(value)
            assert value == -(stop + 1)
            child.cont()
            pause = time.monotonic() + choice.random() * 0.02
            while time.monotonic() < pause:
                received += [int(sample.value) for sample in sub.take_many(5)]
        child.kill()
        received += [int(sample.value) for sample in sub.take_many(1_000_000)]
        assert received == sorted(set(received))
        missed = sub.stats().missed
        assert received[-1] + 1 == len(received) + missed
        assert (missed == 0) or reliability is not Reliability.RELIABLE


def test_processes_stopped_at_any_instruction_delay_nobody(domain: rtmw.Domain, spawn: Spawn) -> None:
    crowd, choice = Crowd(spawn), random.Random(3)
    for _ in range(6):
        crowd.start()
    with rtmw.Publisher(TOPICS[0], domain=domain) as publisher, rtmw.Subscriber(TOPICS[0], domain=domain) as sub:
        for _ in range(STOPS):
            time.sleep(choice.random() * 0.03)
            stopped = choice.sample(crowd.pids, 3)
            for pid in stopped:
                crowd.stop(pid)
            mine, until = message(8), time.monotonic() + PATIENCE
            while not publisher.publish(mine, priority=7):
                assert time.monotonic() < until, "the pool was never free again"
            while sub.receive(PATIENCE).data != mine:
                assert time.monotonic() < until, "the message never came"
            for pid in stopped:
                crowd.cont(pid)
    crowd.end()
