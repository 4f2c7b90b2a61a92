"""What a run has measured: kept as JSON, read back for tables, verdicts and plots."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.cases import Figures

Key = tuple[str, str, str]
"""Question, case, system."""


@dataclass
class Series:
    """One system's figures in one case, a round each; None where a round has none."""

    rounds: list[float | None] = field(default_factory=list[float | None])
    spreads: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    notes: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])

    @property
    def values(self) -> list[float]:
        return [value for value in self.rounds if value is not None]

    @property
    def remark(self) -> str:
        """The last note, or why there is no figure at all."""
        if not self.values:
            return self.failures[-1] if self.failures else ""
        return next((note for note in reversed(self.notes) if note), "")

    def percentile(self, name: str) -> float | None:
        """Median over the rounds."""
        found = [spread[name] for spread in self.spreads if name in spread]
        return median(found) if found else None


@dataclass
class Results:
    """A whole run. `units` and `titles` are by question."""

    about: dict[str, Any] = field(default_factory=dict[str, Any])
    titles: dict[str, str] = field(default_factory=dict[str, str])
    units: dict[str, str] = field(default_factory=dict[str, str])
    series: dict[Key, Series] = field(default_factory=dict[Key, Series])

    def _at(self, key: Key, round: int) -> Series:
        """The series, with nothing for rounds in which it was not measured."""
        series = self.series.setdefault(key, Series())
        series.rounds += [None] * (round - len(series.rounds))
        return series

    def add(self, key: Key, round: int, figures: Figures) -> None:
        series = self._at(key, round)
        series.rounds.append(figures.value)
        series.spreads.append(figures.percentiles)
        series.notes.append(figures.note)

    def add_failure(self, key: Key, round: int, why: str) -> None:
        series = self._at(key, round)
        series.rounds.append(None)
        series.failures.append(why)

    def questions(self) -> list[str]:
        return list(dict.fromkeys(question for question, _, _ in self.series))

    def cases(self, question: str) -> list[str]:
        return list(dict.fromkeys(case for name, case, _ in self.series if name == question))

    def systems(self, question: str) -> list[str]:
        return list(dict.fromkeys(system for name, _, system in self.series if name == question))

    def get(self, question: str, case: str, system: str) -> Series:
        return self.series.get((question, case, system), Series())

    def save(self, path: Path) -> None:
        rows = [{"question": q, "case": c, "system": s, **asdict(series)} for (q, c, s), series in self.series.items()]
        whole = {"about": self.about, "titles": self.titles, "units": self.units, "series": rows}
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> Results:
    whole = json.loads(path.read_text())
    return Results(whole["about"], whole["titles"], whole["units"], dict(_rows(whole["series"])))


def _rows(rows: Iterable[dict[str, Any]]) -> Iterable[tuple[Key, Series]]:
    for row in rows:
        key = (row.pop("question"), row.pop("case"), row.pop("system"))
        yield key, Series(**row)
