"""Best-effort and reliable endpoints on one topic, in plain programs and here: no pair has less than its two offer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.net.foreign.build import HERE
from tests.net.foreign.peer import Peer
from tests.net.hosts import PATIENCE, Host, wait_until
from topics.river import Quality, Reading

TIMELY, RELIABLE = Reliability.TIMELY, Reliability.RELIABLE
COUNT = 30
BEST_EFFORT_FROM = 100
"""Numbers from here on are best effort, those below reliable."""


def reading(number: int) -> Reading:
    return Reading("s1", "pH", float(number), Quality.GOOD, number)


@pytest.fixture(scope="module")
def plain(host: Host, compiled: Path) -> Iterator[Peer]:
    """A program of cyclonedds beside `peer`."""
    command = [sys.executable, str(HERE / "plain.py"), str(host.dds_domain)]
    program = Peer("cyclonedds", command, compiled, host.log.with_name("beside.log"))
    yield program
    program.end()


class Reader:
    """A reader of a plain program, and the numbers it has read."""

    def __init__(self, peer: Peer, topic: str, best_effort: int) -> None:
        self._peer, self._topic = peer, topic
        self._number = {peer.value(reading(n)): n for n in range(2 * BEST_EFFORT_FROM)}
        self.numbers = list[int]()
        peer.open("reader", topic, Reading, best_effort=best_effort)

    def take(self) -> None:
        for _ in range(self._peer.said(self._topic, "sample")):
            self.numbers.append(self._number[self._peer.next(self._topic, "sample")])

    def has(self, number: int) -> bool:
        self.take()
        return number in self.numbers


def parted(numbers: list[int]) -> tuple[list[int], list[int]]:
    """Reliable ones, best-effort ones."""
    return [n for n in numbers if n < BEST_EFFORT_FROM], [n for n in numbers if n >= BEST_EFFORT_FROM]


def test_plain_readers_hear_each_publisher_as_both_offer(host: Host, peer: Peer, plain: Peer, topic: str) -> None:
    whole, some = Reader(peer, topic, best_effort=0), Reader(plain, topic, best_effort=1)
    with (
        rtmw.Publisher(topic, Reading, domain=host.domain, reliability=RELIABLE, max_blocking=PATIENCE) as reliable,
        rtmw.Publisher(topic, Reading, domain=host.domain, reliability=TIMELY) as timely,
    ):
        for publisher, readers in ((reliable, 2), (timely, 1)):
            assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
            wait_until(partial(is_read_by, host, publisher, readers), "they are not read by all")
        for number in range(COUNT):
            assert reliable.publish(reading(number))
            timely.publish(reading(BEST_EFFORT_FROM + number))
        wait_until(lambda: whole.has(COUNT - 1), "the last reliable one does not arrive")

        def is_heard() -> bool:
            some.take()
            return all(parted(some.numbers))

        wait_until(is_heard, "nothing of one of the two arrives at the best-effort reader")
    assert whole.numbers == [*range(COUNT)]
    for numbers in parted(some.numbers):
        assert numbers == sorted(set(numbers))


def is_read_by(host: Host, publisher: rtmw.Publisher[Reading], readers: int) -> bool:
    lane = (publisher.topic, publisher.reliability.name)
    rows = [row for row in host.info()["out"] if (row["topic"], row["reliability"]) == lane]
    return sum(row["readers"] for row in rows) == readers


def test_plain_writers_are_heard_as_both_offer(host: Host, peer: Peer, plain: Peer, topic: str) -> None:
    peer.open("writer", topic, Reading)
    plain.open("writer", topic, Reading, best_effort=1)
    with (
        rtmw.Subscriber(topic, Reading, domain=host.domain, reliability=RELIABLE, depth=4 * COUNT) as strict,
        rtmw.Subscriber(topic, Reading, domain=host.domain, reliability=TIMELY, depth=4 * COUNT) as lax,
    ):
        wait_until(
            lambda: peer.next(topic, "matched") == "2", "not read for both"
        )  # a best-effort reader takes from all
        assert plain.next(topic, "matched") == "1"
        for number in range(COUNT):
            peer.write(topic, reading(number))
            plain.write(topic, reading(BEST_EFFORT_FROM + number))
        heard: dict[rtmw.Subscriber[Reading], list[int]] = {strict: [], lax: []}

        def is_over() -> bool:
            for subscriber, numbers in heard.items():
                numbers += [sample.value.measured_ns for sample in subscriber.take_many(1000)]
            return all(COUNT - 1 in numbers for numbers in heard.values()) and bool(parted(heard[lax])[1])

        wait_until(is_over, "not all is heard")
        assert heard[strict] == [*range(COUNT)]
        for numbers in parted(heard[lax]):
            assert numbers == sorted(set(numbers))
        assert strict.stats().unmatched > 0
