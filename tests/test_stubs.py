"""The stubs of the compiled modules say what these have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_stubs_agree_with_the_compiled_modules() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "rtmw.shm._core", "rtmw.types._cdr", "rtmw.recording._mcap"]
    command += ["rtmw.columns._columns", "rtmw.record._collector", "rtmw.log._log"]
    command += ["--mypy-config-file", str(ROOT / "pyproject.toml"), "--concise"]
    command += ["--allowlist", str(ROOT / "tests" / "stubtest_allowlist.txt")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
