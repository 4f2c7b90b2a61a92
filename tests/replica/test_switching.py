"""Switches under load, of nodes that are processes: twenty, and three hundred under torture.

`python -m tests.replica.switching SEED NUMBER` tries some.
"""

from __future__ import annotations

from pathlib import Path

from tests.replica.switching import QUIET, SWITCHES, Wired, kinds_of, run
from tests.whole import IS_WHOLE

NUMBER = 300 if IS_WHOLE else 20


def test_whatever_befalls_masters_nothing_is_lost_doubled_or_reordered_and_every_pending_becomes_true(
    tmp_path: Path,
) -> None:
    with Wired(tmp_path) as nodes:
        programs, done = run(nodes, NUMBER, kinds_of(NUMBER))
    assert programs.anomalies() == []
    assert sum(done[kind] for kind in SWITCHES) == NUMBER
    assert done.keys() == {*SWITCHES, *QUIET}
    assert min(programs.answered, programs.pending) > 0
