"""How much does one writer bring to the disk, in appends of 64 KiB, each with a sync before the next one?

Beside `rtmw.Log` the same bytes in a plain file, written and synced by a loop in Python: a file that grows with
each write, and one that was filled with zeros before, which spares each sync the metadata. A log fills its next
segment while it is appended to, so the filling is in its figure; that of the plain file is not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import disk
from bench.cases import GROWING, PREPARED, RTMW, Case, Figures
from bench.log_peers import opened
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Appends of 64 KiB, each on the disk before the next"
UNIT = "MiB/s"
ROUNDS = 5
SIZE = 64 << 10
FILLED = 64 << 20
"""Bytes of the file that is filled before; then it is written again from its beginning."""
WARM_S = 0.1


def cases(quick: bool) -> Sequence[Case]:
    return [Case("1 writer", (RTMW, GROWING, PREPARED), {"seconds": 0.4 if quick else 0.7})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder:
        options = case.options | {"folder": str(folder), "fills": system == PREPARED}
        part = "log" if system == RTMW else "plain"
        return {system: Figures(stage.play("log_bulk", system, [Part(part, options)])[0])}


def log(role: Role) -> float:
    with opened(RTMW, Path(role.options["folder"])) as store, store.appender() as append:
        return rate(append, role.options["seconds"])


def plain(role: Role) -> float:
    with plain_file(Path(role.options["folder"], "plain"), role.options["fills"]) as file:
        places = FILLED // SIZE
        number = 0

        def append(body: bytes) -> None:
            nonlocal number
            os.pwrite(file, body, number % places * SIZE if role.options["fills"] else number * SIZE)
            os.fdatasync(file)
            number += 1

        return rate(append, role.options["seconds"])


@contextmanager
def plain_file(path: Path, fills: bool) -> Generator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        if fills:
            for _ in range(FILLED >> 20):
                os.write(file, bytes(1 << 20))
            os.fsync(file)
        yield file
    finally:
        os.close(file)


def rate(append: Callable[[bytes], object], seconds: float) -> float:
    """MiB a second, behind a moment that warms up."""
    body = os.urandom(SIZE)
    begin = time.perf_counter() + WARM_S
    while time.perf_counter() < begin:
        append(body)
    begin, count = time.perf_counter(), 0
    while (now := time.perf_counter()) < begin + seconds:
        append(body)
        count += 1
    return count * SIZE / (now - begin) / (1 << 20)
