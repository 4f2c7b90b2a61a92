"""NATS JetStream: a stream of three replicas in files, with `sync_interval: always`: each syncs, then acknowledges."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from bench.clusters import Cluster
from bench.log_peers import AppendAsync, Store
from bench.log_peers.nats import SUBJECT, program, stored
from bench.log_peers.server import answers, free_port, server

STREAM: Final = "log"
START_S: Final = 30.0
LOOK_AGAIN_S: Final = 0.05
ANSWER_S: Final = 1.0
CONFIGURATION: Final = """\
server_name: {name}
host: 127.0.0.1
port: {port}
pid_file: "{folder}/pid"
jetstream {{ store_dir: "{folder}/jetstream", sync_interval: always }}
cluster {{ name: bench, listen: "127.0.0.1:{route}", routes: [{routes}] }}
"""


@contextmanager
def serving(folder: Path) -> Generator[Cluster]:
    ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    shown = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
    with ExitStack() as stack:
        for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
            mine = folder / f"n{number}"
            mine.mkdir()
            configuration = mine / "nats.conf"
            configuration.write_text(
                CONFIGURATION.format(name=f"n{number}", port=port, route=route, routes=shown, folder=mine)
            )
            is_ready = answers(socket.AF_INET, ("127.0.0.1", port))
            stack.enter_context(server([program(), "--config", str(configuration)], mine, is_ready, start_s=START_S))
        places = [f"nats://127.0.0.1:{port}" for port in ports]
        asyncio.run(_make_stream(places))

        def leader() -> int:
            return int((folder / asyncio.run(_leader(places)) / "pid").read_text())

        yield Cluster(places, leader)


@contextmanager
def store(places: list[str]) -> Generator[Store]:
    yield stored(partial(_connect, places))


@asynccontextmanager
async def appender(places: list[str]) -> AsyncGenerator[AppendAsync]:
    """A message that was not acknowledged goes out again under its id, which the stream remembers."""
    connection = await _connect(places)
    stream = connection.jetstream()

    async def append(record: bytes) -> None:
        about = {"Nats-Msg-Id": str(uuid4())}
        while True:
            try:
                await stream.publish(SUBJECT, record, timeout=ANSWER_S, headers=about)
                return
            except Exception:  # no leader, no answer, no connection
                await asyncio.sleep(LOOK_AGAIN_S)

    yield append
    await connection.close()


async def _connect(places: list[str]) -> Any:
    from nats import connect

    return await connect(
        places, connect_timeout=1, reconnect_time_wait=0.05, max_reconnect_attempts=-1, ping_interval=1
    )


async def _make_stream(places: list[str]) -> None:
    """As soon as the three have found each other."""
    connection, until = await _connect(places), time.monotonic() + START_S
    while True:
        try:
            await connection.jetstream().add_stream(name=STREAM, subjects=[SUBJECT], num_replicas=3)
            break
        except Exception:  # no leader yet, or too few members
            if time.monotonic() > until:
                raise
            await asyncio.sleep(LOOK_AGAIN_S)
    await connection.close()


async def _leader(places: list[str]) -> str:
    connection = await _connect(places)
    found = await connection.jetstream().stream_info(STREAM)
    await connection.close()
    return str(found.cluster.leader)
