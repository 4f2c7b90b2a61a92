"""How fast is a log read that lies in the page cache, and how fast is one opened whose writer was killed?

`recovery`: `rtmw.Log(folder)` passes over the whole last segment before it returns: it reads the records, and fills
what is behind them with zeros. The figure is the 64 MiB of that segment over the time of the call, with a segment
that is nearly full of records, and with one that has just begun. The writer is a process that ends itself with
SIGKILL behind an append. `read`: all records, from Python with an object for each, and with the reader in C alone.
Each record is compared with its CRC. `C page cache` copies a file of the log out of the page cache, and does
nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median

import rtmw
from bench import baseline, disk
from bench.cases import PAGE_CACHE, RTMW, RTMW_C, Case, Figures
from bench.role import Role
from bench.stage import ROOT, Part, Stage, environment

TITLE = "A log in the page cache"
UNIT = "GiB/s"
ROUNDS = 5
PASSES = 3
BATCH = 256 << 10
"""Bytes that are appended at once while the log is made."""
WHOLE, SHORT = 64 << 20, 16 << 20
"""Bytes of a segment: the default, and what is read quickly enough, also where each record becomes an object."""


def cases(quick: bool) -> Sequence[Case]:
    recovered = {"part": "recovers", "size": 200, "segment": WHOLE}
    read = {"part": "reads", "segment": SHORT, "is_full": True}
    return [
        Case("recovery, segment full", (RTMW, PAGE_CACHE), recovered | {"is_full": True}),
        Case("recovery, segment empty", (RTMW, PAGE_CACHE), recovered | {"is_full": False}),
        Case("read, 200 B records", (RTMW, RTMW_C, PAGE_CACHE), read | {"size": 200}),
        Case("read, 64 KiB records", (RTMW, RTMW_C, PAGE_CACHE), read | {"size": 64 << 10}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    folder = made(case.options["size"], case.options["segment"], case.options["is_full"])
    if system == PAGE_CACHE:
        file = last_segment(folder)
        return {system: Figures(speed(file.stat().st_size, baseline.run("page_cache", file, PASSES)))}
    if system == RTMW_C:
        return {system: Figures(speed(size_of(folder), baseline.run("log_read", folder, PASSES)))}
    part = Part(case.options["part"], {"folder": str(folder)})
    return {system: Figures(stage.play("log_read", system, [part])[0])}


def speed(size: int, nanoseconds: Sequence[float]) -> float:
    """GiB a second of the median pass."""
    return size / (1 << 30) / (median(nanoseconds) / 1e9)


@cache
def made(size: int, segment: int, is_full: bool) -> Path:
    """A log of records of this size, made once a run. Its last segment, the first one that is not smaller than the
    others will be, is nearly full, or it has just begun."""
    path = Path(disk.folder(), f"log-{size}-{segment}-{is_full}")
    with rtmw.Log(path, segment=segment) as log:
        room = used = 0
        while room < segment or (is_full and room - used > 2 * BATCH):
            log.append_many([os.urandom(size)] * (BATCH // size))
            file = last_segment(path)
            room, used = file.stat().st_size, log.end - int(file.stem)
    return path


def size_of(folder: Path) -> int:
    """Bytes from the first record to the end."""
    with rtmw.Log(folder, create=False) as log:
        stats = log.stats()
        return stats.end - stats.earliest


def last_segment(folder: Path) -> Path:
    return max(folder.glob("*.seg"))


def kill_a_writer(folder: str) -> None:
    """Appends a record, and is killed by the time it is answered: the log has not been closed."""
    words = [sys.executable, "-c", "import bench.questions.log_read as q, sys; q.append_and_die(sys.argv[1])", folder]
    done = subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the writer was to be killed, and ended with {done.returncode}: {done.stderr.decode()}")


def append_and_die(folder: str) -> None:
    log = rtmw.Log(folder, create=False)
    log.append(b"the last one")
    os.kill(os.getpid(), signal.SIGKILL)


def recovers(role: Role) -> float:
    """GiB a second of the last segment."""
    folder = Path(role.options["folder"])
    times: list[float] = []
    for _ in range(PASSES):
        kill_a_writer(str(folder))
        began = time.perf_counter_ns()
        log = rtmw.Log(folder, create=False)
        times.append(time.perf_counter_ns() - began)
        log.close()
    return speed(last_segment(folder).stat().st_size, times)


def reads(role: Role) -> float:
    """GiB a second of all records."""
    folder = Path(role.options["folder"])
    times: list[float] = []
    with rtmw.Log(folder, create=False) as log:
        for _ in range(PASSES):
            began, seen = time.perf_counter_ns(), 0
            for record in log.read():
                seen += len(record.data)
            times.append(time.perf_counter_ns() - began)
    if not seen:
        raise RuntimeError(f"no record was read from {folder}")
    return speed(size_of(folder), times)
