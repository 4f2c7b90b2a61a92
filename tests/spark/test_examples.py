"""The examples of Spark run alone, each with a session of its own, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import free_number
from tests.whole import sample

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
# Proves G335, R1, R4.
def test_the_record_of_an_airport_equals_its_source_whoever_is_killed_floods_or_is_forbidden() -> None:
    flights = len(sample(range(336_776), 300))
    command = [sys.executable, str(EXAMPLES / "airport.py"), "--flights", str(flights)]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [*command, "--domain", str(free_number(with_dds=True))],
        capture_output=True, text=True, env=environment, timeout=240 + flights / 20,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1:]) == (0, ["The record equals the source."]), done.stdout + done.stderr
    assert {"JFK is killed; what AODB orders waits for it.", "JFK is started again."} <= set(lines)
    ordered, *others = (line.split() for line in lines if line.endswith("equal"))
    assert sum(int(number.replace(",", "")) for number in ordered[1:4]) == flights
    assert [row[0] for row in others] == ["delivered", "minutes", "told"]
    assert "EWR may not order JFK: no rule allows this peer to order it." in lines


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", PROMISED)
def test_an_example_prints_what_it_promises(name: str, domain_id: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, env=environment, timeout=350
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, PROMISED[name]), done.stderr
