"""How many letters of 200 bytes a second does a core accept from 64 asyncio tasks, while their receiver is away?

Each task sends its next letter when the last one was accepted: with class LOG, when it is on the disk. Beside it the
same tasks append to a bare `rtmw.Log`, and publish to a stream of NATS JetStream that syncs before it acknowledges.
Beside NORMAL, which no disk keeps, a program publishes as large messages on a RELIABLE topic, one a call, and another
one takes them: the bus does as much for letters, without a core between.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import rtmw
from bench import disk
from bench.cases import RTMW, CannotMeasure, Case, Figures
from bench.letters import SIZE, serving
from bench.log_peers import AppendAsync, AppenderAsync
from bench.questions import one_way
from bench.questions.log_append import append_all
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Letters of 200 B that a core accepts from 64 tasks"
UNIT = "letters/s"
ROUNDS = 5
APPENDS, NATS, RABBITMQ = "rtmw.Log, appends", "NATS JetStream", "RabbitMQ"
TOPIC = "rtmw, a RELIABLE topic"
NO_RABBITMQ = "no client is among the packages of the bench, and the server needs Erlang"
LOGGED, NOT_LOGGED = "LOG, on the disk", "NORMAL"


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.3 if quick else 0.5, "writers": 64}
    return [
        Case(LOGGED, (RTMW, APPENDS, NATS, RABBITMQ), options | {"delivery": "LOG"}),
        Case(NOT_LOGGED, (RTMW, TOPIC), options | {"delivery": "NORMAL"}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if system == RABBITMQ:
        raise CannotMeasure(NO_RABBITMQ)
    if system == TOPIC:
        return {system: published(stage, case)}
    question, peer = (
        ("transfer_rate", RTMW) if system == RTMW else ("log_append", RTMW if system == APPENDS else system)
    )
    with disk.new_folder() as folder:
        part = Part("tasks", case.options | {"folder": str(folder)})
        times = stage.play(question, peer, [part])[0]
    return {system: Figures(sum(map(len, times)) / case.options["seconds"])}


def published(stage: Stage, case: Case) -> Figures:
    """Messages of the size of a letter on a topic."""
    options = {"seconds": case.options["seconds"], "many": False, "size": SIZE}
    found = one_way.measure(stage, RTMW, Case(case.name, (RTMW,), options))[RTMW]
    return Figures(1e6 * found.value, note=found.note)


@contextmanager
def sending(domain: int, delivery: rtmw.Delivery) -> Generator[AppenderAsync]:
    """Letters as a log's appends are written: tasks of one sender."""
    with rtmw.Sender("bench", domain=domain) as sender:

        @asynccontextmanager
        async def appender() -> AsyncGenerator[AppendAsync]:
            yield lambda body: sender.send_async("parked", body, delivery=delivery)

        yield appender


def tasks(role: Role) -> list[list[float]]:
    """How long each took, in µs, by tasks."""
    import uvloop

    delivery = rtmw.Delivery[role.options["delivery"]]
    with serving(role.domain, Path(role.options["folder"])), sending(role.domain, delivery) as appender:
        return uvloop.run(append_all(appender, role.options["writers"], role.options["seconds"]))
