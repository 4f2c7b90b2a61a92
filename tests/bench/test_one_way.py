"""How a rate comes about from what arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from bench.questions.one_way import BATCH, WINDOW, drain_each, drain_many, rates


def taker(items: Iterator[Any]) -> Callable[[], Any]:
    return lambda: next(items)


def test_a_rate_is_of_a_window() -> None:
    marks = [number * WINDOW // 2 for number in range(5)]
    assert rates(marks) == pytest.approx([2 * BATCH * 1000 / WINDOW] * 2)


def test_a_pause_lowers_the_rate_of_its_own_window_only() -> None:
    marks = [0, WINDOW, 3 * WINDOW, 4 * WINDOW]
    usual = BATCH * 1000 / WINDOW
    assert rates(marks) == pytest.approx([usual, usual / 2, usual])


def test_less_than_a_window_has_no_rate() -> None:
    assert rates([]) == rates([0]) == rates([0, WINDOW - 1]) == []


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1, 3 * BATCH])
def test_everything_that_comes_one_by_one_is_counted_and_marked(count: int) -> None:
    read: list[int] = []
    seen, marks = drain_each(taker(chain(range(1, count + 1), repeat(None))), read.append)
    assert (seen, len(marks)) == (count, count // BATCH)
    assert read == list(range(1, count + 1))


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1, 3 * BATCH])
def test_everything_that_comes_many_at_a_time_is_counted_and_marked(count: int) -> None:
    left = list(range(1, count + 1))

    def take_many(limit: int) -> list[int]:
        taken = left[: min(limit, 70)]
        del left[: len(taken)]
        return taken

    read: list[int] = []
    seen, marks = drain_many(take_many, read.append)
    assert (seen, len(marks)) == (count, count // BATCH)
    assert read == list(range(1, count + 1))
