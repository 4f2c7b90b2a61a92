"""What the machine itself does: the C programs of bench/baselines, compiled when a run needs them first."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
LIMIT = 60.0
CORE = HERE.parent / "rtmw"
LOG = (*(file for file in sorted(CORE.glob("log/*.c")) if not file.name.startswith("_")), CORE / "shm" / "crc32c.c")
"""The durable log without Python."""
OF_THE_LOG = ("log_append", "log_read")
"""Programs that have it in them."""


class NoCompiler(Exception):
    """There is no C compiler on this machine."""


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where the programs are; it goes with this process."""
    return tempfile.TemporaryDirectory(prefix="rtmw-bench-c-")


@cache
def compiled(program: str) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler("there is no C compiler (cc, gcc or clang) for the baselines")
    made = str(Path(folder().name, program))
    sources = [HERE / "baselines" / f"{program}.c", *(LOG if program in OF_THE_LOG else ())]
    flags = ["-O2", "-std=gnu11", "-D_GNU_SOURCE", "-pthread", f"-I{CORE / 'shm'}"]
    subprocess.run([compiler, *flags, *map(str, sources), "-o", made], check=True)
    return made


def run(program: str, *arguments: object) -> list[float]:
    """The nanoseconds that a program prints, one a line."""
    command = [compiled(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    return [float(line) for line in done.stdout.split()]
