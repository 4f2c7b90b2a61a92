"""`make torture-samples`: each test of which `make test` tries a sample, whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def files() -> list[str]:
    """Those whose cases are sampled."""
    found = sorted(ROOT.glob("tests/**/test_*.py"))
    return [str(file.relative_to(ROOT)) for file in found if "from tests.whole import sample" in file.read_text()]


def main() -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *files()]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "RTMW_TORTURE": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
