"""The results as Markdown: the targets with their verdicts, and a table for each question."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bench.judge import Judgement, Verdict, judge
from bench.numbers import quartiles, shown
from bench.questions import NAMES
from bench.results import Results, Series
from bench.targets import TARGETS


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def with_spread(series: Series) -> str:
    """Median over the rounds, with the quartiles; or why there is none."""
    if not series.values:
        return "–" if not series.remark else f"not run: {series.remark}"
    low, middle, high = quartiles(series.values)
    text = f"{shown(middle)} [{shown(low)}–{shown(high)}]"
    return f"{text} ({series.remark})" if series.remark else text


def unit_of(results: Results, judgement: Judgement) -> str:
    return (
        "×"
        if judgement.target.over or judgement.target.percentile
        else results.units.get(judgement.target.figure[0], "")
    )


def judgement_row(results: Results, judgement: Judgement) -> list[str]:
    target, unit = judgement.target, unit_of(results, judgement)
    limit = f"{'≥' if target.at_least else '≤'} {shown(judgement.limit)} {unit}"
    if judgement.verdict is Verdict.NOT_RUN:
        return [target.what, limit, "–", judgement.verdict, ""]
    got = f"{shown(judgement.value)} [{shown(judgement.low)}–{shown(judgement.high)}] {unit}"
    why = target.limited_by if judgement.verdict is Verdict.MISSED else ""
    verdict = f"**{judgement.verdict}**" if judgement.verdict is Verdict.MISSED else str(judgement.verdict)
    return [target.what, limit, got, verdict, why]


def targets(results: Results, names: Collection[str]) -> list[str]:
    rows = [judgement_row(results, judge(results, target)) for target in TARGETS if target.figure[0] in names]
    return table(("target", "limit", "this run: median [quartiles]", "verdict", "what limits it"), rows)


def question(results: Results, name: str) -> list[str]:
    cases = results.cases(name)
    rows = [
        [system, *(with_spread(results.get(name, case, system)) for case in cases)] for system in results.systems(name)
    ]
    return [f"### {results.titles[name]}, {results.units[name]}", "", *table(("system", *cases), rows)]


def tails(results: Results, name: str) -> list[str]:
    """Percentiles of single round trips, medians over the rounds."""
    rows: list[list[str]] = []
    for case in results.cases(name):
        for system in results.systems(name):
            series = results.get(name, case, system)
            found = [series.percentile(share) for share in ("p50", "p90", "p99", "p99.9")]
            if any(value is not None for value in found):
                rows.append([case, system, *("–" if value is None else shown(value) for value in found)])
    return ["", *table(("percentiles", "system", "p50", "p90", "p99", "p99.9"), rows)] if rows else []


def about(results: Results) -> list[str]:
    facts = results.about
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    rounds = "1 round" if facts["rounds"] == 1 else f"{facts['rounds']} rounds"
    return [
        f"{facts['date']}, `{facts['command']}`, {rounds}, {facts['seconds']:.0f} s.",
        f"Machine: {facts['machine']}.",
        f"Versions: {versions}.",
    ]


def markdown(results: Results, names: Collection[str] = NAMES) -> str:
    """Of the questions of these names: all their targets, and what the run has of their figures."""
    lines = [*about(results), "", "## Targets", "", *targets(results, names), "", "## Figures", ""]
    for name in results.questions():
        if name in names:
            lines += [*question(results, name), *tails(results, name), ""]
    return "\n".join(lines).rstrip() + "\n"
