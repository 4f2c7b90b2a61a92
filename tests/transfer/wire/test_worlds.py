"""T3, T7, T8 between two nodes: whatever is cut, restarted, full or changed, each transfer comes once and whole."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from tests.transfer.wire.mutants import MUTANTS
from tests.transfer.wire.world import run
from tests.whole import sample

SEEDS = 60
"""`python -m tests.transfer.wire.world 10000` runs as many as one likes."""


# Proves G194, G196.
def test_each_transfer_comes_once_and_whole_and_both_sides_say_the_same_of_its_end() -> None:
    met = sum((run(seed) for seed in range(SEEDS)), start=Counter[str]())
    for what in (
        "lost",
        "restart",
        "put off",
        "delayed",
        "resumed from the disk",
        "changed",
        "hidden change",
        "failed",
        "letters together",
        "letters put off",
    ):
        assert met[what] > 0, what
    for what in ("SENT", "DELIVERED", "CONSUMED", "REFUSED", "CANCELLED"):
        assert met[f"reached {what}"] > 0, what


@pytest.mark.parametrize("name", sample(MUTANTS, 3))
def test_a_rule_that_is_taken_out_is_found(name: str) -> None:
    command = [sys.executable, "-m", "tests.transfer.wire.mutants", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 1, done.stderr
    assert f"mutant {name}: found" in done.stdout
