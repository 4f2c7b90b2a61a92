"""What the machine itself does: the C programs of bench/baselines, compiled once a run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
LIMIT = 60.0


class NoCompiler(Exception):
    """There is no C compiler on this machine."""


@cache
def programs() -> tempfile.TemporaryDirectory[str]:
    """The folder with the programs; it goes with this process."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler("there is no C compiler (cc, gcc or clang) for the baselines")
    folder = tempfile.TemporaryDirectory(prefix="rtmw-bench-c-")
    for source in (HERE / "baselines").glob("*.c"):
        flags = ["-O2", "-std=gnu11", "-D_GNU_SOURCE", f"-I{HERE.parent / 'rtmw' / 'shm'}"]
        subprocess.run([compiler, *flags, str(source), "-o", str(Path(folder.name, source.stem))], check=True)
    return folder


def run(program: str, *arguments: object) -> list[float]:
    """The nanoseconds that a program prints, one a line."""
    command = [str(Path(programs().name, program)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    return [float(line) for line in done.stdout.split()]
