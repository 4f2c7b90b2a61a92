"""What all processes of a play take of the processors: its programs, and nodes or servers that carry for them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

PROGRAM = "bench.role"


def processor_s() -> tuple[float, float]:
    """Seconds of processor time so far: of all that the process has started that started this one, and of those that
    are no programs of the play."""
    total = carrying = 0.0
    for process in _siblings():
        try:
            times, is_program = process.cpu_times(), PROGRAM in process.cmdline()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        carrying += 0 if is_program else times.user + times.system
    return total, carrying


def _siblings() -> Iterator[psutil.Process]:
    yield from psutil.Process(os.getppid()).children(recursive=True)
