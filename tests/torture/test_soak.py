"""A short soak; `make torture-soak` runs it for ten minutes. See soak/."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = "5"


# Proves G15.
def test_what_sixteen_processes_publish_comes_or_is_counted_though_some_are_killed_and_stopped() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("RTMW_DOMAIN", None)  # it takes a free one and creates it at once
    command = [sys.executable, "-m", "tests.torture.soak", SECONDS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Each message came or is counted" in done.stdout
    assert " 0 processes killed" not in done.stdout
