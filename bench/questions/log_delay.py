"""How long does the slowest of a hundred appends take while 16 writers append at once?

The value is the 99th percentile of an append of 200 bytes, as in `log_append`: the writers never rest, so an append
waits for others, too. `C fdatasync`: of a write and an fdatasync on the same file system, by a single program. It has
the disk and the processors to itself first, and then runs beside the writers. `C group commit`: of 16 threads in C that
share syncs, into one file that is filled ahead, without a log: no log with so many writers can do better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from bench import baseline, disk
from bench.cases import FDATASYNC, GROUP_COMMIT, RTMW, RTMW_C, Case, Figures
from bench.log_peers import opened
from bench.numbers import percentile, spread
from bench.questions.log_append import SIZE, WARM_S, answered, micros, under_load
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "The 99th of a hundred appends of 200 B, under load"
UNIT = "µs"
ROUNDS = 5
ALONE, BESIDE = "16 threads", "16 threads, and an fdatasync beside them"


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.3 if quick else 0.6, "part": "threads", "writers": 16}
    return [
        Case(ALONE, (RTMW, RTMW_C, GROUP_COMMIT, FDATASYNC), options),
        Case(BESIDE, (RTMW,), options | {"part": "beside"}, beside=(FDATASYNC,)),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if case.options["part"] == "beside":
        with disk.new_folder() as folder:
            appends, syncs = stage.play("log_delay", RTMW, [Part("beside", case.options | {"folder": str(folder)})])[0]
        return {RTMW: slowest(chain(*appends)), FDATASYNC: slowest(syncs)}
    return {system: slowest(chain(*answered(stage, system, case)[0]))}


def slowest(times: Iterable[float]) -> Figures:
    """Of a hundred."""
    given = sorted(times)
    return Figures(percentile(given, 0.99), spread(given))


def beside(role: Role) -> tuple[list[list[float]], list[float]]:
    """How long each append took, in µs, by threads; and how long each sync of a program that ran beside them."""
    place, syncs = Path(role.options["folder"]), list[float]()
    baseline.compiled("fdatasync")

    def sync() -> None:
        syncs.extend(micros(baseline.run("fdatasync", place / "file", SIZE, WARM_S, role.options["seconds"])))

    with opened(role.peer, place) as store:
        return under_load(role, store, sync), syncs
