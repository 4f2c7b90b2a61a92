"""Seeded worlds of losses: what a source is told is true, each order has one end, and a stream keeps its order."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.relay.mutants import MUTANTS
from tests.relay.world import World
from tests.whole import sample


@pytest.mark.parametrize("hundred", sample(range(100), 2))
# Proves G318, G320, G337, R1, R7, R9.
def test_promises_hold_whatever_is_lost_doubled_late_cut_or_killed(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        World(seed).run()


@pytest.mark.parametrize("name", sample(MUTANTS, 4))
# Proves G318, R9.
def test_a_rule_that_is_taken_out_is_found(name: str) -> None:
    command = [sys.executable, "-m", "tests.relay.mutants", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert f"mutant {name}: found" in done.stdout
