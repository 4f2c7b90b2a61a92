"""Holds what was measured against the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.numbers import quartiles
from bench.results import Key, Results
from bench.target import Target


class Verdict(StrEnum):
    MET = "met"
    MISSED = "missed"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Judgement:
    """`low`, `value` and `high` are quartiles over the rounds of what the target limits: a ratio, or a figure."""

    target: Target
    verdict: Verdict
    limit: float
    low: float = 0.0
    value: float = 0.0
    high: float = 0.0


def judge(results: Results, target: Target) -> Judgement:
    values = limited(results, target)
    limit = scaled_limit(results, target)
    if not values or limit is None:
        return Judgement(target, Verdict.NOT_RUN, target.limit)
    low, value, high = quartiles(values)
    good = value >= limit if target.at_least else value <= limit
    return Judgement(target, Verdict.MET if good else Verdict.MISSED, limit, low, value, high)


def limited(results: Results, target: Target) -> list[float]:
    """What the target limits, round by round."""
    series = results.get(*target.figure)
    if target.percentile:
        pairs = zip(series.values, series.spreads, strict=True)
        return [spread[target.percentile] / value for value, spread in pairs if target.percentile in spread]
    return ratios(results, target) if target.over else series.values


def ratios(results: Results, target: Target) -> list[float]:
    """Round by round: figures that were taken within the same minute are divided by each other."""
    found: list[float] = []
    for round, value in enumerate(results.get(*target.figure).rounds):
        others = [other for key in target.over if (other := in_round(results, key, round)) is not None]
        if value is not None and others and (not target.summed or len(others) == len(target.over)):
            found.append(value / measure_of(target, others))
    return found


def measure_of(target: Target, others: Sequence[float]) -> float:
    """What the figure is divided by."""
    if target.summed:
        return sum(others)
    return max(others) if target.at_least else min(others)


def in_round(results: Results, key: Key, round: int) -> float | None:
    rounds = results.get(*key).rounds
    return rounds[round] if round < len(rounds) else None


def scaled_limit(results: Results, target: Target) -> float | None:
    """None if the yardstick was not measured."""
    if target.yardstick is None:
        return target.limit
    key, usual = target.yardstick
    values = results.get(*key).values
    return target.limit * max(1.0, quartiles(values)[1] / usual) if values else None
