"""The questions of transfers: what is accepted is counted, each level has its time, and a node ends with its block."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from bench.cases import RTMW, CannotMeasure, Case
from bench.letters import answers, serving
from bench.questions import transfer_levels, transfer_rate
from bench.questions.transfer_rate import APPENDS, RABBITMQ
from bench.stage import Stage


@pytest.mark.parametrize("system", [RTMW, APPENDS])
def test_letters_and_appends_of_tasks_are_counted(system: str) -> None:
    case = Case("", (system,), {"seconds": 0.1, "writers": 8, "delivery": "LOG", "part": "tasks"})
    assert transfer_rate.measure(Stage("8M"), system, case)[system].value > 0


def test_a_peer_that_cannot_be_had_has_a_reason() -> None:
    with pytest.raises(CannotMeasure, match="Erlang"):
        transfer_rate.measure(Stage("8M"), RABBITMQ, transfer_rate.cases(quick=True)[0])


@pytest.mark.parametrize("level", transfer_levels.LEVELS)
def test_each_level_has_its_time(level: str) -> None:
    case = Case("", (RTMW,), {"seconds": 0.1, "delivery": "NORMAL", "level": level})
    figures = transfer_levels.measure(Stage("8M"), RTMW, case)[RTMW]
    assert figures.value == figures.percentiles["p50"] > 0


def test_the_node_ends_with_its_block(domain: rtmw.Domain, tmp_path: Path) -> None:
    with serving(domain.id, tmp_path):
        assert answers(domain.id)
    assert not answers(domain.id)
