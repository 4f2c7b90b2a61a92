"""How many letters of 200 bytes a second come from 64 asyncio tasks of one host to a program of another?

Each task sends its next letter when the last one is DELIVERED: handed to the receiving program. Letters are on the
disks of both hosts then, and the receiver acknowledges each. Beside it the same over NATS, with a stream at the
sender's host and a work queue at the receiver's, both of which sync before they acknowledge. The hosts are on this
machine, and a TCP connection over loopback lies between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import rtmw
from bench import disk, work_queue
from bench.cable import HERE
from bench.cases import RTMW, CannotMeasure, Case, Figures
from bench.leaves import leaves
from bench.letters import serving_two
from bench.log_peers import AppendAsync
from bench.questions.log_append import append_all
from bench.questions.transfer_rate import NO_RABBITMQ
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Letters of 200 B from 64 tasks that a program of another host gets"
UNIT = "letters/s"
ROUNDS = 5
NATS, RABBITMQ = "NATS work queue", "RabbitMQ quorum queue"
DELIVERED = "LOG, DELIVERED"
SERVICE = "work"
END = b"end"


def cases(quick: bool) -> Sequence[Case]:
    return [Case(DELIVERED, (RTMW, NATS, RABBITMQ), {"seconds": 0.5 if quick else 1.0, "writers": 64})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if system == RABBITMQ:
        raise CannotMeasure(NO_RABBITMQ)
    by = "node" if system == RTMW else "work_queue"
    with disk.new_folder() as folder:
        options = case.options | {"folder": str(folder)}
        parts = [Part(f"sender_by_{by}", options), Part(f"receiver_by_{by}", options)]
        times = stage.play("transfer_between", system, parts)[0]
    return {system: Figures(sum(map(len, times)) / case.options["seconds"])}


def sender_by_node(role: Role) -> list[list[float]]:
    """How long each took, in µs, by tasks."""
    import uvloop

    with (
        serving_two(role.domain, Path(role.options["folder"])) as two,
        rtmw.Sender("bench", domain=two.here) as out,
    ):
        role.tell(str(two.there))
        role.hear()
        to, delivery, level = f"{SERVICE}@there", rtmw.Delivery.LOG, rtmw.Level.DELIVERED

        @asynccontextmanager
        async def sender() -> AsyncGenerator[AppendAsync]:
            yield lambda body: out.send_async(to, body, delivery=delivery, wait=level)

        times = uvloop.run(append_all(sender, role.options["writers"], role.options["seconds"]))
        out.send(to, END, delivery=delivery, wait=rtmw.Level.CONSUMED)
        role.hear()
    return times


def receiver_by_node(role: Role) -> int:
    """How many letters it has consumed."""
    import uvloop

    with rtmw.Inbox(SERVICE, domain=int(role.hear())) as inbox:
        role.tell("ready")
        count = uvloop.run(consumed(inbox))
        role.tell("done")
    return count


async def consumed(inbox: rtmw.Inbox) -> int:
    """Until the last letter; many are consumed at once, and share syncs."""
    going, count = set[asyncio.Task[None]](), 0

    async def consume(letter: rtmw.Letter) -> None:
        async with letter:
            pass

    async for letter in inbox:
        count += 1
        task = asyncio.create_task(consume(letter))
        going.add(task)
        task.add_done_callback(going.discard)
        if letter.body == END:
            break
    await asyncio.gather(*going)
    return count


def sender_by_work_queue(role: Role) -> list[list[float]]:
    """How long each took, in µs, by tasks."""
    import uvloop

    folder = Path(role.options["folder"])

    async def send() -> list[list[float]]:
        async with work_queue.sending(folder, role.options["writers"]) as sender:
            return await append_all(sender, role.options["writers"], role.options["seconds"])

    with leaves(folder, (HERE, HERE), has_tls=False, has_streams=True):
        uvloop.run(work_queue.make(folder))
        role.tell("made")
        role.hear()
        times = uvloop.run(send())
        role.hear()
    return times


def receiver_by_work_queue(role: Role) -> int:
    """How many messages it has acknowledged."""
    import uvloop

    role.hear()
    count: int = uvloop.run(work_queue.received(Path(role.options["folder"]), lambda: role.tell("ready")))
    role.tell("done")
    return count
