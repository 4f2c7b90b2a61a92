"""Builds the rig of this folder and runs it: one call, each of its instructions, a kill or a stop at each."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SHM = HERE.parents[2] / "rtmw" / "shm"
TOOLS = ("gcc", "make", "objcopy", "objdump", "awk")
NOT_ALLOWED = "does not let a program write its own code"
LIMIT = 1800.0
"""Seconds after which a run has hung."""


class CannotRun(Exception):
    """This machine cannot run the rig, and why."""


class Harmed(AssertionError):
    """Somebody was harmed by a kill or a stop: who, at which instruction, and where that is in the core."""


@dataclass(frozen=True)
class Outcome:
    """What was tried: instructions of the call, and victims that were killed or stopped in it."""

    instructions: int
    victims: int


@dataclass(frozen=True)
class Rig:
    """The built program."""

    program: Path
    starts: Path

    def calls(self) -> list[str]:
        """The calls it knows."""
        return self._run().splitlines()

    def run(self, call: str, signal: str, most: int = 0) -> Outcome:
        """`signal`: kill or stop. `most`: so many of the instructions, evenly spread; 0: every one."""
        return Outcome(**json.loads(self._run(call, signal, str(most))))

    def _run(self, *arguments: str) -> str:
        command = [str(self.program), str(self.starts), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        if NOT_ALLOWED in done.stderr:
            raise CannotRun(f"the kernel {NOT_ALLOWED}")
        if done.returncode != 0:
            raise Harmed(done.stderr or f"status {done.returncode}")
        return done.stdout


def build(folder: Path, core: Path = SHM) -> Rig:
    """The rig with the core of another folder, built in `folder`."""
    if platform.machine() != "x86_64":
        raise CannotRun(f"breakpoints are laid for x86-64 only, and this is {platform.machine()}")
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise CannotRun(f"needs {', '.join(missing)}")
    command = ["make", "-s", "-C", str(HERE), f"BUILD={folder}", f"CORE={core}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return Rig(folder / "instructions", folder / "starts")
