"""Tables say what was measured, what was not, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import docs, log_plot
from bench.cases import Figures
from bench.docs import between
from bench.judge import judge
from bench.numbers import quartiles, shown, spread
from bench.report import judgement_row, markdown, question, tails
from bench.results import Results, load
from bench.target import Target
from bench.targets import TARGETS

ABOUT = {
    "date": "2026-01-01",
    "command": "make bench",
    "rounds": 2,
    "seconds": 3.0,
    "machine": "a machine",
    "versions": {"rtmw": "1"},
}


@pytest.fixture
def results() -> Results:
    made = Results(ABOUT, {"one_way": "64 B one way"}, {"one_way": "M messages/s"})
    for round, value in enumerate((2.0, 4.0)):
        made.add(("one_way", "plain", "rtmw"), round, Figures(value, {"p50": value, "p99": 9.0}, "0.5 % lost"))
        made.add_failure(("one_way", "plain", "pynng"), round, "not installed (No module named 'pynng')")
    return made


def test_a_figure_is_shown_as_median_and_quartiles_with_its_note(results: Results) -> None:
    assert "| rtmw | 3.00 [2.50–3.50] (0.5 % lost) |" in question(results, "one_way")


def test_a_system_that_was_not_run_says_why(results: Results) -> None:
    assert "| pynng | not run: not installed (No module named 'pynng') |" in question(results, "one_way")


def test_percentiles_that_nobody_measured_are_dashes(results: Results) -> None:
    assert "| plain | rtmw | 3.00 | – | 9.00 | – |" in tails(results, "one_way")


def test_only_a_missed_target_says_what_limits_it(results: Results) -> None:
    def row(limit: float) -> list[str]:
        target = Target("t", ("one_way", "plain", "rtmw"), limit, at_least=True, limited_by="the profile says")
        return judgement_row(results, judge(results, target))

    assert row(3.0) == ["t", "≥ 3.00 M messages/s", "3.00 [2.50–3.50] M messages/s", "met", ""]
    assert row(3.1)[3:] == ["**missed**", "the profile says"]


def test_a_percentile_is_shown_as_a_ratio(results: Results) -> None:
    target = Target("t", ("one_way", "plain", "rtmw"), 4.0, percentile="p99")
    assert judgement_row(results, judge(results, target))[1:3] == ["≤ 4.00 ×", "3.38 [2.81–3.94] ×"]


def test_a_run_of_nothing_still_lists_every_target() -> None:
    lines = markdown(Results(ABOUT)).splitlines()
    assert sum("| not run |" in line for line in lines) == len(TARGETS)


def test_results_come_back_from_their_file_as_they_were(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results


def test_a_page_gets_the_results_between_its_markers_and_keeps_the_rest() -> None:
    page = "before\n<!-- results: begin -->\nold\n<!-- results: end -->\nafter\n"
    new = "before\n<!-- results: begin -->\n\nnew\n\n<!-- results: end -->\nafter\n"
    assert between(page, "new", "results") == new


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks"):
        between("nothing\n", "new", "results")


def test_a_run_of_one_part_leaves_the_pages_of_the_others(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in docs.PARTS:
        (tmp_path / part.page).write_text("<!-- results: begin -->old<!-- results: end -->")
    monkeypatch.setattr(docs, "PAGES", tmp_path)
    monkeypatch.setattr(docs, "PICTURES", tmp_path)
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    results.save(tmp_path / "results.json")
    assert docs.refresh(tmp_path / "results.json") == 0
    texts = {part.page: (tmp_path / part.page).read_text() for part in docs.PARTS}
    assert "0.5 % lost" in texts["general.md"]
    assert [page for page, text in texts.items() if "old" in text] == [part.page for part in docs.PARTS[1:]]
    assert [path.name for path in tmp_path.glob("*.svg")] == ["performance.svg"]


def test_each_part_has_its_page() -> None:
    pages = {part.page: (docs.PAGES / part.page).read_text() for part in docs.PARTS}
    assert [page for page, text in pages.items() if between(text, "new", "results") == text] == []


def test_the_appends_that_were_measured_are_drawn(tmp_path: Path) -> None:
    made = Results(ABOUT)
    made.add(("log_append", "16 threads", "SQLite"), 0, Figures(1234.0))
    log_plot.save(made, tmp_path / "log.svg")
    assert "SQLite" in (tmp_path / "log.svg").read_text()


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0123, "0.012"), (0.5, "0.50"), (12.34, "12.3"), (123.4, "123"), (12345, "12,345")]
)
def test_numbers_are_shown_with_two_or_three_digits(value: float, text: str) -> None:
    assert shown(value) == text


def test_quartiles_lie_between_the_values() -> None:
    assert quartiles([4.0, 1.0, 2.0, 3.0]) == (1.75, 2.5, 3.25)


def test_a_percentile_is_given_only_if_ten_values_lie_beyond_it() -> None:
    assert list(spread(range(1000))) == ["p50", "p90", "p99"]
    assert list(spread([1.0])) == ["p50"]
