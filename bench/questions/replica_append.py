"""How many records of 200 bytes a second do three members answer, each when it is on the disks of two of them?

One to 64 threads or tasks of one program append at once, each its next record when the last one was answered. All three
members run on this host, and each has a folder of its own on one file system. They speak without encryption.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import clusters, disk
from bench.cases import RTMW, Case, Figures
from bench.questions.log_append import append_all, for_a_while
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Appends of 200 B to three members"
UNIT = "answers/s"
ROUNDS = 5


def cases(quick: bool) -> Sequence[Case]:
    seconds, systems = {"seconds": 0.5 if quick else 1.0}, (RTMW, *clusters.PEERS)
    return [
        Case("1 writer", systems, {**seconds, "part": "threads", "writers": 1}),
        Case("16 asyncio tasks", systems, {**seconds, "part": "tasks", "writers": 16}),
        Case("64 asyncio tasks", systems, {**seconds, "part": "tasks", "writers": 64}),
        Case("64 threads", systems, {**seconds, "part": "threads", "writers": 64}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder, clusters.system(system).serving(folder) as cluster:
        options = case.options | {"places": cluster.places}
        times = stage.play("replica_append", system, [Part(case.options["part"], options)])[0]
    return {system: Figures(sum(map(len, times)) / case.options["seconds"])}


def threads(role: Role) -> list[list[float]]:
    """How long each append took, in µs, by threads."""
    with clusters.system(role.peer).store(role.options["places"]) as store:
        return for_a_while(role, store)


def tasks(role: Role) -> list[list[float]]:
    """How long each append took, in µs, by tasks of one event loop."""
    import uvloop

    with clusters.system(role.peer).store(role.options["places"]) as store:
        return uvloop.run(append_all(store.appender_async, role.options["writers"], role.options["seconds"]))
