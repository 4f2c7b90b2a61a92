"""How long does a relay take to judge an order?

A policy of 16 agents and as many rules is asked for 64 streams in turn, with the frames as they come. Beside it the
same loop asks a dictionary by source, destination and command.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import median

from bench import relays
from bench.cases import RTMW, Case, Figures
from bench.questions.relay_rate import RECIPIENTS, SOURCES
from bench.relays import Line
from bench.role import Role
from bench.stage import Part, Stage
from rtmw.relay import Frame

TITLE = "A verdict of a relay on an order"
UNIT = "ns"
LOOKUP = "a dictionary lookup"
VERDICT = "64 streams"
TURNS = 300
RULES = "".join(
    f'[[allow]]\npeer = "agent:{source}"\norder = ["{to}/[IU]", "{to}/D/tell"]\nmax_size = 10000\n'
    for source, to in product(SOURCES[:4], ("R*", "A*", "B*", "C*"))
) + '[[allow]]\npeer = "agent:S*"\norder = ["R*/*"]\n'  # fmt: skip


def cases(quick: bool) -> Sequence[Case]:
    return [Case(VERDICT, (RTMW,), {"batches": 20 if quick else 60}, beside=(LOOKUP,))]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    verdict, lookup = stage.play("relay_verdict", system, [Part("judge", case.options)])[0]
    return {RTMW: Figures(verdict), LOOKUP: Figures(lookup)}


def judge(role: Role) -> tuple[float, float]:
    """Medians of batches in turn: of a verdict, and of a lookup."""
    from rtmw.relay.policy import Policy
    from rtmw.relay.settings import read_relay

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "node.toml")
        file.write_text(relays.settings((*SOURCES, *RECIPIENTS), RULES, 7460))
        policy = Policy(read_relay(file))
    frames = [Frame.decode(Line(source).order(to)) for source, to in product(SOURCES, RECIPIENTS)]
    agents = {agent.address: agent for agent in policy.relay.agents}
    table = {(frame.source, frame.destination, frame.command): frame for frame in frames}

    def verdicts() -> None:
        ask = policy.judge
        for _ in range(TURNS):
            for frame, agent in asked:
                ask(agent, frame)

    def lookups() -> None:
        found = table
        for _ in range(TURNS):
            for frame, _agent in asked:
                found[frame.source, frame.destination, frame.command]

    asked = [(frame, agents[frame.source]) for frame in frames]
    if not all(not policy.judge(agent, frame).why for frame, agent in asked):
        raise RuntimeError("an order of the bench is refused")
    pairs = [(timed(verdicts), timed(lookups)) for _ in range(role.options["batches"])]
    verdict, lookup = (median(times) / TURNS / len(asked) for times in zip(*pairs, strict=True))
    return verdict, lookup


def timed(work: Callable[[], object]) -> int:
    start = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - start
