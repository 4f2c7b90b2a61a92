"""The books of a region at work: they balance at every look, and looking disturbs nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import rtmw
from rtmw import observe
from tests.books import assert_whole
from tests.child import Spawn
from tests.system.crowd import TOPICS, Crowd, is_whole

LOOKS = 50
WORKERS = 6


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """Whole again after each test."""
    with rtmw.Domain(domain_id, pool="2M", reserve=0) as attached:
        yield attached
        assert_whole(attached)


@pytest.fixture
def crowd(domain: rtmw.Domain, spawn: Spawn) -> Iterator[Crowd]:
    """Three publishers and three subscribers, one of each reliability or nearly so, at full speed."""
    workers = Crowd(spawn)
    for _ in range(WORKERS):
        workers.start()
    yield workers
    workers.end()


def published(domain: rtmw.Domain) -> int:
    return sum(topic.published for topic in observe.topics(domain) if topic.name in TOPICS)


def wait_for_traffic(domain: rtmw.Domain) -> int:
    until = time.monotonic() + 20.0
    while (count := published(domain)) < 1000 or len(observe.examine(domain).participants) <= WORKERS:
        assert time.monotonic() < until, "the crowd does not publish"
        time.sleep(0.01)
    return count


@pytest.mark.parametrize("fix", [False, True])
def test_examining_while_traffic_runs_finds_no_false_problem(fix: bool, domain: rtmw.Domain, crowd: Crowd) -> None:
    begin = wait_for_traffic(domain)
    for _ in range(LOOKS):
        books = observe.examine(domain, fix)
        assert books.problems == ()
        assert set(crowd.pids) <= {view.pid for view in books.participants if view.alive}
        assert len(books.participants) == WORKERS + 1
    assert published(domain) > begin


def test_looking_into_queues_and_topics_while_traffic_runs_shows_only_what_is_whole(
    domain: rtmw.Domain, crowd: Crowd
) -> None:
    begin = wait_for_traffic(domain)
    for _ in range(LOOKS):
        for topic in observe.topics(domain):
            sequences: dict[int, int] = {}
            for message in observe.queue(domain, topic.name):
                assert message.sequence > sequences.get(message.priority, 0)
                sequences[message.priority] = message.sequence
                assert message.publisher in crowd.pids
                if message.size <= len(message.preview):
                    assert is_whole(memoryview(message.preview))
    assert published(domain) > begin
    assert observe.examine(domain).problems == ()


BORROWING = """
    import rtmw
    publisher = rtmw.Publisher("big", reliability=rtmw.Reliability.TIMELY)
    print("ready")
    while True:
        for size in (1_000_000, 20_000, 700):
            loans = [publisher.loan(size) for _ in range(1 if size > 20_000 else 5)]
            for loan in loans:
                loan.drop()
"""


def test_examining_while_a_process_is_stopped_in_the_middle_of_an_allocation_finds_no_false_problem(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = spawn(BORROWING)
    assert child.line() == "ready"
    for _ in range(LOOKS):
        child.stop()
        assert observe.examine(domain).problems == ()
        child.cont()
        time.sleep(0.002)
    child.kill()
