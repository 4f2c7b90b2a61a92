"""Records of a log as a program gets them, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from rtmw.closing import Closing
from rtmw.errors import LogError
from rtmw.log import Folder, HeldCursor, Label, Reader, Watch, unpack_labels

if TYPE_CHECKING:
    from rtmw.log_aio import Commits

T = TypeVar("T")

_DATA: Final = 1
"""The kind of record that a program appends."""
_TURN: Final = 128
"""Records that `async for` gives before other tasks have their turn."""


class Start(Enum):
    """Where reading begins, besides positions and times."""

    EARLIEST = "earliest"
    """With the first record that is there."""
    LATEST = "latest"
    """With what becomes durable from now on."""


@dataclass(frozen=True, slots=True, repr=False)
class LogRecord(Generic[T]):
    """A record of a log. It is durable."""

    data: bytes
    """As it lies in the log."""
    position: int
    """Where it lies: positions grow from record to record, and stay."""
    time_ns: int
    """When it was appended: nanoseconds since 1970, by the wall clock of then, which may have been set back."""
    epoch: int
    """1, in a log that one host writes."""
    key: Label | None
    """As it was given to `append`."""
    id: Label | None
    """Likewise."""
    _decode: Callable[[bytes], T]
    _end: int
    _cursor: HeldCursor | None

    def commit(self) -> None:
        """This record, and all before it, are done with: a reader with the cursor goes on behind it, also after a kill.

        Commits are batched: on the disk after a tenth of a second with another commit, when the reader waits, and when
        it is closed. With `async for` a thread writes them, so that the loop does not wait for the disk. What was not
        there yet is delivered again. ClosedError, LogFailed; LogError: no cursor was named.
        """
        if self._cursor is None:
            raise LogError('a record that was read without a cursor cannot be committed; log.read(cursor="name")')
        self._cursor.commit(self._end)

    @property
    def value(self) -> T:
        """The data as a value of the log's type; decoded when it is asked for. Raises ValueMismatch."""
        return self._decode(self.data)

    def __repr__(self) -> str:
        key = "" if self.key is None else f" key={self.key!r}"
        return f"<rtmw.LogRecord {self.position}{key} {len(self.data)} bytes>"


@dataclass(frozen=True)
class Cursor:
    """A cursor of a log: up to where a named reader has come."""

    position: int
    """Of the record that its reader gets next."""
    time_ns: int
    """When it was opened or committed last: nanoseconds since 1970."""
    behind: int
    """Bytes of the log from there up to its end."""
    holder: str | None
    """Program and process id of who reads with it; None: nobody does."""


@dataclass(frozen=True)
class Asked:
    """What was asked of `Log.read`."""

    start: Start | int | datetime
    cursor: str | None
    follow: bool


def _nanoseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"start={moment!r} has no time zone; write datetime(..., tzinfo=timezone.utc)")
    from rtmw.recording.times import nanoseconds  # brings numpy along

    return nanoseconds(moment)


