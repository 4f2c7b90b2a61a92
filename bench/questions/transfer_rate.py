"""How many letters of 200 bytes a second does a core accept while their receiver is away?

From 64, 256 and 1,024 asyncio tasks, each of which sends its next letter when the last one was accepted: with class
LOG, when it is on the disk. Beside it the same tasks append to a bare `rtmw.Log`, and publish to a stream of NATS
JetStream that syncs before it acknowledges.

From 16 threads, each of which does the same with calls that block.

In batches of 256 letters (`Sender.send_many`), from one thread that sends its next batch when the last one was
accepted. Beside it such a thread appends batches to a bare `rtmw.Log` (`append_many`): on both sides one sync a batch.

Beside NORMAL, which no disk keeps, a program publishes as large messages on a RELIABLE topic, one a call, and another
one takes them: the bus does as much for letters, without a core between.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import rtmw
from bench import disk
from bench.cases import RTMW, CannotMeasure, Case, Figures
from bench.letters import SIZE, serving
from bench.log_peers import AppendAsync, Store
from bench.questions import one_way
from bench.questions.log_append import WARM_S, append_all, for_a_while, record
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Letters of 200 B that a core accepts"
UNIT = "letters/s"
ROUNDS = 5
APPENDS, NATS, RABBITMQ = "rtmw.Log, appends", "NATS JetStream", "RabbitMQ"
TOPIC = "rtmw, a RELIABLE topic"
NO_RABBITMQ = "a quorum queue of it is measured beside the relay, by relay_rate"
LOGGED = {writers: f"LOG, on the disk, {writers:,} tasks" for writers in (64, 256, 1024)}
NOT_LOGGED = "NORMAL, 64 tasks"
LOGGED_THREADS = "LOG, on the disk, 16 threads"
LOGGED_BATCHES, BATCHES = "LOG, on the disk, batches", "NORMAL, batches"
BATCH = 256


def cases(quick: bool) -> Sequence[Case]:
    seconds = {"seconds": 0.3 if quick else 0.5}
    tasks, batches = seconds | {"part": "tasks", "writers": 64}, seconds | {"part": "batches"}
    return [
        *(
            Case(case, (RTMW, APPENDS, NATS, RABBITMQ), tasks | {"delivery": "LOG", "writers": writers})
            for writers, case in LOGGED.items()
        ),
        Case(LOGGED_THREADS, (RTMW, APPENDS, NATS), seconds | {"part": "threads", "writers": 16, "delivery": "LOG"}),
        Case(LOGGED_BATCHES, (RTMW, APPENDS), batches | {"delivery": "LOG"}),
        Case(NOT_LOGGED, (RTMW,), tasks | {"delivery": "NORMAL"}),
        Case(BATCHES, (RTMW, TOPIC), batches | {"delivery": "NORMAL"}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if system == RABBITMQ:
        raise CannotMeasure(NO_RABBITMQ)
    if system == TOPIC:
        return {system: published(stage, case)}
    with disk.new_folder() as folder:
        options = case.options | {"folder": str(folder)}
        if case.options["part"] == "batches":
            return {system: Figures(stage.play("transfer_rate", system, [Part("batches", options)])[0])}
        question, peer = (
            ("transfer_rate", RTMW) if system == RTMW else ("log_append", RTMW if system == APPENDS else system)
        )
        times = stage.play(question, peer, [Part(case.options["part"], options)])[0]
    return {system: Figures(sum(map(len, times)) / case.options["seconds"])}


def published(stage: Stage, case: Case) -> Figures:
    """Messages of the size of a letter on a topic."""
    options = {"seconds": case.options["seconds"], "many": False, "size": SIZE}
    found = one_way.measure(stage, RTMW, Case(case.name, (RTMW,), options))[RTMW]
    return Figures(1e6 * found.value, note=found.note)


@contextmanager
def sending(role: Role) -> Generator[Store]:
    """Letters as a log's appends are written: threads or tasks of one sender, to a node of their own."""
    delivery = rtmw.Delivery[role.options["delivery"]]
    with serving(role.domain, Path(role.options["folder"])), rtmw.Sender("bench", domain=role.domain) as sender:

        @asynccontextmanager
        async def appender() -> AsyncGenerator[AppendAsync]:
            yield lambda body: sender.send_async("parked", body, delivery=delivery)

        yield Store(lambda: nullcontext(lambda body: sender.send("parked", body, delivery=delivery)), appender)


def threads(role: Role) -> list[list[float]]:
    """How long each took, in µs, by threads."""
    with sending(role) as store:
        return for_a_while(role, store)


def tasks(role: Role) -> list[list[float]]:
    """How long each took, in µs, by tasks."""
    import uvloop

    with sending(role) as store:
        return uvloop.run(append_all(store.appender_async, role.options["writers"], role.options["seconds"]))


def batches(role: Role) -> float:
    """Letters, or records, a second."""
    folder, seconds = Path(role.options["folder"]), role.options["seconds"]
    if role.peer == APPENDS:
        with rtmw.Log(folder / "log") as log:
            return rate(log.append_many, seconds)
    delivery = rtmw.Delivery[role.options["delivery"]]
    with serving(role.domain, folder), rtmw.Sender("bench", domain=role.domain) as sender:
        return rate(lambda bodies: sender.send_many("parked", bodies, delivery=delivery), seconds)


def rate(send: Callable[[list[bytes]], object], seconds: float) -> float:
    """Bodies a second, in batches one after the other, behind a moment that warms up."""
    bodies, count = [record()] * BATCH, 0
    begin = time.perf_counter() + WARM_S
    while time.perf_counter() < begin:
        send(bodies)
    begin = time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        send(bodies)
        count += BATCH
    return count / (now - begin)
