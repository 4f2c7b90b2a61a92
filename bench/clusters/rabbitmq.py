"""RabbitMQ: a quorum queue with a member on each of three nodes, publisher confirms. Clients go on at another node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from bench import quorum_queue
from bench.clusters import Cluster
from bench.log_peers import Append, AppendAsync, AppenderAsync, Store

LOOK_AGAIN_S: Final = 0.05
ANSWER_S: Final = 1.0
CONNECT_S: Final = 3.0


@contextmanager
def serving(folder: Path) -> Generator[Cluster]:
    with quorum_queue.serving(folder, 3) as nodes:
        places = [node.place for node in nodes]

        def leader() -> int:
            found = json.loads(nodes[0].control("list_queues", "name", "leader", "--formatter", "json"))
            name = next(queue["leader"] for queue in found if queue["name"] == quorum_queue.QUEUE)
            return int(next(node for node in nodes if node.name == name).pid_file.read_text())

        asyncio.run(_touch(places[0]))
        yield Cluster(places, leader)


async def _touch(place: str) -> None:
    """Makes the queue."""
    async with quorum_queue.publishing(place):
        pass


@contextmanager
def store(places: list[str]) -> Generator[Store]:
    yield Store(lambda: _appender(places[0]), _shared(places[0]))


@asynccontextmanager
async def appender(places: list[str]) -> AsyncGenerator[AppendAsync]:
    """A message that was not confirmed goes out again, by another node: the queue may have it twice."""
    turn, connecting = cycle(places), asyncio.Lock()
    publish: AppendAsync | None = None

    async def connected() -> AppendAsync:
        nonlocal publish
        async with connecting:
            if publish is None:
                stack = AsyncExitStack()  # left open: the connection of a member that stands still does not close
                async with asyncio.timeout(CONNECT_S):
                    opened = await stack.enter_async_context(quorum_queue.publishing(next(turn)))
                    publish = await stack.enter_async_context(opened())
            return publish

    async def append(record: bytes) -> None:
        nonlocal publish
        while True:
            mine: AppendAsync | None = None
            try:
                mine = await connected()
                async with asyncio.timeout(ANSWER_S):
                    await mine(record)
                return
            except Exception:  # no answer, no connection
                if publish is mine:
                    publish = None
                await asyncio.sleep(LOOK_AGAIN_S)

    yield append


@contextmanager
def _appender(place: str) -> Generator[Append]:
    with asyncio.Runner() as runner:

        async def begin() -> tuple[AsyncExitStack, Any]:
            stack = AsyncExitStack()
            publisher = await stack.enter_async_context(quorum_queue.publishing(place))
            return stack, await stack.enter_async_context(publisher())

        stack, publish = runner.run(begin())
        run = runner.get_loop().run_until_complete
        yield lambda record: run(publish(record))
        runner.run(stack.aclose())


def _shared(place: str) -> AppenderAsync:
    """Tasks of one loop: the first one connects, and the last one to leave closes the connection."""
    stack, users = AsyncExitStack(), set[object]()
    connecting: list[asyncio.Task[AppenderAsync]] = []

    @asynccontextmanager
    async def appender_async() -> AsyncGenerator[AppendAsync]:
        me = object()
        users.add(me)
        if not connecting:
            connecting.append(asyncio.create_task(stack.enter_async_context(quorum_queue.publishing(place))))
        async with (await connecting[0])() as append:
            yield append
        users.discard(me)
        if not users:
            await stack.aclose()

    return appender_async
