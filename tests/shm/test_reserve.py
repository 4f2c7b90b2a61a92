"""The reserve (requirements P2, P3): a part of the pool that what RELIABLE subscribers need cannot fill."""

from __future__ import annotations

import inspect
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
from rtmw import Reliability
from tests.bus import taken

RELIABLE = Reliability.RELIABLE
POOL = 1 << 20
PAGE = 4096
PAGES = POOL // PAGE
DESCRIPTORS = 1024
DEEP = 10_000
HEADER = Path(rtmw.__file__).with_name("shm") / "rtmw.h"


@dataclass
class Frame(IdlStruct, typename="Frame"):
    """A message that is large enough to be encoded where it will lie."""

    image: types.sequence[types.uint8]


sizes = pytest.mark.parametrize(("size", "all_in_all"), [(8, DESCRIPTORS), (PAGE, PAGES)], ids=["descriptors", "pool"])
ladders = pytest.mark.parametrize(
    ("reserve", "shares"),
    [
        (None, (28, 28, 28, 28, 29, 30, 31, 32)),
        (0.125, (28, 28, 28, 28, 29, 30, 31, 32)),
        (0.5, (16, 16, 16, 16, 20, 24, 28, 32)),
        (0, (32,) * 8),
    ],
    ids=["default", "an eighth", "half", "none"],
)


def small_domain(number: int, reserve: float | None) -> rtmw.Domain:
    return rtmw.Domain(number, pool=POOL) if reserve is None else rtmw.Domain(number, pool=POOL, reserve=reserve)


def fill(publisher: rtmw.Publisher[bytes], size: int, **qos: Any) -> int:
    """Publishes until it is refused; how many."""
    count = 0
    while publisher.publish(bytes(size), **qos):
        count += 1
    return count


def loans_there_are(publisher: rtmw.Publisher[bytes], size: int) -> list[rtmw.Loan]:
    """Loans until there is no more memory for one."""
    loans: list[rtmw.Loan] = []
    with suppress(rtmw.PoolExhausted):
        while True:
            loans.append(publisher.loan(size))
    return loans


@sizes
@ladders
# Proves G66.
def test_each_priority_may_fill_its_share_with_what_reliable_subscribers_have_not_read(
    domain_id: int, reserve: float | None, shares: tuple[int, ...], size: int, all_in_all: int
) -> None:
    with small_domain(domain_id, reserve):
        subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP)
        publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
        filled = [fill(publisher, size, priority=priority) for priority in range(8)]
        expected = [after - before for before, after in pairwise((0, *shares))]
        assert [count * 32 / all_in_all for count in filled] == expected
        assert publisher.stats().exhausted == 8
        assert len(taken(subscriber)) == sum(filled)
        assert subscriber.stats().missed == 0


@sizes
@ladders
# Proves G66.
def test_loans_are_within_the_same_bounds(
    domain_id: int, reserve: float | None, shares: tuple[int, ...], size: int, all_in_all: int
) -> None:
    with small_domain(domain_id, reserve):
        loans: list[rtmw.Loan] = []
        for priority, share in enumerate(shares):
            publisher = rtmw.Publisher("t", priority=priority, reliability=RELIABLE, max_blocking=0)
            loans += loans_there_are(publisher, size)
            assert len(loans) * 32 / all_in_all == share, priority
        for loan in loans:
            loan.drop()


def test_a_loan_for_an_urgent_message_may_use_what_its_own_priority_may(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool=POOL):
        publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0)
        loans = [publisher.loan(PAGE) for _ in range(PAGES * 7 // 8)]
        with pytest.raises(rtmw.PoolExhausted):
            publisher.loan(PAGE)
        urgent = publisher.loan(PAGE, priority=7)
        assert urgent.publish()
        for loan in loans:
            loan.drop()


def test_a_large_typed_message_may_use_what_its_own_priority_may(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool=POOL):
        _subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=DEEP)
        fill(rtmw.Publisher("t", reliability=RELIABLE, max_blocking=0), PAGE)
        frames = rtmw.Publisher("frames", Frame)
        frame = Frame(list(bytes(60_000)))
        assert [frames.publish(frame), frames.publish(frame, priority=7)] == [False, True]


@pytest.mark.parametrize("count", [DESCRIPTORS, PAGES])
def test_what_gives_way_does_so_before_the_reserve_is_used_up(domain_id: int, count: int) -> None:
    """Else a burst of urgent messages would find it full of the urgent messages before it."""
    with rtmw.Domain(domain_id, pool=POOL):
        low, high = rtmw.Subscriber("low", depth=DEEP), rtmw.Subscriber("high", depth=DEEP)
        size = POOL // count if count == PAGES else 8
        publisher = rtmw.Publisher("low")
        for _ in range(count):
            assert publisher.publish(bytes(size))
        urgent = rtmw.Publisher("high", priority=7)
        for _ in range(count * 7 // 8):
            assert urgent.publish(bytes(size))
        assert high.stats().missed == 0
        assert len(taken(low)) < count // 4


@pytest.mark.parametrize("priority", range(8))
def test_a_message_that_is_larger_than_what_its_priority_may_use_is_refused_with_what_to_do(
    domain_id: int, priority: int
) -> None:
    open_to_it = PAGE * (PAGES * (28, 28, 28, 28, 29, 30, 31, 32)[priority] // 32)
    with rtmw.Domain(domain_id, pool=POOL), rtmw.Publisher("t", priority=priority) as publisher:
        publisher.loan(open_to_it).drop()
        with pytest.raises(rtmw.MessageTooLarge, match=r"larger pool.*smaller reserve"):
            publisher.loan(open_to_it + 1)


def test_what_is_made_first_decides_about_the_reserve(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool=POOL, reserve=0.25) as first, rtmw.Domain(domain_id, reserve=0.5) as second:
        assert (first.reserve, second.reserve) == (0.25, 0.25)


def test_programs_in_c_ask_for_the_same_reserve_as_those_in_python() -> None:
    (defined,) = re.findall(r"^#define RTMW_RESERVE (\d+)u", HEADER.read_text(), re.MULTILINE)
    assert int(defined) / 1024 == inspect.signature(rtmw.Domain).parameters["reserve"].default


@pytest.mark.parametrize("reserve", [-0.01, 0.51, 1, 12.5, True, False, math.nan, math.inf, "12%", None])
def test_a_reserve_that_cannot_be_is_refused_in_words(domain_id: int, reserve: Any) -> None:
    with pytest.raises(ValueError, match=rf"^a reserve of {re.escape(repr(reserve))} is not possible.*from 0 to 0\.5"):
        rtmw.Domain(domain_id, pool=POOL, reserve=reserve)
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)
