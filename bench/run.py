"""Rounds over all questions: within a case the systems take turns, each round beginning with the next one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from bench import quorum_queue
from bench.cases import Case, Question
from bench.log_peers import versions as versions_of_log_peers
from bench.machine import described
from bench.numbers import shown
from bench.peers import versions
from bench.questions import NAMES, question
from bench.results import Results
from bench.stage import Stage


@dataclass(frozen=True)
class Plan:
    """What to measure, and how long at most."""

    questions: tuple[str, ...]
    systems: tuple[str, ...]
    """Empty: all."""
    quick: bool
    rounds: int
    budget: float
    """Seconds after which no round is begun that would not be over in time."""
    command: str


Turn = tuple[str, Question, Case, str]


def turns(plan: Plan, round: int) -> Iterator[Turn]:
    for name in plan.questions:
        asked = question(name)
        if round >= getattr(asked, "ROUNDS", plan.rounds):
            continue
        for case in asked.cases(plan.quick):
            systems = [system for system in case.systems if not plan.systems or system in plan.systems]
            for at in range(len(systems)):
                yield name, asked, case, systems[(at + round) % len(systems)]


def measure(plan: Plan) -> Results:
    """Whatever could not be measured has its reason instead of a figure."""
    results, stage, began = Results(), Stage(), time.monotonic()
    results.about = {"date": date.today().isoformat(), "command": plan.command, "machine": described()}
    results.about["versions"] = versions() | versions_of_log_peers() | quorum_queue.versions()
    for name in NAMES:
        results.titles[name], results.units[name] = question(name).TITLE, question(name).UNIT
    longest = 0.0
    for round in range(plan.rounds):
        start = time.monotonic()
        if round and start - began + longest > plan.budget:
            break
        one_round(list(turns(plan, round)), round, stage, results)
        longest = max(longest, time.monotonic() - start)
        results.about["rounds"] = round + 1
    results.about["seconds"] = time.monotonic() - began
    return results


def one_round(all_turns: Sequence[Turn], round: int, stage: Stage, results: Results) -> None:
    for at, (name, asked, case, system) in enumerate(all_turns):
        head = f"round {round + 1}, {at + 1:2} of {len(all_turns)}: {asked.TITLE}, {case.name}"
        try:
            for measured, figures in asked.measure(stage, system, case).items():
                results.add((name, case.name, measured), round, figures)
                progress(f"{head}, {measured}: {shown(figures.value)} {asked.UNIT} {figures.note}")
        except Exception as error:  # one system that fails does not stop the others
            results.add_failure((name, case.name, system), round, str(error))
            progress(f"{head}, {system}: not run: {error}")


def progress(line: str) -> None:
    print(line.rstrip(), file=sys.stderr, flush=True)
