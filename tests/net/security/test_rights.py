"""Rights in a running program: denials counted, rules swapped as a whole, open routes that must close, and the cost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rtmw.net.security import RulesError
from rtmw.net.security.rules import KEPT, OTHERS, TOLD_MOST, Rights, Route, Rule, RuleTable, revoked
from rtmw.net.security.tables import read_rules
from rtmw.observe.node_status import Denial
from tests.net.security.cost import kept_over_lookup

PRESS = "rtmw://plant/press-7"
RULE = '[[allow]]\npeer = "*"\npublish = ["{node}/*"]\nmax_priority = 5\nmax_size = "1K"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(RULE)
    return path


def test_denials_are_counted_by_cause_and_told_as_rows(file: Path) -> None:
    rights = Rights(read_rules(file))
    assert rights.verdict(PRESS, "publish", "press-7/a", priority=5, size=1024).allowed
    for priority, size in ((6, 0), (7, 0), (0, 1025)):
        assert not rights.verdict(PRESS, "publish", "press-7/a", priority=priority, size=size).allowed
    rights.verdict(PRESS, "publish", "other")
    assert rights.causes() == {"priority": 2, "size": 1, "subject": 1}
    assert rights.denials()[0] == Denial(PRESS, "publish", "priority", 2, "press-7/a", f"{file}, line 1")


def test_denials_of_many_peers_are_bounded_and_none_is_lost(file: Path) -> None:
    rights = Rights(read_rules(file))
    for number in range(TOLD_MOST + 50):
        rights.verdict(f"rtmw://plant/n{number}", "publish", "x")
    rows = rights.denials()
    assert len(rows) == TOLD_MOST + 1
    assert (rows[-1].peer, rows[-1].number) == (OTHERS, 50)
    assert rights.causes() == {"subject": TOLD_MOST + 50}


def test_kept_verdicts_are_bounded(file: Path) -> None:
    rights = Rights(read_rules(file))
    for number in range(KEPT + 100):
        assert rights.verdict(PRESS, "publish", f"press-7/{number}").allowed
    assert rights._judge.cache_info().currsize == KEPT  # type: ignore[attr-defined]


def test_new_rules_hold_from_the_next_verdict_on(file: Path) -> None:
    rights = Rights(read_rules(file))
    first = rights.verdict(PRESS, "publish", "press-7/a")
    file.write_text(RULE.replace("{node}/*", "b"))
    before = rights.swap(read_rules(file))
    assert before is not None
    assert before.version == first.version != rights.table.version
    denied = rights.verdict(PRESS, "publish", "press-7/a")
    assert (denied.allowed, denied.version) == (False, rights.table.version)


def test_a_broken_file_changes_nothing_and_is_named_with_its_line(file: Path) -> None:
    rights = Rights(read_rules(file))
    table = rights.table
    file.write_text('[[allow]]\npeer = "*"\nsubscribe = ["*"]\n' + RULE + "max_rate = 'fast'\n")
    with pytest.raises(RulesError, match=r"node.toml, line 9: max_rate cannot be used"):
        rights.swap(read_rules(file))
    assert rights.table is table
    assert not rights.verdict(PRESS, "subscribe", "x").allowed


def test_open_routes_that_new_rules_do_not_allow_are_named_with_the_reason() -> None:
    old = RuleTable((Rule(("*",), {"publish": ("*",)}),))
    new = RuleTable((Rule(("*",), {"publish": ("*",)}, deny=("a/*",), max_priority=3, place="f, line 1"),))
    routes = [Route(PRESS, "publish", "a/b"), Route(PRESS, "publish", "c"), Route(PRESS, "publish", "c", 4)]
    found = revoked(old, new, routes)
    assert [(route, verdict.cause, verdict.place) for route, verdict in found] == [
        (routes[0], "deny", "f, line 1"),
        (routes[2], "priority", "f, line 1"),
    ]
    assert revoked(old, old, routes) == revoked(new, old, routes) == []


def test_no_verdict_mixes_two_tables_while_they_are_swapped() -> None:
    tables = [RuleTable((Rule(("*",), {"publish": ("*",)}, max_size=size),)) for size in (10, 20)]
    sizes = {table.version: table.rules[0].max_size for table in tables}
    rights, is_over = Rights(tables[0]), threading.Event()

    def swap() -> None:
        for turn in range(3000):
            rights.swap(tables[turn % 2])
        is_over.set()

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    while not is_over.is_set() or not seen:
        verdict = rights.verdict(PRESS, "publish", "x")
        assert sizes[verdict.version] == verdict.max_size
        seen.add(verdict.version)
    thread.join()


def test_a_kept_verdict_costs_no_more_than_fifty_lookups_of_a_dictionary() -> None:
    assert kept_over_lookup() <= 50
