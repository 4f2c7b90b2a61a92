"""The same as `links` over an Ethernet cable: network namespaces as in cable_rate, without NATS."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cases import Case, Figures
from bench.peers import NATS, NATS_TLS
from bench.questions.links import ROUNDS, SYSTEMS, UNIT, asked, far, near
from bench.questions.links import cases as cases_of_loopback
from bench.stage import Stage, Way

__all__ = ["ROUNDS", "SYSTEMS", "TITLE", "UNIT", "cases", "far", "measure", "near"]

TITLE = "The same over a cable"


def cases(quick: bool) -> Sequence[Case]:
    return [case for case in cases_of_loopback(quick) if case.name not in (NATS, NATS_TLS)]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    return asked(stage, "links_cable", system, case, Way.between(system, has_cable=True))
