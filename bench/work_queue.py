"""NATS between two hosts: JetStream at each, which syncs before it acknowledges. The stream of the first host keeps
the messages of its programs; the work queue of the second host takes all of them over, and hands them to the programs
there.

A sender hears from the receiving program that it has a message: a core message to the subject of that sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.leaves import NAMES, place_of
from bench.log_peers import AppendAsync, AppenderAsync

SENT, DELIVERED, END = "bench.sent", "bench.delivered", "bench.end"
NUMBER = slice(0, 4)
"""Of a body: the number of the task that has sent it."""


async def connected(place: str | Path, is_first: bool) -> Any:
    from nats import connect

    return await connect(f"nats://127.0.0.1:{place_of(place, is_first).read_text()}", allow_reconnect=False)


async def make(place: str | Path) -> None:
    """The stream, and the work queue."""
    from nats.js.api import ExternalStream, RetentionPolicy, StreamConfig, StreamSource

    first, second = await connected(place, True), await connected(place, False)
    await first.jetstream().add_stream(StreamConfig("out", subjects=[SENT], max_bytes=64 << 20))
    source = StreamSource("out", external=ExternalStream(f"$JS.{NAMES[0]}.API"))
    await second.jetstream().add_stream(StreamConfig("in", sources=[source], retention=RetentionPolicy.WORK_QUEUE))
    for one in (first, second):
        await one.close()


@asynccontextmanager
async def sending(place: str | Path, writers: int) -> AsyncGenerator[AppenderAsync]:
    """A sender for each of so many tasks; a call returns when the receiving program has the message."""
    connection, waiting = await connected(place, True), dict[bytes, asyncio.Future[None]]()
    numbers = iter(range(writers))

    async def delivered(message: Any) -> None:
        waiting.pop(message.data).set_result(None)

    await connection.subscribe(DELIVERED, cb=delivered)
    await connection.flush()
    stream = connection.jetstream()

    @asynccontextmanager
    async def sender() -> AsyncGenerator[AppendAsync]:
        number = next(numbers).to_bytes(4, "little")

        async def send(body: bytes) -> None:
            there = waiting[number] = asyncio.get_running_loop().create_future()
            await stream.publish(SENT, number + body[NUMBER.stop :])
            await there

        yield send

    try:
        yield sender
    finally:
        await connection.publish(END, b"")
        await connection.close()


async def received(place: str | Path, ready: Callable[[], object]) -> int:
    """How many messages have come until the sender ends; each is acknowledged. `ready`: called when they may come."""
    connection, ended, count = await connected(place, False), asyncio.Event(), 0

    async def take(message: Any) -> None:
        nonlocal count
        count += 1
        await connection.publish(DELIVERED, message.data[NUMBER])
        await message.ack()

    async def end(_: Any) -> None:
        ended.set()

    await connection.jetstream().subscribe("", durable="bench", stream="in", cb=take, manual_ack=True)
    await connection.subscribe(END, cb=end)
    await connection.flush()
    ready()
    await ended.wait()
    await connection.close()
    return count
