"""The log of a daemon: a message is one line, and no kind of message fills it."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from rtmw.text.daemon_log import BOUNDED_BEFORE, LINES_MOST, WINDOW_S, DaemonLog, VisibleLines, many, of_user
from tests.clocks import Moved


class Logged:
    """A log of the test's own, and what it has written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, form: logging.Formatter) -> None:
        self.clock, self._written = Moved(), io.StringIO()
        monkeypatch.setattr(sys, "stderr", self._written)
        self.handler = DaemonLog(form, self.clock)
        self.log = logging.Logger("test")
        self.log.addHandler(self.handler)

    def flood(self, lines: int, **extra: object) -> None:
        for number in range(lines):
            self.log.warning("flood %d", number, extra=extra or None)

    def lines(self) -> list[str]:
        """Those since the last call."""
        found = self._written.getvalue().splitlines()
        self._written.seek(0)
        self._written.truncate()
        return found


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logged]:
    made = Logged(monkeypatch, VisibleLines("%(message)s"))
    yield made
    made.handler.close()


# Proves G290.
def test_a_kind_has_sixty_lines_a_minute_of_which_the_last_says_how_many_more_there_were(logged: Logged) -> None:
    logged.flood(49_000)
    logged.log.warning("another kind")
    lines = logged.lines()
    assert lines[: LINES_MOST - 1] == [f"flood {number}" for number in range(LINES_MOST - 1)]
    assert lines[LINES_MOST - 1 :] == ["another kind"]
    logged.clock.pass_by(WINDOW_S)
    logged.handler.say_more()
    (last,) = logged.lines()
    assert last == "48941 more lines of this kind within a minute, the last of them: flood 48999"
    logged.flood(1)
    assert logged.lines() == ["flood 0"]


def test_the_next_line_and_the_end_of_the_log_say_it_too(logged: Logged) -> None:
    logged.flood(LINES_MOST + 1)
    logged.clock.pass_by(WINDOW_S)
    logged.flood(LINES_MOST)
    assert logged.lines()[LINES_MOST - 1 : LINES_MOST + 1] == [
        f"2 more lines of this kind within a minute, the last of them: flood {LINES_MOST}",
        "flood 0",
    ]
    logged.handler.close()
    assert logged.lines() == [f"1 more lines of this kind within a minute, the last of them: flood {LINES_MOST - 1}"]


def test_few_lines_have_no_line_that_counts_them(logged: Logged) -> None:
    logged.flood(LINES_MOST - 1)
    logged.clock.pass_by(WINDOW_S)
    logged.handler.say_more()
    assert len(logged.lines()) == LINES_MOST - 1


def test_a_line_may_stand_for_many(logged: Logged) -> None:
    logged.flood(1, **many(1000))
    logged.clock.pass_by(WINDOW_S)
    logged.handler.say_more()
    assert logged.lines()[1].startswith("999 more lines")


def test_lines_that_another_daemon_has_bounded_all_pass(logged: Logged) -> None:
    logged.flood(LINES_MOST * 2, **BOUNDED_BEFORE)
    assert len(logged.lines()) == LINES_MOST * 2


# Proves G290.
def test_a_message_is_one_line_in_which_nothing_acts(logged: Logged) -> None:
    logged.log.warning("host %s", "a\x1b[31m\u202e\nrtmw node: stopped")
    assert logged.lines() == [r"host a\x1b[31m\u202e\nrtmw node: stopped"]


def test_lines_of_a_traceback_are_indented_and_visible(logged: Logged) -> None:
    try:
        raise ValueError("a\x1b[31m\nrtmw node: stopped")
    except ValueError:
        logged.log.warning("odd", exc_info=True)
    first, *others = logged.lines()
    assert first == "odd"
    assert others
    assert all(line.startswith("  ") and "\x1b" not in line for line in others)


def test_as_json_it_is_bounded_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    from rtmw.cli.node import _Lines

    made = Logged(monkeypatch, _Lines())
    made.flood(LINES_MOST * 2)
    made.handler.close()
    lines = [json.loads(line)["message"] for line in made.lines()]
    assert len(lines) == LINES_MOST
    assert lines[-1].startswith(f"{LINES_MOST + 1} more lines")


def test_lines_that_a_user_brings_about_are_counted_for_that_user(logged: Logged) -> None:
    logged.flood(500, **of_user("uid:1"))
    logged.flood(1, **of_user("uid:2"))
    assert logged.lines() == [*(f"flood {number}" for number in range(LINES_MOST - 1)), "flood 0"]
