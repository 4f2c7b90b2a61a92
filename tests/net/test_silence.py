"""What nodes do while nothing is published: their work and traffic follow changes, and not the number of topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from tests.net.hosts import PATIENCE, wait_until
from tests.net.namespaces import obstacle
from tests.net.silence import Pair

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

TOPICS = 400
WATCHED_S = 5.0
CPU_MOST = 0.05
"""Part of a core: five times what it is, and a third of what looking at each topic ten times a second took."""
BYTES_MOST = 5000
"""A second, of both: eight times what it is, and a tenth of what telling each topic once a second took."""
RETURNED_LEAST = 0.3
"""Of the memory that topics had: most of what stays are the free lists of Python and of the DDS library."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(Path(tmp_path_factory.mktemp("silence")))
    yield made
    made.close()


# Proves G295.
def test_silent_topics_cost_no_more_than_none_in_work_and_traffic(pair: Pair) -> None:
    with pair.topics(TOPICS):
        wait_until(lambda: is_quiet(pair), "the nodes go on working though nothing changes")


def is_quiet(pair: Pair) -> bool:
    cost = pair.cost(WATCHED_S)
    return max(cost.cpu) < CPU_MOST and cost.bytes_per_second < BYTES_MOST


# Proves G295.
def test_the_memory_of_silent_topics_is_returned_when_they_end_and_does_not_grow_with_their_number(pair: Pair) -> None:
    before = pair.memory()
    with pair.topics(TOPICS):
        used = pair.memory()
    after_first = after = pair.memory()

    def is_returned() -> bool:
        nonlocal after
        after = pair.memory()
        return all(
            now < most - RETURNED_LEAST * (most - least) for least, most, now in zip(before, used, after, strict=True)
        )

    wait_until(is_returned, f"{before} before, {used} with {TOPICS} topics, {after_first} just after")
    for _ in range(2):
        with pair.topics(TOPICS):
            pass
    grown = [now - most for now, most in zip(pair.memory(), used, strict=True)]
    assert max(grown) < TOPICS * 10_000, f"{grown} bytes more than the first time"


def test_one_message_crosses_among_silent_topics(pair: Pair) -> None:
    here, there = pair.hosts
    with (
        pair.topics(TOPICS),
        rtmw.Subscriber("alarm", domain=there.domain) as alarms,
        rtmw.Publisher("alarm", domain=here.domain) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        for number in range(20):
            publisher.publish(b"%d" % number)
            assert alarms.receive(timeout=PATIENCE).value == b"%d" % number
