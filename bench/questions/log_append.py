"""How many records of 200 bytes a second does a log answer, each when a sync has brought it to the disk?

One to 64 threads or tasks of one Python program append at once, each its next record when the last one was
answered. `rtmw, from C` is the same log without Python, `C fdatasync` a write and an fdatasync into a file that is
filled ahead, which is what one writer can have of this disk. All lie on one file system. Connections are made, and
a tenth of a second goes by, before answers count.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from bench import baseline, disk
from bench.cases import FDATASYNC, GROUP_COMMIT, RTMW, RTMW_C, Case, Figures
from bench.log_peers import PEERS, AppenderAsync, Store, opened
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Appends of 200 B, answered when they are on the disk"
UNIT = "answers/s"
ROUNDS = 5
"""At most: a play starts servers."""
SIZE = 200
WARM_S = 0.1

clock = time.perf_counter_ns


def cases(quick: bool) -> Sequence[Case]:
    seconds = {"seconds": 0.3 if quick else 0.4}
    return [
        Case("1 writer", (RTMW, *PEERS, RTMW_C, FDATASYNC), {**seconds, "part": "threads", "writers": 1}),
        Case("16 threads", (RTMW, *PEERS, RTMW_C), {**seconds, "part": "threads", "writers": 16}),
        Case("64 threads", (RTMW, *PEERS, RTMW_C), {**seconds, "part": "threads", "writers": 64}),
        Case("64 asyncio tasks", (RTMW, *PEERS), {**seconds, "part": "tasks", "writers": 64}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    times, seconds = answered(stage, system, case)
    return {system: Figures(sum(map(len, times)) / seconds, note=where() if system == FDATASYNC else "")}


def where() -> str:
    return f"on {disk.file_system(disk.folder())}"


def answered(stage: Stage, system: str, case: Case) -> tuple[list[list[float]], float]:
    """How long each append took, in µs, by writers; and the seconds in which they were answered."""
    seconds, writers = case.options["seconds"], case.options["writers"]
    with disk.new_folder() as folder:
        if system == FDATASYNC:
            return [micros(baseline.run("fdatasync", folder / "file", SIZE, WARM_S, seconds))], seconds
        if system == GROUP_COMMIT:
            return [micros(baseline.run("group_commit", folder / "file", writers, SIZE, WARM_S, seconds))], seconds
        if system == RTMW_C:
            return [micros(baseline.run("log_append", folder, writers, SIZE, WARM_S, seconds))], seconds
        options = case.options | {"folder": str(folder)}
        return stage.play("log_append", system, [Part(case.options["part"], options)])[0], seconds


def micros(nanoseconds: Sequence[float]) -> list[float]:
    return [value / 1000 for value in nanoseconds]


def record() -> bytes:
    return bytes(range(SIZE))


def inside(times: Sequence[int], begin: int, end: int) -> list[float]:
    """Of the clock after each answer: how long the appends took that were answered between the two, in µs."""
    return [(now - last) / 1000 for last, now in pairwise(times) if begin <= now < end]


def threads(role: Role) -> list[list[float]]:
    """How long each append took, in µs, by threads."""
    with opened(role.peer, Path(role.options["folder"])) as store:
        return for_a_while(role, store)


def for_a_while(role: Role, store: Store) -> list[list[float]]:
    """The same, of any store."""
    return under_load(role, store, lambda: time.sleep(WARM_S + role.options["seconds"]))


def under_load(role: Role, store: Store, meanwhile: Callable[[], None]) -> list[list[float]]:
    """The same, while something goes on that takes so long at least."""
    writers, period = role.options["writers"], role.options["seconds"]
    times: list[list[int]] = [[] for _ in range(writers)]
    errors: list[Exception] = []
    ready = threading.Barrier(writers + 1)
    stop = threading.Event()

    going = [threading.Thread(target=write, args=(store, mine, ready, stop, errors), daemon=True) for mine in times]
    for thread in going:
        thread.start()
    with suppress(threading.BrokenBarrierError):  # one of them has failed
        ready.wait()
    begin = clock() + int(WARM_S * 1e9)
    if not errors:
        meanwhile()
    stop.set()
    for thread in going:
        thread.join()
    if errors:
        raise errors[0]
    return [inside(mine, begin, begin + int(period * 1e9)) for mine in times]


def write(
    store: Store, times: list[int], ready: threading.Barrier, stop: threading.Event, errors: list[Exception]
) -> None:
    """One thread: the clock after each answer."""
    try:
        with store.appender() as append:
            body, is_over, answer = record(), stop.is_set, times.append
            append(body)  # statements are prepared, files are made
            ready.wait()
            answer(clock())
            while not is_over():
                append(body)
                answer(clock())
    except Exception as error:
        errors.append(error)
        ready.abort()


def tasks(role: Role) -> list[list[float]]:
    """The same, of tasks of one event loop."""
    import uvloop

    with opened(role.peer, Path(role.options["folder"])) as store:
        return uvloop.run(append_all(store.appender_async, role.options["writers"], role.options["seconds"]))


async def append_all(appender: AppenderAsync, writers: int, period: float) -> list[list[float]]:
    """How long each call took, in µs, by tasks: each of so many has an appender, and waits for each answer."""
    times: list[list[int]] = [[] for _ in range(writers)]
    ready = asyncio.Barrier(writers)
    ends: list[int] = []

    async def go(mine: list[int], is_over: Callable[[], bool]) -> None:
        async with appender() as append:
            body = record()
            await append(body)
            await ready.wait()
            ends.append(clock() + int((WARM_S + period) * 1e9))
            mine.append(clock())
            while not is_over():
                await append(body)
                mine.append(clock())

    await asyncio.gather(*(go(mine, lambda: clock() >= ends[0]) for mine in times))
    return [inside(mine, ends[0] - int(period * 1e9), ends[0]) for mine in times]
