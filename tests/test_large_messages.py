"""Large messages find room (requirement P5): no usual history of sizes keeps an eighth of the pool from being had."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

import rtmw
from rtmw import Reliability

POOL = 16 << 20
PAGE, GRANULE = 4096, 256
EIGHTH = POOL // 8
DEEP = 10_000


@pytest.fixture(autouse=True)
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """A domain all of which is open to every priority."""
    with rtmw.Domain(domain_id, pool=POOL, reserve=0) as attached:
        yield attached


def some_size(random: Random, largest: int) -> int:
    """Of each order of magnitude as often."""
    return int(2 ** random.uniform(8, math.log2(largest)))


def taken_of_the_pool(size: int) -> int:
    unit = GRANULE if size <= PAGE - GRANULE else PAGE
    return -(-size // unit) * unit


class Crowd:
    """Loans of random sizes that come and go, and never fill more than a part of the pool."""

    def __init__(self, random: Random, most: float) -> None:
        self._random, self._most = random, int(POOL * most)
        self._publisher = rtmw.Publisher("crowd", reliability=Reliability.RELIABLE, max_blocking=0)
        self._loans: list[tuple[rtmw.Loan, int]] = []
        self.bytes = 0

    def go_on(self, steps: int, largest: int) -> None:
        for _ in range(steps):
            size = some_size(self._random, largest)
            while self.bytes + taken_of_the_pool(size) > self._most:
                self.drop_one()
            self._loans.append((self._publisher.loan(size), taken_of_the_pool(size)))
            self.bytes += taken_of_the_pool(size)

    def drop_one(self) -> None:
        at = self._random.randrange(len(self._loans))
        self._loans[at], self._loans[-1] = self._loans[-1], self._loans[at]
        loan, size = self._loans.pop()
        loan.drop()
        self.bytes -= size


@pytest.mark.parametrize("kept", [1, 8, 16])
def test_small_messages_that_stay_are_no_obstacle(kept: int) -> None:
    """A hundred topics that keep 200 bytes each, now and then a new one, beside a stream of images."""
    random = Random(7)
    states = [rtmw.Publisher(f"state/{number}", history=kept) for number in range(100)]
    viewer, images = rtmw.Subscriber("image"), rtmw.Publisher("image")
    for number in range(12_000):
        images.publish(bytes(PAGE * random.randint(1, 16)))
        if number % 4 == 3:
            viewer.take_many(DEEP)
        if number % 5 == 0:
            assert states[number // 5 % 100].publish(bytes(200))
    viewer.take_many(DEEP)
    large = rtmw.Publisher("large")
    for part in (4, 8, 16):
        large.loan(POOL // part).drop()
    with suppress(rtmw.PoolExhausted):  # as large as can be: the states are left in their places
        large.loan(POOL - 100 * PAGE).drop()
    late = [rtmw.Subscriber(f"state/{number}", history=1) for number in range(100)]
    assert all(subscriber.take() for subscriber in late)


@pytest.mark.parametrize("largest", [POOL // 256, POOL // 64])
def test_an_eighth_is_had_whenever_three_eighths_are_free(largest: int) -> None:
    crowd, large = Crowd(Random(largest), 5 / 8), rtmw.Publisher("large")
    for _ in range(100):
        crowd.go_on(100, largest)
        large.loan(EIGHTH).drop()


def test_an_eighth_is_had_whenever_three_eighths_may_go() -> None:
    """Five eighths are lent out, and all else is full of what nobody has read."""
    random = Random(11)
    crowd, large = Crowd(random, 5 / 8), rtmw.Publisher("large", priority=7)
    crowd.go_on(1000, POOL // 64)
    unread = [rtmw.Subscriber(f"t/{number}", depth=DEEP) for number in range(20)]
    publishers = [rtmw.Publisher(f"t/{number}") for number in range(20)]
    for _ in range(30):
        for _ in range(200):
            random.choice(publishers).publish(bytes(some_size(random, POOL // 64)))
        large.loan(EIGHTH).drop()
    assert sum(subscriber.stats().missed for subscriber in unread) > 1000


def test_an_eighth_is_had_from_any_mixture_of_what_may_go() -> None:
    random = Random(5)
    unread = [rtmw.Subscriber(f"t/{number}", depth=DEEP) for number in range(20)]
    publishers = [rtmw.Publisher(f"t/{number}", priority=number % 7) for number in range(20)]
    large = rtmw.Publisher("large", priority=7)
    for _ in range(30):
        for _ in range(200):
            random.choice(publishers).publish(bytes(some_size(random, POOL // 16)))
        large.loan(EIGHTH).drop()
    assert sum(subscriber.stats().missed for subscriber in unread) > 1000
