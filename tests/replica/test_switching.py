"""Switches under load, of nodes that are processes: twenty, and three hundred under torture.

`python -m tests.replica.switching SEED NUMBER` tries some.
"""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from tests.control.stores import Cluster, needs_etcd
from tests.replica.nodes import until
from tests.replica.switching import (
    NAME,
    PATIENCE_S,
    QUIET,
    SWITCHES,
    Programs,
    Wired,
    is_whole,
    kinds_of,
    run,
    switch_and_strike,
)
from tests.whole import IS_WHOLE, sample

pytestmark = pytest.mark.timeout(400)
NUMBER = 20


@pytest.mark.parametrize("seed", sample(range(15), 1))
# Proves G369, S7, S9.
def test_whatever_befalls_masters_nothing_is_lost_doubled_or_reordered_and_every_pending_becomes_true(
    seed: int, tmp_path: Path
) -> None:
    with Wired(tmp_path) as nodes:
        programs, done = run(nodes, seed, kinds_of(NUMBER))
    assert programs.anomalies() == []
    assert sum(done[kind] for kind in SWITCHES) == NUMBER
    assert done.keys() == {*SWITCHES, *QUIET}
    assert min(programs.answered, programs.pending) > 0


STEPS = [(step, number) for number in (signal.SIGKILL, signal.SIGSTOP) for step in range(16)]


@pytest.mark.parametrize(("step", "number"), sample(STEPS, 2))
# Proves G370.
def test_who_is_killed_or_stands_still_at_any_step_of_a_switch_takes_nothing_with_it(
    step: int, number: signal.Signals, tmp_path: Path
) -> None:
    with Wired(tmp_path) as nodes:
        nodes.create(NAME, suspect=0.5, lag=1.0)
        until(lambda: is_whole(nodes), PATIENCE_S)
        with Programs(nodes.places) as programs:
            switch_and_strike(nodes, programs, step, number)
        programs.read_all()
    assert programs.anomalies() == []


@needs_etcd
# Proves G372.
def test_members_of_etcd_are_killed_while_masters_are_and_the_log_goes_on_as_with_a_file(tmp_path: Path) -> None:
    kinds = kinds_of(40, "+etcd") if IS_WHOLE else ["kill+etcd", "stop+etcd", "store"]
    with closing(Cluster(tmp_path)) as etcd:
        etcd.start()
        with Wired(tmp_path, etcd=etcd) as nodes:
            programs, done = run(nodes, 1, [*kinds])
    assert programs.anomalies() == []
    assert done.total() == len(kinds)
    assert min(programs.answered, programs.pending) > 0
