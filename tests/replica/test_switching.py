"""Switches under load, of nodes that are processes: three hundred under torture.

`python -m tests.replica.switching SEED SWITCHES` tries some.
"""

from __future__ import annotations

from pathlib import Path

from tests.replica.switching import FAULTS, run
from tests.whole import LONG

SWITCHES = 300


@LONG
def test_whatever_befalls_masters_nothing_is_lost_doubled_or_reordered_and_every_pending_becomes_true(
    tmp_path: Path,
) -> None:
    programs, done = run(tmp_path, SWITCHES, SWITCHES)
    assert programs.anomalies() == []
    assert sum(done.values()) == SWITCHES
    assert len(done) == len(FAULTS)
    assert min(programs.answered, programs.pending) > 0
