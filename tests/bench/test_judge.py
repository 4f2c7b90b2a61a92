"""Targets are judged by what the same run measured."""

from __future__ import annotations

import pytest

from bench.cases import Figures
from bench.judge import Verdict, judge
from bench.results import Results
from bench.target import Target

OURS, THEIRS, OTHERS = ("q", "case", "rtmw"), ("q", "case", "peer"), ("q", "case", "other")


def results(**rounds: list[float | None]) -> Results:
    """Series by system name, a value a round."""
    made = Results()
    for system, values in rounds.items():
        for round, value in enumerate(values):
            if value is None:
                made.add_failure(("q", "case", system), round, "it failed")
            else:
                made.add(("q", "case", system), round, Figures(value))
    return made


@pytest.mark.parametrize(("value", "verdict"), [(1.4, Verdict.MET), (1.5, Verdict.MET), (1.6, Verdict.MISSED)])
def test_a_figure_may_reach_its_upper_limit_and_not_exceed_it(value: float, verdict: Verdict) -> None:
    assert judge(results(rtmw=[value]), Target("t", OURS, 1.5)).verdict is verdict


@pytest.mark.parametrize(("value", "verdict"), [(2.1, Verdict.MET), (2.0, Verdict.MET), (1.9, Verdict.MISSED)])
def test_a_rate_may_not_fall_below_its_lower_limit(value: float, verdict: Verdict) -> None:
    assert judge(results(rtmw=[value]), Target("t", OURS, 2.0, at_least=True)).verdict is verdict


def test_the_median_over_the_rounds_decides() -> None:
    judged = judge(results(rtmw=[1.0, 9.0, 1.2, 1.1, 8.0]), Target("t", OURS, 1.5))
    assert (judged.verdict, judged.low, judged.value, judged.high) == (Verdict.MET, 1.1, 1.2, 8.0)


def test_a_ratio_is_taken_round_by_round() -> None:
    judged = judge(results(rtmw=[2.0, 20.0, 3.0], peer=[1.0, 10.0, 3.0]), Target("t", OURS, 1.9, over=(THEIRS,)))
    assert (judged.value, judged.verdict) == (2.0, Verdict.MISSED)


def test_a_round_that_lacks_either_figure_is_left_out() -> None:
    judged = judge(results(rtmw=[2.0, None, 3.0], peer=[1.0, 10.0, None]), Target("t", OURS, 2.0, over=(THEIRS,)))
    assert (judged.value, judged.verdict) == (2.0, Verdict.MET)


def test_a_time_is_compared_with_the_shortest_of_several() -> None:
    measured = results(rtmw=[2.0], peer=[4.0], other=[1.0])
    assert judge(measured, Target("t", OURS, 1.0, over=(THEIRS, OTHERS))).value == 2.0


def test_a_rate_is_compared_with_the_highest_of_several() -> None:
    measured = results(rtmw=[2.0], peer=[4.0], other=[1.0])
    assert judge(measured, Target("t", OURS, 1.0, over=(THEIRS, OTHERS), at_least=True)).value == 0.5


@pytest.mark.parametrize("rounds", [{}, {"rtmw": [None]}, {"rtmw": [1.0]}, {"peer": [1.0]}])
def test_what_has_no_figure_to_compare_with_is_not_run(rounds: dict[str, list[float | None]]) -> None:
    assert judge(results(**rounds), Target("t", OURS, 1.0, over=(THEIRS,))).verdict is Verdict.NOT_RUN


@pytest.mark.parametrize(("yardstick", "limit"), [(0.1, 0.7), (0.2, 0.7), (0.4, 1.4)])
def test_a_limit_grows_with_its_yardstick_and_does_not_shrink(yardstick: float, limit: float) -> None:
    measured = results(rtmw=[1.0], other=[yardstick])
    assert judge(measured, Target("t", OURS, 0.7, yardstick=(OTHERS, 0.2))).limit == pytest.approx(limit)


def test_without_its_yardstick_a_target_is_not_run() -> None:
    assert judge(results(rtmw=[1.0]), Target("t", OURS, 0.7, yardstick=(OTHERS, 0.2))).verdict is Verdict.NOT_RUN


def test_a_figure_may_be_compared_with_the_sum_of_several() -> None:
    measured = results(rtmw=[3.0, 6.0], peer=[1.0, 2.0], other=[2.0, 2.0])
    judged = judge(measured, Target("t", OURS, 1.2, over=(THEIRS, OTHERS), summed=True))
    assert (judged.value, judged.verdict) == (1.25, Verdict.MISSED)


def test_a_round_that_lacks_a_part_of_the_sum_is_left_out() -> None:
    measured = results(rtmw=[3.0, 6.0], peer=[1.0, None], other=[2.0, 2.0])
    assert judge(measured, Target("t", OURS, 1.0, over=(THEIRS, OTHERS), summed=True)).value == 1.0


def test_a_percentile_is_limited_by_the_figure_of_its_own_round() -> None:
    measured = Results()
    for round, (middle, tail) in enumerate(((1.0, 2.0), (2.0, 8.0), (1.0, 3.0))):
        measured.add(OURS, round, Figures(middle, {"p50": middle, "p99": tail}))
    judged = judge(measured, Target("t", OURS, 3.0, percentile="p99"))
    assert (judged.low, judged.value, judged.high, judged.verdict) == (2.5, 3.0, 3.5, Verdict.MET)


def test_a_percentile_that_too_few_messages_have_is_not_run() -> None:
    measured = results(rtmw=[1.0])
    assert judge(measured, Target("t", OURS, 3.0, percentile="p99")).verdict is Verdict.NOT_RUN


def test_a_round_that_failed_leaves_the_percentiles_of_the_others() -> None:
    measured = Results()
    measured.add_failure(OURS, 0, "it failed")
    measured.add(OURS, 1, Figures(2.0, {"p50": 2.0, "p99": 4.0}))
    assert judge(measured, Target("t", OURS, 3.0, percentile="p99")).value == 2.0
