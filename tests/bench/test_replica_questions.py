"""The questions of the replicated log: each has its figure, and a system that is not installed has a reason."""

from __future__ import annotations

import pytest

from bench.cases import RTMW, CannotMeasure, Case
from bench.clusters import MODULES, RABBITMQ, system
from bench.questions import replica_append, replica_read, replica_switch
from bench.replica_targets import REPLICA_TARGETS
from bench.stage import Stage

SECONDS = {"seconds": 0.2}


def test_appends_to_three_members_are_counted() -> None:
    case = Case("", (RTMW,), {**SECONDS, "part": "tasks", "writers": 4})
    assert replica_append.measure(Stage(), RTMW, case)[RTMW].value > 0


def test_answers_come_again_after_the_master_was_killed() -> None:
    case = next(case for case in replica_switch.cases(quick=True) if case.name == "SIGKILL")
    assert replica_switch.measure(Stage(), RTMW, case)[RTMW].value > 0


@pytest.mark.parametrize("case", replica_read.cases(quick=True), ids=lambda case: case.name)
def test_a_log_is_read_over_a_connection_and_a_slave_catches_up(case: Case) -> None:
    small = Case(case.name, case.systems, case.options | {"size": 1 << 20})
    assert replica_read.measure(Stage(), RTMW, small)[RTMW].value > 0


def test_as_many_bytes_are_copied_over_a_session() -> None:
    case = replica_read.cases(quick=True)[0]
    assert replica_read.measure(Stage(), replica_read.COPY, case)[replica_read.COPY].value > 0


def test_each_system_has_the_functions_of_a_cluster() -> None:
    for name in MODULES:
        found = system(name)
        assert all(callable(function) for function in (found.serving, found.store, found.appender))


def test_a_queue_that_is_not_installed_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.quorum_queue.PROGRAMS", "/none")
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(CannotMeasure, match="apt-get install"):
        replica_append.measure(Stage(), RABBITMQ, replica_append.cases(quick=True)[0])


def test_wishes_are_told_apart_from_what_is_held() -> None:
    wishes = [target for target in REPLICA_TARGETS if target.what.startswith("a wish: ")]
    assert len(wishes) == 5
