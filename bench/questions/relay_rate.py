"""How many orders of 200 bytes a second does a relay deliver, durably and with both receipts?

Eight sources send to eight recipients: 64 streams, each of which sends its next order when it has the receipt for the
last one. So an order that counts was stored on the disk, sent, confirmed by its recipient, and confirmed to its source,
and the end of each is on the disk, too. Sources are one program and recipients another one; all speak the frame of the
paper. `at once`: the same without a recipient's half, as a message queue has it.

Beside it a RabbitMQ quorum queue of one node: 64 tasks of one program publish, each its next message when the last one
was confirmed, and another program consumes and acknowledges. Messages that were acknowledged count. With receipts each
task also waits for its consumer, as a source of a relay does: that one answers to a queue that the message names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import product

from bench import disk, quorum_queue, relays
from bench.cases import RTMW, Case, Figures
from bench.log_peers import AppendAsync, AppenderAsync
from bench.relays import Line, connected
from bench.role import Role
from bench.stage import Part, Stage
from rtmw.relay import Frame

TITLE = "Orders of 200 B that a relay delivers, with both receipts"
UNIT = "orders/s"
ROUNDS = 5
RABBITMQ = "RabbitMQ quorum queue"
RECEIPTS = "RabbitMQ quorum queue, with receipts"
STREAMS = "64 streams"
SOURCES, RECIPIENTS = [f"S{number}" for number in range(8)], [f"R{number}" for number in range(8)]
RULES = '[[allow]]\npeer = "agent:S*"\norder = ["R*/*"]\n'
WARM_S = 0.5
"""A server that has just started is slow at first."""
END = "end"


def cases(quick: bool) -> Sequence[Case]:
    return [Case(STREAMS, (RTMW, RABBITMQ, RECEIPTS), {"seconds": 1.0 if quick else 3.0})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    seconds = case.options["seconds"]
    with disk.new_folder() as folder:
        if system != RTMW:
            with quorum_queue.serving(folder) as (node,):
                about = {"place": node.place, "receipts": system == RECEIPTS}
                parts = [Part("consumer", case.options | about), Part("publisher", about)]
                return {system: Figures(stage.play("relay_rate", system, parts)[0] / seconds)}
        with relays.serving(folder, (*SOURCES, *RECIPIENTS), RULES) as port:
            parts = [Part("sources", case.options | {"port": port}), Part("recipients", {"port": port})]
            return {system: Figures(stage.play("relay_rate", system, parts)[0] / seconds)}


def sources(role: Role) -> int:
    """How many orders were confirmed within the seconds. Raises RuntimeError if one has failed."""
    import uvloop

    role.hear()
    try:
        return uvloop.run(send(role.options["port"], role.options["seconds"]))
    finally:
        role.tell(END)


async def send(port: int, seconds: float) -> int:
    confirmed, failed = 0, list[str]()

    async def source(name: str) -> Line:
        def answered(frame: Frame) -> None:
            nonlocal confirmed
            confirmed += 1
            if frame.body:
                failed.append(frame.body.decode())
            line.write(line.order(frame.source.decode().strip()))

        line = await connected(port, name, answered)
        return line

    lines = [await source(name) for name in SOURCES]
    for line, to in product(lines, RECIPIENTS):
        line.write(line.order(to))
    await asyncio.sleep(WARM_S)
    before = confirmed
    await asyncio.sleep(seconds)
    found = confirmed - before
    if failed:
        raise RuntimeError(f"{len(failed)} orders have failed: {failed[0]}")
    return found


def recipients(role: Role) -> None:
    """Until the sources have ended."""
    import uvloop

    async def confirm() -> None:
        for name in RECIPIENTS:
            await connected(role.options["port"], name)
        role.tell("ready")
        await asyncio.to_thread(role.hear)

    uvloop.run(confirm())


def consumer(role: Role) -> int:
    """How many messages it has acknowledged within the seconds."""
    import uvloop

    place, seconds = role.options["place"], role.options["seconds"]
    try:
        count: int = uvloop.run(quorum_queue.consume(place, lambda: role.tell("ready"), WARM_S, seconds))
    finally:
        role.tell(END)
    return count


def _publishing(role: Role) -> AbstractAsyncContextManager[AppenderAsync]:
    return quorum_queue.publishing(role.options["place"], receipts=role.options["receipts"])


def publisher(role: Role) -> None:
    """Until the consumer has ended."""
    import uvloop

    async def publish() -> None:
        async with _publishing(role) as opened, AsyncExitStack() as stack:
            senders = [await stack.enter_async_context(opened()) for _ in range(64)]
            await asyncio.to_thread(role.hear)
            going = [asyncio.create_task(keep_on(sender)) for sender in senders]
            await asyncio.to_thread(role.hear)
            for task in going:
                task.cancel()
            await asyncio.gather(*going, return_exceptions=True)

    uvloop.run(publish())


async def keep_on(sender: AppendAsync) -> None:
    body = bytes(relays.SIZE)
    while True:
        await sender(body)
