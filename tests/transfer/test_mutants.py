"""The worlds can see harm: each rule of transactions that is taken out is found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.transfer.mutants import MUTANTS
from tests.whole import sample


@pytest.mark.parametrize("name", sample(MUTANTS, 6))
# Proves G193.
def test_a_rule_that_is_taken_out_is_found(name: str) -> None:
    command = [sys.executable, "-m", "tests.transfer.mutants", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 1, done.stderr
    assert f"mutant {name}: found" in done.stdout
