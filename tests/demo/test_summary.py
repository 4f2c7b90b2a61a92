"""`rtmw.demo.course`: the check at the end of the demonstration."""

from __future__ import annotations

from typing import Any

import pytest

from rtmw.demo import course
from rtmw.observe import Books


def account(**changes: int) -> dict[str, Any]:
    counts = {"received": 60, "missed": 30, "expired": 10, "thinned": 0, "unmatched": 0, "silences": 2}
    return {"topic": "t", "seen": 60, "latency_us": [10.0, 20.0, 30.0], **counts, **changes}


def reports(**changes: int) -> tuple[course.Reports, course.Reports]:
    publishers = {
        "a": {"topics": {"t": {"published": 40, "refused": 1}}},
        "b": {"topics": {"t": {"published": 60, "refused": 2}}},
    }
    return publishers, {"display": {"accounts": [account(**changes)]}}


BOOKS = Books("1", 8, 8, 0, 0, 0, 16, 0, 0, ())


def test_numbers_that_agree_end_with_status_0_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert course.show_summary(*reports(), [BOOKS, BOOKS]) == 0
    shown = capsys.readouterr().out
    assert "The numbers agree for all 1 subscribers" in shown
    assert "The books balance" in shown
    assert "100" in shown


def test_a_message_that_is_not_accounted_for_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert course.show_summary(*reports(missed=29), [BOOKS]) == 1
    assert "Problem: 100 were published on t, but display accounts for 99." in capsys.readouterr().out


def test_a_counter_that_differs_from_what_was_taken_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert course.show_summary(*reports(seen=59), [BOOKS]) == 1
    assert "display took 59 of t, but its counter says 60" in capsys.readouterr().out


def test_books_that_do_not_balance_are_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    books = Books("1", 8, 7, 0, 0, 0, 16, 0, 0, (), problems=("descriptor 3 is nowhere",))
    assert course.show_summary(*reports(), [BOOKS, books]) == 1
    assert "Problem: descriptor 3 is nowhere" in capsys.readouterr().out


def test_a_subscriber_that_got_nothing_has_no_latency() -> None:
    row = course.latency_table({"alarms": {"accounts": [account() | {"latency_us": []}]}}).rows[0]
    assert list(row[2:5]) == [None, None, None]
