"""Faults between hosts, the long way: everything of tests/net that CI leaves out, and all of it several times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [
    "tests/net/test_namespaces.py",
    "tests/net/test_crowd.py",
    "tests/net/test_flow.py",
    "tests/net/test_overload.py",
    "tests/net/test_pacing.py",
    "tests/net/link/test_acceptance.py",
    "tests/net/link/test_pacing.py",
    "tests/torture/test_wire_engine.py",
    "tests/torture/test_wire_topics.py",
]
ROUNDS = 3


def main() -> int:
    command = [sys.executable, "-m", "pytest", "-q", *FILES]
    env = {**os.environ, "RTMW_TORTURE": "1"}
    return max(subprocess.run(command, cwd=ROOT, env=env, check=False).returncode for _ in range(ROUNDS))


if __name__ == "__main__":
    sys.exit(main())
