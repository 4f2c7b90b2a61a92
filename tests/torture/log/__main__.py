"""The rig of the log for minutes: power cuts, faults, turned bits, under the sanitizers, and each of its mutants."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROUNDS = "60"


def make(*words: str) -> int:
    return subprocess.run(["make", "-s", "-C", str(HERE), *words], check=False).returncode


def main() -> int:
    runs = [
        ("rig", "PART=cuts", f"AMOUNT={ROUNDS}"),
        ("rig", "PART=faults", "AMOUNT=1"),
        ("rig", "PART=faults", "AMOUNT=1", "SEED=1000"),
        ("rig", "PART=rot", "AMOUNT=1"),
        ("sanitized", "KIND=address", "PART=cuts", "AMOUNT=2"),
        ("sanitized", "KIND=address", "PART=faults", "AMOUNT=3"),
        ("sanitized", "KIND=thread", "PART=cuts", "AMOUNT=2"),
        ("mutants",),
    ]
    return max(make(*words) for words in runs)


if __name__ == "__main__":
    sys.exit(main())
