"""Deaths of the core can show harm: each rule of the queues between programs and core that is taken out is found.

Here a sample; `make torture-samples` tries all of them.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.transfer.programs.mutants import MUTANTS
from tests.whole import sample


@pytest.mark.parametrize("name", sample(MUTANTS, 2))
# Proves G193.
def test_a_rule_of_the_queues_that_is_taken_out_is_found(name: str) -> None:
    command = [sys.executable, "-m", "tests.transfer.programs.mutants", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert f"mutant {name}: found" in done.stdout


def test_with_all_rules_nothing_is_found() -> None:
    command = [sys.executable, "-m", "tests.transfer.programs.mutants", "", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
