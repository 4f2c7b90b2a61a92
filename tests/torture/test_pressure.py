"""A pool that is full for some seconds; `make torture-pressure` fills it for five minutes. See pressure/."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = "5"


def press(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("RTMW_DOMAIN", None)  # it takes a free one and creates it at once
    command = [sys.executable, "-m", "tests.torture.pressure", SECONDS, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)


# Proves G53.
def test_each_alarm_is_accepted_and_comes_while_the_pool_is_full_and_readers_hang_and_die() -> None:
    done = press()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Each alarm was accepted, and came." in done.stdout


def test_the_pressure_is_enough_to_harm_alarms_where_nothing_is_reserved_for_them() -> None:
    done = press("0")
    assert done.returncode == 1
    assert "of the alarms" in done.stderr, done.stdout + done.stderr
