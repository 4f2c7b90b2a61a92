"""A control store in a SQLite file, which the nodes of one host share.

One connection and one thread: requests run in their order, so a read behind a change that was given up shows what came
of it. The file is in WAL mode and each change is synced. After any error the connection is opened anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rtmw.checksum import crc32
from rtmw.control.store import REFUSED, TIMEOUT_S, Changed, Outcome, Slices, Store, StoreFault, Value
from rtmw.units import duration

_OURS: Final = (0x52_54_4D_57, 1)
"""`application_id` of the file, RTMW, and `user_version`: that of its tables."""
_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS value
    (log TEXT PRIMARY KEY, version INTEGER NOT NULL, state BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS slice
    (log TEXT, start INTEGER, data BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (log, start));
PRAGMA application_id = {_OURS[0]};
PRAGMA user_version = {_OURS[1]};
"""
_RESTORE: Final = (
    "stop the nodes that use it, and restore the file from a copy. That one knows neither what the cache got since nor "
    "who left the in-sync set: start the nodes first that were in sync last, or records that were answered may be "
    "lost; if all of these are gone: rtmw log rescue"
)
_WAITS: Final = 0.8
"""Share of its time for which a request waits for other processes."""


class SqliteStore(Store):
    """The first request makes the file; its folder has to be there."""

    def __init__(self, path: Path, timeout: float = TIMEOUT_S) -> None:
        super().__init__(1, timeout)
        self._path = path.absolute()
        self.where = f"control store {self._path}, on this host and its disk alone"
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def _read(self, log: str, slices: bool) -> Value:
        with self._transaction("DEFERRED") as connection:
            found = connection.execute("SELECT version, state, crc FROM value WHERE log = ?", (log,)).fetchone()
            asked = "SELECT start, data, crc FROM slice WHERE log = ? ORDER BY start"
            rows = connection.execute(asked, (log,)).fetchall() if slices else []
        if any(_sum(log, *row) != crc for *row, crc in ([*rows, found] if found else rows)):
            raise StoreFault(f"what it has of log {log} is not as it was written; {_RESTORE}")
        return Value(found[0], found[1], {start: data for start, data, _ in rows}) if found else Value()

    def _change(self, log: str, version: int, state: bytes, slices: Slices) -> Changed:
        with self._transaction("IMMEDIATE") as connection:
            found = connection.execute("SELECT version FROM value WHERE log = ?", (log,)).fetchone()
            if (found[0] if found else 0) != version:
                return REFUSED
            kept = (min(slices), max(slices)) if slices else (0, -1)
            connection.execute("DELETE FROM slice WHERE log = ? AND start NOT BETWEEN ? AND ?", (log, *kept))
            new = [(log, start, data, _sum(log, start, data)) for start, data in slices.items() if data is not None]
            connection.executemany("INSERT OR REPLACE INTO slice VALUES (?, ?, ?, ?)", new)
            row = (log, version + 1, state, _sum(log, version + 1, state))
            connection.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?)", row)
        return Changed(Outcome.APPLIED, version + 1)

    @contextmanager
    def _transaction(self, kind: str) -> Generator[sqlite3.Connection]:
        """Committed at the end of the block, or not at all. StoreFault."""
        try:
            connection = self._opened()
            connection.execute(f"BEGIN {kind}")
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            self._drop()
            if isinstance(error, sqlite3.Error | OSError):
                raise StoreFault(self._why(error)) from error
            raise

    def _opened(self) -> sqlite3.Connection:
        with suppress(FileNotFoundError):
            if self._connection is not None and os.stat(self._path).st_ino == self._inode:
                return self._connection
        self._drop()  # another file has the name by now, or none
        made = self._connection = sqlite3.connect(
            self._path, timeout=_WAITS * self.timeout, isolation_level=None, check_same_thread=False
        )
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("PRAGMA synchronous = FULL")
        if self._is_new(made):
            made.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT")
        self._inode = os.stat(self._path).st_ino
        return made

    def _is_new(self, made: sqlite3.Connection) -> bool:
        queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
        *found, tables = (made.execute(query).fetchone()[0] for query in queries)
        if tuple(found) != _OURS and (any(found) or tables):
            raise StoreFault(
                f"it is a database of another program, or another version of rtmw ({found}, here {list(_OURS)}); name "
                "another file as [control] store"
            )
        damage = "ok" if not tables else made.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if damage != "ok":
            raise StoreFault(f"it is damaged ({damage}); {_RESTORE}")
        return not tables

    def _why(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            waited = duration(_WAITS * self.timeout)
            return f"{error} by another process for {waited}; `fuser {self._path}` names those that have it open"
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return f"it is damaged, or no database ({error}); {_RESTORE}"
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return f"{error}; its folder has to be there, and user {os.getuid()} must be able to write to both"
        return str(error)

    def _drop(self) -> None:
        """What was begun is rolled back."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        """As for every store."""
        with suppress(RuntimeError):  # it was closed before
            self._threads.submit(self._drop)
        self._threads.shutdown()


def _sum(log: str, number: int, data: bytes) -> int:
    return crc32(data, crc32(f"{log} {number}".encode()))
