"""The rig of the log for minutes: power cuts, faults, turned bits, under the sanitizers, and each of its mutants.

`python -m tests.torture.log power`: power cuts under a real file system, of a log and of a relay, which need root
(power.h).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROUNDS = "60"
POWER_CUTS = "2500"


def make(*words: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["make", "-s", "-C", str(HERE), *words], check=False, env=environment).returncode


IN_MEMORY = [
    ("rig", "PART=cuts", f"AMOUNT={ROUNDS}"),
    ("rig", "PART=faults", "AMOUNT=1"),
    ("rig", "PART=faults", "AMOUNT=1", "SEED=1000"),
    ("rig", "PART=rot", "AMOUNT=1"),
    ("rig", "PART=replica", "AMOUNT=40"),
    ("sanitized", "KIND=address", "PART=replica", "AMOUNT=2"),
    ("sanitized", "KIND=thread", "PART=replica", "AMOUNT=2"),
    ("sanitized", "KIND=address", "PART=cuts", "AMOUNT=2"),
    ("sanitized", "KIND=address", "PART=faults", "AMOUNT=3"),
    ("sanitized", "KIND=thread", "PART=cuts", "AMOUNT=2"),
    ("mutants",),
]
POWER = [
    ("rig", "PART=power", f"AMOUNT={POWER_CUTS}"),
    ("rig", "PART=program", f"AMOUNT={POWER_CUTS}", f"PROGRAM={sys.executable} -m tests.torture.relay.power 12"),
    ("mutants", "PARTS=power"),
]


def main(words: list[str]) -> int:
    return max(make(*run) for run in (POWER if words == ["power"] else IN_MEMORY))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
