"""SQLite: a table in WAL mode with synchronous=FULL, which syncs the WAL at the end of each transaction.

A transaction a record. Threads share one connection under a lock: with a connection each, they wait for the lock of
the file by sleeping, which takes longer.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path

from bench.log_peers import Store, embedded


@contextmanager
def opened(folder: Path) -> Generator[Store]:
    file, lock = folder / "log.sqlite", threading.Lock()
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("PRAGMA synchronous=FULL")
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
        if (mode, level) != ("wal", 2):
            raise RuntimeError(f"SQLite took journal_mode={mode}, synchronous={level}, and not WAL and FULL")
        connection.execute("CREATE TABLE log (position INTEGER PRIMARY KEY, body BLOB)")

        def append(record: bytes) -> None:
            with lock:
                connection.execute("INSERT INTO log (body) VALUES (?)", (record,))

        def fill(records: Iterable[bytes]) -> None:
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO log (body) VALUES (?)", ((record,) for record in records))
            connection.execute("COMMIT")

        def scan() -> Iterable[object]:
            return connection.execute("SELECT body FROM log ORDER BY position")

        with embedded(append, fill, scan) as store:
            yield store
