"""PostgreSQL by psycopg: an INSERT a transaction, prepared, with fsync and synchronous_commit on, as is the default.

Over a Unix socket, a connection for each thread and task. The programs are those of the distribution pgserver. They
refuse to run as root: then they run as `nobody`.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.log_peers import Append, AppendAsync, Store
from bench.log_peers.server import answers, server

UNPRIVILEGED = "nobody"
USER = "postgres"
PORT = 5432
"""It names the socket, and no port is taken."""
INSERT = "INSERT INTO log (body) VALUES (%s)"
SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "timezone": "UTC",
}


def programs() -> Path:
    """The folder with postgres and initdb. The package is not imported: where root does that, it adds a user."""
    found = find_spec("pgserver")
    if found is None or not found.submodule_search_locations:
        raise ImportError("pgserver")
    return Path(found.submodule_search_locations[0], "pginstall", "bin")


def unprivileged() -> dict[str, Any]:
    """How to start a process that is not root's."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(UNPRIVILEGED)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def cluster(folder: Path, how: dict[str, Any]) -> Path:
    """A database beside this folder, which later plays use again: initdb takes a second."""
    data = folder.parent / "postgresql"
    if not data.exists():
        empty = folder / "initdb"
        empty.mkdir(mode=0o700)
        if how:
            os.chown(empty, how["user"], how["group"])
        words = [str(programs() / "initdb"), "-D", str(empty), "-U", USER, "--auth=trust", "-E", "UTF8"]
        done = subprocess.run(words, capture_output=True, text=True, cwd="/", **how)
        if done.returncode:
            raise RuntimeError(f"initdb: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
        empty.rename(data)
    return data


@contextmanager
def opened(folder: Path) -> Generator[Store]:
    import psycopg

    how = unprivileged()
    data = cluster(folder, how)
    settings = SETTINGS | {"unix_socket_directories": str(data)}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    where = f"host={data} port={PORT} user={USER} dbname=postgres"

    @contextmanager
    def appender() -> Generator[Append]:
        with psycopg.connect(where, autocommit=True) as connection, connection.cursor(binary=True) as cursor:
            yield lambda record: cursor.execute(INSERT, (record,), prepare=True)

    @asynccontextmanager
    async def appender_async() -> AsyncGenerator[AppendAsync]:
        connection = await psycopg.AsyncConnection.connect(where, autocommit=True)
        async with connection, connection.cursor(binary=True) as cursor:
            yield lambda record: cursor.execute(INSERT, (record,), prepare=True)

    def is_ready() -> bool:
        if not answers(socket.AF_UNIX, f"{data}/.s.PGSQL.{PORT}")():
            return False
        try:  # it listens before it has recovered
            psycopg.connect(where).close()
        except psycopg.OperationalError:
            return False
        return True

    command = [str(programs() / "postgres"), "-D", str(data), *options]
    with server(command, folder, is_ready, ends_by=signal.SIGINT, cwd="/", **how):
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS log")
            connection.execute("CREATE TABLE log (position bigserial PRIMARY KEY, body bytea)")
        yield Store(appender, appender_async)
