"""A control store in a SQLite file, which the nodes of one host share.

One connection and one thread: requests run in their order, so a read behind a change that was given up shows what came
of it. The file is in WAL mode. After any error the connection is opened anew.

A process that is stopped (SIGSTOP) while it has the lock of the file lets nobody else change it. So the lock is held
for one call of SQLite, in which no Python runs and which waits for no disk: a trigger moves slices that were laid
ready, and the file is synced behind it. A value that another process has changed is synced, too, before it is shown.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rtmw.checksum import crc32
from rtmw.disk import DISK
from rtmw.replica.control.store import REFUSED, TIMEOUT_S, Changed, Outcome, Slices, Store, StoreFault, Value
from rtmw.text.units import duration

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
_STAGED: Final = """
CREATE TEMP TABLE staged (start INTEGER PRIMARY KEY, data BLOB, crc INTEGER);
CREATE TEMP TRIGGER moved AFTER INSERT ON main.value BEGIN
    DELETE FROM slice WHERE log = new.log AND start NOT IN (SELECT start FROM staged);
    INSERT OR REPLACE INTO slice SELECT new.log, start, data, crc FROM staged WHERE data IS NOT NULL;
END;
"""
"""Slices that a log has after the next change; those without data are there already."""
_CHANGE: Final = """
INSERT OR REPLACE INTO main.value SELECT :log, :version + 1, :state, :crc
    WHERE :version = coalesce((SELECT version FROM main.value WHERE log = :log), 0)
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
        self._inode, self._file = 0, -1
        """`_file`: the file of changes. One descriptor of it, so that a write of another process that failed is told
        here, too: by the next sync, and once."""
        self._is_spoiled = False
        """A sync has failed, and what it was to write counts as written: only another file shows whether it can be."""
        self._synced = dict[str, int]()
        """By log: the version that is known to be on the disk."""

    def _read(self, log: str, slices: bool) -> Value:
        with self._connected() as connection:
            connection.execute("BEGIN")
            found = connection.execute("SELECT version, state, crc FROM value WHERE log = ?", (log,)).fetchone()
            asked = "SELECT start, data, crc FROM slice WHERE log = ? ORDER BY start"
            rows = connection.execute(asked, (log,)).fetchall() if slices else []
            connection.execute("COMMIT")
            if found:
                self._sync(connection, log, found[0])
        if any(_sum(log, *row) != crc for *row, crc in ([*rows, found] if found else rows)):
            raise StoreFault(f"what it has of log {log} is not as it was written; {_RESTORE}")
        return Value(found[0], found[1], {start: data for start, data, _ in rows}) if found else Value()

    def _change(self, log: str, version: int, state: bytes, slices: Slices) -> Changed:
        staged = [(start, data, None if data is None else _sum(log, start, data)) for start, data in slices.items()]
        told = {"log": log, "version": version, "state": state, "crc": _sum(log, version + 1, state)}
        with self._connected() as connection:
            connection.execute("DELETE FROM staged")
            connection.executemany("INSERT INTO staged VALUES (?, ?, ?)", staged)
            if not connection.execute(_CHANGE, told).rowcount:
                return REFUSED
            self._sync(connection, log, version + 1)
        return Changed(Outcome.APPLIED, version + 1)

    def _sync(self, connection: sqlite3.Connection, log: str, version: int) -> None:
        """The value of this version is on the disk: in the file of changes, or in the other one, which SQLite syncs."""
        if self._synced.get(log) == version:
            return
        if self._is_spoiled:
            is_busy, changes, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if is_busy or changes != moved:
                raise StoreFault("a write of it has failed, and another process is in the way of writing it once more")
            self._is_spoiled = False
        try:
            DISK.sync_data(self._file)
        except OSError:
            self._is_spoiled = True
            raise
        self._synced[log] = version

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        """What fails in the block is a StoreFault, and what was begun there is not committed."""
        try:
            yield self._opened()
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
        made.execute("PRAGMA synchronous = NORMAL")  # it is synced by _sync, behind the lock
        made.execute("PRAGMA temp_store = MEMORY")
        if self._is_new(made):
            made.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT")
        made.executescript(_STAGED)
        self._file = os.open(f"{self._path.resolve()}-wal", os.O_RDWR | os.O_CLOEXEC)
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
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        self._synced.clear()

    def close(self) -> None:
        """Waits for the requests in line, then closes the connection, the file and the thread. A second call does
        nothing."""
        with suppress(RuntimeError):  # it was closed before
            self._threads.submit(self._drop)
        self._threads.shutdown()


def _sum(log: str, number: int, data: bytes) -> int:
    return crc32(data, crc32(f"{log} {number}".encode()))
