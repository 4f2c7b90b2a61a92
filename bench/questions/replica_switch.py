"""How long is nothing answered when the leader of three members is killed, or stands still?

Sixteen tasks append, each its next record when the last one was answered, and a record that was not answered goes out
again. The longest time between two answers counts, from the second before the kill on until answers come again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

from bench import clusters, disk
from bench.cases import RTMW, Case, Figures
from bench.log_peers import AppendAsync
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "No answer of three members after their leader was killed"
UNIT = "s"
ROUNDS = 5
WRITERS: Final = 16
BEFORE_S: Final = 1.0
AFTER_S: Final = 1.0
LOOK_AGAIN_S: Final = 0.05
LIMIT_S: Final = 24.0


def cases(quick: bool) -> Sequence[Case]:
    systems = (RTMW, *clusters.PEERS)
    return [Case(name, systems, {"signal": int(number)}) for name, number in _SIGNALS.items()]


_SIGNALS: Final = {"SIGKILL": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder, clusters.system(system).serving(folder) as cluster:
        leader = cluster.leader()
        options = case.options | {"places": cluster.places, "leader": leader}
        try:
            return {system: Figures(stage.play("replica_switch", system, [Part("writers", options)])[0])}
        finally:
            with suppress(ProcessLookupError):
                os.kill(leader, signal.SIGCONT)


def writers(role: Role) -> float:
    """Seconds without an answer."""
    import uvloop

    return uvloop.run(_write(role))


async def _write(role: Role) -> float:
    answers, over = list[float](), asyncio.Event()
    async with clusters.system(role.peer).appender(role.options["places"]) as append:
        going = [asyncio.create_task(_keep_on(append, answers, over)) for _ in range(WRITERS)]
        while not answers:
            await asyncio.sleep(LOOK_AGAIN_S)
        await asyncio.sleep(BEFORE_S)
        os.kill(role.options["leader"], role.options["signal"])
        killed = time.monotonic()
        while answers[-1] < killed + AFTER_S:
            if time.monotonic() > killed + LIMIT_S:
                raise RuntimeError(f"no answer within {LIMIT_S:g} s")
            await asyncio.sleep(LOOK_AGAIN_S)
        over.set()
        await asyncio.wait(going, timeout=AFTER_S)
    return max(after - before for before, after in pairwise(answers))


async def _keep_on(append: AppendAsync, answers: list[float], over: asyncio.Event) -> None:
    body = bytes(200)
    while not over.is_set():
        await append(body)
        answers.append(time.monotonic())
