"""What benches share: a domain of their own, the other process, the C baseline, percentiles and tables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

import rtmw

DOMAIN = 97
PATIENCE = 20.0
HERE = Path(__file__).parent


@contextmanager
def domain(pool: str = "64M") -> Iterator[rtmw.Domain]:
    """Domain 97, made for this run and removed after it."""
    with suppress(rtmw.DomainNotFound):
        rtmw.Domain.unlink(DOMAIN)
    os.environ["RTMW_DOMAIN"] = str(DOMAIN)
    with rtmw.Domain(DOMAIN, pool=pool) as made:
        yield made
    rtmw.Domain.unlink(DOMAIN)


def meet(publisher: rtmw.Publisher[bytes]) -> None:
    """Wait for the other process to subscribe."""
    if not publisher.wait_for_subscribers(timeout=PATIENCE):
        raise SystemExit(f"nobody subscribed to {publisher.topic!r} within {PATIENCE:.0f} s")


@contextmanager
def other_process(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """This bench's other half: `python PROGRAM other ARGUMENTS`. Killed if the bench fails."""
    command = [sys.executable, program, "other", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "RTMW_DOMAIN": str(DOMAIN)}
    )
    try:
        yield process
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def baseline() -> dict[str, float]:
    """Nanoseconds of the C baseline (bench/baseline.c), measured now; empty without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "baseline")
        flags = ["-O2", "-D_GNU_SOURCE", f"-I{HERE.parent / 'rtmw' / 'shm'}"]
        subprocess.run([compiler, *flags, str(HERE / "baseline.c"), "-o", str(program)], check=True)
        done = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for at, head in enumerate(heads):
        table.add_column(head, justify="left" if at == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def write_json(path: str | None, result: object) -> None:
    if path:
        Path(path).write_text(json.dumps(result, indent=2) + "\n")