class LogRecords(Closing, Generic[T]):
    """Iterates over the records of a log, as `Log.read` gives it.

    Without `follow` it ends where the log ended when `read` was called; with it, it waits for more until it is closed.
    `async for` does the same, and a thread is used for commits only. One thread or task iterates; `close` may be called
    from any.
    Errors while iterating: LogDamaged, LogError; ValueError when no record begins at the given position.
    """

    def __init__(self, folder: Folder, asked: Asked, decode: Callable[[bytes], T]) -> None:
        self._closed = True
        self._busy = Lock()
        self._in_a_row = 0
        self._awaits = False
        self._decode = decode
        self._commits: Commits | None = None
        self._cursor = None if asked.cursor is None else HeldCursor(folder, asked.cursor)
        try:
            self._folder = folder.copy()
            earliest, self._end = folder.bounds()
            self._reader = self._open_reader(asked.start, earliest)
            self._watch = Watch(folder.path) if asked.follow else None
        except BaseException:
            if self._cursor is not None:
                self._cursor.close()
            raise
        self._closed = False

    def _open_reader(self, start: Start | int | datetime, earliest: int) -> Reader:
        """At the start, or where the cursor stands."""
        cursor = self._cursor
        begin = self._begin(start, earliest)
        if cursor is None or cursor.position is None:
            reader = self._folder.reader(begin)
            if isinstance(start, datetime):
                reader.seek_time(_nanoseconds(start), self._end)
        elif cursor.position < earliest:
            raise LogError(
                f"{self._folder.path}: the cursor {cursor.name!r} stands at {cursor.position}, and the records from "
                f"there up to {earliest} were trimmed; log.delete_cursor({cursor.name!r}), and read with it anew"
            )
        else:
            reader = self._folder.reader(cursor.position)
        if cursor is not None:
            cursor.begin(reader.position)
        return reader

    def _begin(self, start: Start | int | datetime, earliest: int) -> int:
        match start:
            case Start.LATEST:
                return self._end
            case Start.EARLIEST | datetime():
                return earliest
            case bool():
                pass
            case int() if start >= 0:
                return start
            case _:
                pass
        raise ValueError(
            f"start={start!r} is not possible; it is rtmw.Start.EARLIEST, rtmw.Start.LATEST, a position from 0 on, or "
            "a datetime with a time zone"
        )

    @property
    def position(self) -> int:
        """Of the next record."""
        return self._reader.position

    def __iter__(self) -> Iterator[LogRecord[T]]:
        return self

    def __next__(self) -> LogRecord[T]:
        with self._busy:
            record = self._wait() if self._watch is not None else self._take()
        if record is None or self._closed:
            self.close()
        if record is None:
            raise StopIteration
        return record

    def _wait(self) -> LogRecord[T] | None:
        """The next record; None: it was closed."""
        while not self._closed:
            record = self._take()
            if record is not None:
                return record
            self._end = self._folder.bounds()[1]
            if self._reader.position >= self._end and self._watch is not None:
                self._flush()
                self._watch.wait()
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogRecord[T]:
        """As `for`, and nothing else waits meanwhile. One task iterates."""
        self._commit_without_waiting()
        while True:
            with self._busy:
                record = self._take()
                if record is None and self._watch is not None and not self._closed:
                    self._end = self._folder.bounds()[1]
                    record = self._take()
                self._awaits = record is None and self._watch is not None and not self._closed
            if record is not None:
                await self._give_way()
                return record
            if not self._awaits or self._watch is None:
                if self._commits is not None:
                    await self._commits.finish()
                self.close()
                raise StopAsyncIteration
            from rtmw.log_aio import until_readable

            try:
                await until_readable(self._watch)
            finally:
                self._awaits = False
                if self._closed:
                    self.close()

    def _commit_without_waiting(self) -> None:
        if self._cursor is None or self._commits is not None:
            return
        from asyncio import get_running_loop

        from rtmw.log_aio import Commits

        self._commits = Commits(self._cursor, get_running_loop())

    async def _give_way(self) -> None:
        """What is there already is read without a wait, so other tasks have their turn now and then."""
        self._in_a_row += 1
        if self._in_a_row >= _TURN:
            from asyncio import sleep

            self._in_a_row = 0
            await sleep(0)

    def _take(self) -> LogRecord[T] | None:
        found = None if self._closed else self._reader.next(self._end)
        if found is None:
            return None
        position, end, time_ns, epoch, kind, labels, data = found
        if kind != _DATA:
            raise LogError(
                f"{self._folder.path}: the record at {position} is of kind {kind}, which this rtmw does not know; use "
                "the rtmw that wrote it"
            )
        key, id = unpack_labels(labels)
        return LogRecord(data, position, time_ns, epoch, key, id, self._decode, end, self._cursor)

    def _flush(self) -> None:
        """Before it waits: what was committed is on the disk."""
        if self._cursor is not None:
            self._cursor.flush()

    def close(self) -> None:
        """Ends the iteration, also one that waits in another thread, or in this one, whose signal handler calls it.

        Waits for the disk if commits are not there yet. LogFailed: they are, or not.
        """
        self._closed = True
        if self._watch is not None:
            self._watch.wake()
        if not self._busy.acquire(blocking=False):
            return  # who is inside sees it, and closes
        try:
            if self._awaits:  # the task that waits has the descriptors in its loop, and closes them
                return
            if self._watch is not None:
                self._watch.close()
            self._reader.close()
            try:
                if self._cursor is not None:
                    self._cursor.close()
            finally:
                self._folder.close()
        finally:
            self._busy.release()

    def __del__(self) -> None:
        try:  # not suppress(): at the interpreter's end the names of modules are gone
            self.close()
        except Exception:  # made in part; or a commit failed, and its records are delivered again
            return
