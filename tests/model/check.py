"""Runs `spin` on a model: every interleaving of a size, or of one precaution less."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

QUEUE = Path(__file__).with_name("queue.pml")
REPLICA = Path(__file__).with_name("replica.pml")
GENERATE = ["spin", "-a"]
COMPILE = ["gcc", "-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-DCOLLAPSE", "-DMEMLIM=4000", "-o", "pan", "pan.c"]
RUN = ["./pan", "-E", "-m1000000"]


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    states: int
    violation: str | None
    """The assertion that does not hold."""


def what_is_missing() -> str | None:
    """Why there can be no search on this machine."""
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    return f"needs {' and '.join(missing)} (Debian: apt install {' '.join(missing)})" if missing else None


def search(folder: Path, defines: str, seconds: float, model: Path = QUEUE) -> Found:
    """All states of the model with these definitions, or those up to the first violation. Raises RuntimeError else."""
    folder.mkdir(exist_ok=True)
    _run([*GENERATE, *(f"-D{define}" for define in defines.split()), str(model)], folder, seconds)
    _run(COMPILE, folder, seconds)
    told = _run(RUN, folder, seconds)
    states, violation = re.search(r"(\d+) states, stored", told), re.search(r"assertion violated (.*) \(at depth", told)
    errors = re.search(r"errors: (\d+)", told)
    if states is None or errors is None or ("Search not completed" in told.replace("\n", " ") and violation is None):
        raise RuntimeError(f"the search with {defines!r} did not come to an end:\n{told}")
    if int(errors[1]) > 0 and violation is None:
        raise RuntimeError(f"the search with {defines!r} met another error:\n{told}")
    return Found(int(states[1]), violation[1] if violation else None)


def _run(command: list[str], folder: Path, seconds: float) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
