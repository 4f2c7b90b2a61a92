"""`make torture-wire`: hostile bytes for each reader of what comes from a network or lies in a file (requirement C2).

`python -m tests.torture.wire SECONDS [PART...]` attacks each part for so long, and then each of its mutants, which are
readers without one of their bounds: a part that sees no harm in them proves nothing. A reader in Python is attacked for
so many seconds of processor time: how far an attack comes does not depend on other programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

IN_PYTHON = [
    *("types_descriptions", "idl_texts", "columns_rows", "cdr_cyclone"),
    *("schemas", "session_hello", "settings_texts", "transfer_topics", "relay_frames"),
]
"""Modules with an `attack` and `MUTANTS`."""
IN_C = ["cdr_decode", "columns_decode"]
"""Programs of the Makefile, whose mutants are in mutate.sh."""
WITH_MUTANTS = ["engine_fuzz", "link_fuzz"]
"""Modules whose `main` attacks mutants, too."""

PATIENCE = 120
"""Seconds in which a mutant has to be found."""


def attack(part: str, seed: int, seconds: float, mutant: str = "") -> int:
    """The status of one part: 0, no harm was seen."""
    if part in WITH_MUTANTS:
        command = [sys.executable, "-m", f"tests.torture.wire.{part}", f"{seconds:.0f}"]
    elif part in IN_C:
        command = ["make", "-s", "-C", str(HERE), "run", f"PART={part}", f"SEED={seed}", f"SECONDS={seconds:.0f}"]
    else:
        command = [sys.executable, "-m", f"tests.torture.wire.{part}", str(seed), str(seconds), *filter(None, [mutant])]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def survivors(part: str) -> list[str]:
    """Mutants in which no harm was seen."""
    if part in WITH_MUTANTS:
        return []
    if part in IN_C:
        command = ["make", "-s", "-C", str(HERE), "mutants", f"PART={part}"]
        done = subprocess.run(command, env={**os.environ, "PATIENCE": str(PATIENCE)}, check=False)
        return [part] if done.returncode else []
    mutants: dict[str, object] = import_module(f"tests.torture.wire.{part}").MUTANTS
    return [f"{part}: {name}" for name in mutants if attack(part, 1, PATIENCE, name) == 0]


def main(seconds: str = "60", *wanted: str) -> int:
    harmed: list[str] = []
    for part in wanted or (*IN_PYTHON, *IN_C, *WITH_MUTANTS):
        print(f"= {part}", flush=True)
        if attack(part, time.time_ns() % (1 << 31), float(seconds)):
            harmed.append(part)
        harmed += [f"no harm seen in the mutant {mutant}" for mutant in survivors(part)]
    print("\n".join(harmed) or "Every reader answered or refused, in time and in memory.")
    return bool(harmed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
