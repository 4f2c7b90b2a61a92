"""The examples of Spark run alone, each with a session of its own, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PROMISED = {
    "spark_replay.py": ["replayed 125, heard 125, from 1501 to 1997 rpm"],
    "spark_stream.py": [
        "('station 0', 49.0) ('station 1', 50.0)",
        "('station 0', 99.0) ('station 1', 100.0)",
    ],
}


def test_every_example_of_spark_is_tested_here() -> None:
    assert {path.name for path in EXAMPLES.glob("spark_*.py")} == {*PROMISED}


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", PROMISED)
def test_an_example_prints_what_it_promises(name: str, domain_id: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, env=environment, timeout=350
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, PROMISED[name]), done.stderr
