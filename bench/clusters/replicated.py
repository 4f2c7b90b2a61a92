"""A replicated log of rtmw: three services as nodes start them, a SQLite file as their store, defaults elsewhere."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import rtmw
from bench.clusters import Cluster
from bench.log_peers import Append, AppendAsync, Store
from bench.log_peers.server import answers, free_port, server

LOG: Final = "bench"
NODES: Final = ("a", "b", "c")
START_S: Final = 20.0
LOOK_AGAIN_S: Final = 0.1
SETTINGS: Final = """\
name = "{name}"
serve = ["log"]
data = "{name}"
[log]
listen = "127.0.0.1:{port}"
connect = [{others}]
[control]
store = "sqlite:control.db"
"""


@contextmanager
def serving(folder: Path) -> Generator[Cluster]:
    ports = {name: free_port() for name in NODES}
    pids: dict[str, int] = {}
    with ExitStack() as stack:
        for name, port in ports.items():
            others = ", ".join(f'"127.0.0.1:{other}"' for other in ports.values() if other != port)
            (folder / f"{name}.toml").write_text(SETTINGS.format(name=name, port=port, others=others))
            (folder / name).mkdir()
            pids[name] = stack.enter_context(node(folder, name, port))
        place = f"127.0.0.1:{ports['a']}"
        _asked("create", LOG, "--members", ",".join(NODES), "--node", place)

        def leader() -> int:
            """As soon as there is one."""
            while not (name := json.loads(_asked("status", LOG, "--json", "--node", place))["master"]):
                time.sleep(LOOK_AGAIN_S)
            return pids[name]

        yield Cluster([f"127.0.0.1:{port}" for port in ports.values()], leader, pids)


def node(folder: Path, name: str, port: int) -> AbstractContextManager[int]:
    """One of the services; its pid."""
    data, is_ready = folder / name, answers(socket.AF_INET, ("127.0.0.1", port))
    command = [sys.executable, "-m", "rtmw.replica", "--node", name, "--config", f"{folder / name}.toml"]
    return server([*command, "--data", str(data)], data, is_ready, start_s=START_S, stdin=subprocess.PIPE)


def _asked(*arguments: str) -> str:
    """What `rtmw log` prints, as soon as the nodes know each other."""
    until = time.monotonic() + START_S
    while True:
        done = subprocess.run([sys.executable, "-m", "rtmw", "log", *arguments], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout
        if time.monotonic() > until:
            raise RuntimeError(done.stderr.strip())
        time.sleep(LOOK_AGAIN_S)


@contextmanager
def store(places: list[str]) -> Generator[Store]:
    """Threads and tasks share one log, which has one line to each node."""
    with rtmw.Log.connect(LOG, bytes, nodes=places) as log:

        @contextmanager
        def appender() -> Generator[Append]:
            yield log.append

        @asynccontextmanager
        async def appender_async() -> AsyncGenerator[AppendAsync]:
            yield log.append_async

        yield Store(appender, appender_async)


@asynccontextmanager
async def appender(places: list[str]) -> AsyncGenerator[AppendAsync]:
    """A record whose outcome is not known goes out again under its id, by the log itself."""
    with rtmw.Log.connect(LOG, bytes, nodes=places) as log:
        yield log.append_async
