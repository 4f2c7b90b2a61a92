"""How fast is a log read that lies in the page cache, and how fast is one opened whose writer was killed?

`recovery`: `rtmw.Log(folder)` passes over the whole last segment before it returns: it reads the records, and fills
what is behind them with zeros. The figure is the 64 MiB of that segment over the time of the call, with a segment
that is nearly full of records, and with one that has just begun. The writer is a process that ends itself with
SIGKILL behind an append. `read`: all records of a log that is larger than the processor's cache, from Python with an
object for each, in batches (`read_batches`: the bytes of all, and where each begins), and with the reader in C alone.
Each record is compared with its CRC. SQLite, LMDB and RocksDB give the same records to Python one by one, as rows or
values; their figure counts the bytes that the log has for as many records. `C page cache` copies a file of the log
out of the page cache, and does nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import median

import rtmw
from bench import baseline, disk
from bench.cases import PAGE_CACHE, RTMW, RTMW_BATCHES, RTMW_C, CannotMeasure, Case, Figures
from bench.log_peers import LIBRARIES, opened
from bench.role import Role
from bench.stage import ROOT, Part, Stage, environment

TITLE = "A log in the page cache"
UNIT = "GiB/s"
ROUNDS = 5
PASSES = 3
BATCH = 256 << 10
"""Bytes that are appended at once while the log is made."""
WHOLE = 64 << 20
"""Bytes of a segment: the default. The log has twice as many, and the processor's cache has less."""
OF_PEERS = 100_000
"""Records that a database is filled with."""
HEAD = 32
"""Bytes of a record of the log beside its data, which is a multiple of eight here."""


def cases(quick: bool) -> Sequence[Case]:
    ours = (RTMW, RTMW_BATCHES, RTMW_C)
    recovered = {"part": "recovers", "size": 200, "segment": WHOLE}
    read = {"part": "reads", "segment": WHOLE, "is_full": True}
    return [
        Case("recovery, segment full", (RTMW, PAGE_CACHE), recovered | {"is_full": True}),
        Case("recovery, segment empty", (RTMW, PAGE_CACHE), recovered | {"is_full": False}),
        Case("read, 200 B records", (*ours, *LIBRARIES, PAGE_CACHE), read | {"size": 200}),
        Case("read, 64 KiB records", (*ours, PAGE_CACHE), read | {"size": 64 << 10}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if system in LIBRARIES:
        return {system: Figures(stage.play("log_read", system, [Part("scans", case.options)])[0])}
    folder = made(case.options["size"], case.options["segment"], case.options["is_full"])
    if system == PAGE_CACHE:
        file = last_segment(folder)
        return {system: Figures(speed(file.stat().st_size, baseline.run("page_cache", file, PASSES)))}
    if system == RTMW_C:
        return {system: Figures(speed(size_of(folder), baseline.run("log_read", folder, PASSES)))}
    part = Part("reads_batches" if system == RTMW_BATCHES else case.options["part"], {"folder": str(folder)})
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
    return passed(role, lambda log: sum(len(record.data) for record in log.read()))


def reads_batches(role: Role) -> float:
    """The same in batches."""
    return passed(role, lambda log: sum(int(batch.offsets[-1]) for batch in log.read_batches()))


def passed(role: Role, read: Callable[[rtmw.Log[bytes]], int]) -> float:
    folder = Path(role.options["folder"])
    with rtmw.Log(folder, create=False) as log:
        times = timed(lambda: read(log))
    return speed(size_of(folder), times)


def scans(role: Role) -> float:
    """Of a database, with the bytes that as many records have in a log."""
    size = role.options["size"]
    with disk.new_folder() as folder, opened(role.peer, folder) as store:
        if store.fill is None or store.scan is None:
            raise CannotMeasure(f"{role.peer} is a server")
        scan = store.scan
        store.fill(os.urandom(size) for _ in range(OF_PEERS))
        times = timed(lambda: sum(1 for _ in scan()))
    return speed(OF_PEERS * (HEAD + size), times)


def timed(read: Callable[[], int]) -> list[float]:
    """Nanoseconds of each pass; `read` gives how much it saw."""
    times: list[float] = []
    for _ in range(PASSES):
        began, seen = time.perf_counter_ns(), read()
        times.append(time.perf_counter_ns() - began)
        if not seen:
            raise RuntimeError("nothing was read")
    return times
