"""RabbitMQ on this host alone: one node with a quorum queue, publisher confirms and consumer acknowledgements.

The server is that of the distribution, run in the foreground with files, ports and a cookie of its own. Its name server
`epmd` is a child of the bench, too, so nothing is left when both have ended.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

from bench.cases import CannotMeasure
from bench.log_peers import AppendAsync, AppenderAsync
from bench.log_peers.server import answers, free_port, server

QUEUE = "bench"
PROGRAMS = "/usr/lib/rabbitmq/bin"
"""Debian's scripts in the path of users start the server as the user `rabbitmq`; these start it as whoever calls."""
START_S = 60.0
PREFETCH = 1024


def versions() -> dict[str, str]:
    """Of the server, which its folder names, and of its client; "not installed" where there is none."""
    folders = sorted(Path(PROGRAMS).parent.glob("lib/rabbitmq_server-*"))
    found = {"RabbitMQ": folders[-1].name.partition("-")[2] if folders else "not installed"}
    try:
        return found | {"aio-pika": version("aio-pika")}
    except PackageNotFoundError:
        return found | {"aio-pika": "not installed"}


def program(name: str, package: str = "rabbitmq-server") -> str:
    found = shutil.which(name, path=os.pathsep.join((PROGRAMS, os.environ.get("PATH", os.defpath))))
    if found is None:
        raise CannotMeasure(f"{name} is not installed (apt-get install {package})")
    return found


@dataclass(frozen=True)
class Node:
    """A server."""

    port: int
    pid_file: Path
    about: dict[str, str]
    """Its environment, in which its programs find it."""

    @property
    def place(self) -> str:
        """Where clients connect."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def name(self) -> str:
        return self.about["RABBITMQ_NODENAME"]

    def control(self, *command: str) -> str:
        """What rabbitmqctl prints. RuntimeError: it failed."""
        line = [program("rabbitmqctl"), "-q", "-n", self.name, *command]
        done = subprocess.run(line, env=self.about, capture_output=True, text=True, timeout=START_S)
        if done.returncode != 0:
            raise RuntimeError(f"rabbitmqctl {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def serving(folder: Path, nodes: int = 1) -> Generator[list[Node]]:
    """All of them are members of one cluster. CannotMeasure: it is not installed."""
    names = free_port()
    (folder / "names").mkdir()
    epmd = [program("epmd", "erlang-base"), "-port", str(names), "-address", "127.0.0.1"]
    with ExitStack() as stack:
        stack.enter_context(
            server(epmd, folder / "names", answers(socket.AF_INET, ("127.0.0.1", names)), ends_by=signal.SIGKILL)
        )
        made = list[Node]()
        for number in range(nodes):
            mine, port = folder / f"node{number}", free_port()
            mine.mkdir()
            node = Node(port, mine / "pid", os.environ | _about(folder, mine, port, names))
            stack.enter_context(
                server(
                    [program("rabbitmq-server")],
                    mine,
                    answers(socket.AF_INET, ("127.0.0.1", port)),
                    env=node.about,
                    ends_by=signal.SIGKILL,
                    start_s=START_S,
                )
            )
            for command in (["stop_app"], ["join_cluster", made[0].name], ["start_app"]) if made else ():
                node.control(*command)
            made.append(node)
        yield made


def _about(folder: Path, mine: Path, port: int, names: int) -> dict[str, str]:
    """The environment of a node. All find the secret of the cluster in one home."""
    return {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(mine / "mnesia"),
        "RABBITMQ_LOG_BASE": str(mine / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(mine / "plugins"),
        "RABBITMQ_PID_FILE": str(mine / "pid"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_ALLOW_INPUT": "true",  # then the script becomes the server, instead of a parent that lasts
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput",
    }


async def _queue(channel: Any) -> Any:
    """A member on each node."""
    return await channel.declare_queue(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})


@asynccontextmanager
async def publishing(place: str, *, receipts: bool = False) -> AsyncGenerator[AppenderAsync]:
    """For each task a function that returns when the queue has confirmed the message, with `receipts` when its consumer
    has, too. All share one channel."""
    import aio_pika

    async with await aio_pika.connect(place) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await _queue(channel)
        publish, persistent = channel.default_exchange.publish, aio_pika.DeliveryMode.PERSISTENT
        returning = await _returning(channel) if receipts else None
        names = count()

        @asynccontextmanager
        async def publisher() -> AsyncGenerator[AppendAsync]:
            me = str(next(names))

            async def published(body: bytes) -> None:
                about = returning.about(me) if returning else {}
                await publish(aio_pika.Message(body, delivery_mode=persistent, **about), QUEUE)
                if returning:
                    await returning.receipt(me)

            yield published

        yield publisher


class _Returning:
    """A queue to which the consumer says that it has a message. A publisher has one message on its way at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def about(self, publisher: str) -> dict[str, str]:
        """What its next message says."""
        self._waiting[publisher] = asyncio.get_running_loop().create_future()
        return {"reply_to": self._name, "correlation_id": publisher}

    async def receipt(self, publisher: str) -> None:
        """It has come."""
        await self._waiting[publisher]

    async def take(self, message: Any) -> None:
        self._waiting[message.correlation_id].set_result(None)


async def _returning(channel: Any) -> _Returning:
    queue = await channel.declare_queue(exclusive=True)
    made = _Returning(queue.name)
    await queue.consume(made.take, no_ack=True)
    return made


async def consume(place: str, ready: Callable[[], object], warm_s: float, seconds: float) -> int:
    """How many messages were acknowledged within the seconds, which begin `warm_s` after the first one. `ready`: called
    when they may come: what waits when the consumer begins would be counted as if it had been published meanwhile.
    A message that asks for a receipt gets it once it was acknowledged."""
    import aio_pika

    acknowledged, first = 0, asyncio.Event()

    async def take(message: Any) -> None:
        nonlocal acknowledged
        await message.ack()
        if message.reply_to:
            await tell(aio_pika.Message(b"", correlation_id=message.correlation_id), message.reply_to)
        acknowledged += 1
        first.set()

    async with await aio_pika.connect(place) as connection:
        channel = await connection.channel()
        tell = (await connection.channel(publisher_confirms=False)).default_exchange.publish
        await channel.set_qos(prefetch_count=PREFETCH)
        await (await _queue(channel)).consume(take)
        ready()
        await first.wait()
        await asyncio.sleep(warm_s)
        before = acknowledged
        await asyncio.sleep(seconds)
        return acknowledged - before
