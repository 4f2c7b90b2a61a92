"""Reading a log: where it begins and ends, waiting for more, cursors; and its records, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import chain
from operator import length_hint
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from rtmw.closing import Closing
from rtmw.errors import LogError
from rtmw.log import Folder, HeldCursor, Label, Reader, Record, Watch, unpack_labels

if TYPE_CHECKING:
    from rtmw.durable_log.aio import Commits

T = TypeVar("T")
R = TypeVar("R")

DATA: Final = 1
"""The kind of record that a program appends."""
_TURN: Final = 128
"""Records that `async for` gives before other tasks have their turn."""


class Start(Enum):
    """Where reading begins, besides positions and times."""

    EARLIEST = "earliest"
    """Reading begins with the first record that is there."""
    LATEST = "latest"
    """Reading begins with what becomes durable from now on."""


@dataclass(frozen=True, slots=True)
class Origin(Generic[T]):
    """Common to all that a reader gives: records and batches."""

    decode: Callable[[bytes], T]
    cursor: HeldCursor | None

    def commit(self, end: int) -> None:
        if self.cursor is None:
            raise LogError('a record that was read without a cursor cannot be committed; log.read(cursor="name")')
        self.cursor.commit(end)


@dataclass(frozen=True)
class Cursor:
    """A cursor of a log: up to where a named reader has come."""

    position: int
    """Position of the record that its reader gets next."""
    time_ns: int
    """When it was opened or committed last: nanoseconds since 1970."""
    behind: int
    """Bytes of the log from there up to its end."""
    holder: str | None
    """Program and process id of who reads with it; None: nobody does."""


@dataclass(frozen=True)
class Asked:
    """The arguments of `Log.read`."""

    start: Start | int | datetime
    cursor: str | None
    follow: bool


def _nanoseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"start={moment!r} has no time zone; write datetime(..., tzinfo=timezone.utc)")
    from rtmw.recording.contents import nanoseconds  # brings numpy along

    return nanoseconds(moment)


class Reading(Closing, ABC, Generic[R, T]):
    """Iterates over what a subclass makes of the records of a log with values of T: some R after another."""

    def __init__(self, folder: Folder, asked: Asked, decode: Callable[[bytes], T], log: object) -> None:
        """`log`: lives as long as this does, since a log that is gone is closed, and ends its readers."""
        self._closed = True
        self._log = log
        self._busy = Lock()
        self._follows, self._in_a_row = asked.follow, 0
        self._awaits = False
        self._made: list[R] = []
        """Records that were read ahead. `close` empties it from any thread, which ends `_next`, too."""
        self._next = iter(self._made)
        self._commits: Commits | None = None
        with ExitStack() as opened:
            self._cursor = None if asked.cursor is None else opened.enter_context(HeldCursor(folder, asked.cursor))
            self._origin = Origin(decode, self._cursor)
            self._folder = opened.enter_context(folder.copy())
            earliest, self._end = folder.bounds()
            self._reader = self._open_reader(asked.start, earliest)
            self._watch = folder.watch() if asked.follow or folder.is_remote else None
            opened.pop_all()
        self._closed = False

    def _open_reader(self, start: Start | int | datetime, earliest: int) -> Reader:
        """Opens a reader that stands at the start, or where the cursor stands."""
        cursor = self._cursor
        begin = self._begin(start, earliest)
        if cursor is None or cursor.position is None:
            reader = self._folder.reader(begin, begins=not isinstance(start, int))
            if isinstance(start, datetime):
                reader.seek_time(_nanoseconds(start), self._end)
        elif cursor.position < earliest:
            raise LogError(
                f"{self._folder.path}: the cursor {cursor.name!r} stands at {cursor.position}, and the records from "
                f"there up to {earliest} were trimmed; log.delete_cursor({cursor.name!r}), and read with it anew"
            )
        else:
            reader = self._folder.reader(cursor.position, begins=True)
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
        """Position of the next record."""
        left = length_hint(self._next)
        return self._place(self._made[-left]) if left else self._reader.position

    def __iter__(self) -> Iterator[R]:
        return chain.from_iterable(self._parts())  # which takes one after the other without a call of Python

    def _parts(self) -> Iterator[Iterator[R]]:
        while True:
            yield self._next
            if not self._read():
                return

    def __next__(self) -> R:
        record = next(self._next, None)
        while record is None:
            if not self._read():
                raise StopIteration
            record = next(self._next, None)  # None: another thread has just closed
        return record

    def _read(self) -> bool:
        """Is something made? If not, it is closed."""
        with self._busy:
            is_made = self._take() if self._watch is None else self._wait(self._watch)
        if self._closed or not is_made:
            self.close()
        return not self._closed

    def _wait(self, watch: Watch) -> bool:
        """Waits until something is made. False: nothing more comes, or it was closed."""
        while not self._take():
            if not self._may_come():
                return False
            if self._reader.position >= self._folder.bounds()[1]:
                self._flush()
                watch.wait()
        return True

    def _may_come(self) -> bool:
        """Nothing could be made: may that change? Looks where the log ends now."""
        if self._watch is None or self._closed:
            return False
        if self._follows:
            self._end = self._folder.bounds()[1]
            return True
        return self._reader.position < self._end

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        """Returns the next record, as a `for` loop would; the event loop runs while it waits. Only one task may
        iterate."""
        self._commit_without_waiting()
        while True:
            record = next(self._next, None)
            if record is not None:
                await self._give_way()
                return record
            with self._busy:
                found = self._take() or (self._may_come() and self._take())
                self._awaits = not found and self._may_come()
            if found:
                continue
            if not self._awaits or self._watch is None:
                if self._commits is not None:
                    await self._commits.finish()
                self.close()
                raise StopAsyncIteration
            from rtmw.durable_log.aio import until_readable

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

        from rtmw.durable_log.aio import Commits

        self._commits = Commits(self._cursor, get_running_loop())

    async def _give_way(self) -> None:
        """Records that are there already are read without a wait; so other tasks get a turn now and then."""
        self._in_a_row += 1
        if self._in_a_row >= _TURN:
            from asyncio import sleep

            self._in_a_row = 0
            await sleep(0)

    def _take(self) -> bool:
        """The next ones are made; False: there are none, or it is closed. In `_busy`."""
        made = [] if self._closed else self._make(self._end)
        self._made, self._next = made, iter(made)
        if self._closed:  # just now: `close` has emptied the list before
            made.clear()
        return bool(made)

    @abstractmethod
    def _make(self, end: int) -> list[R]:
        """The next records below `end`; empty: there is none."""

    @abstractmethod
    def _place(self, made: R) -> int:
        """Position of the first record of it."""

    def _unknown(self, position: int, kind: int) -> LogError:
        return LogError(
            f"{self._folder.path}: the record at {position} is of kind {kind}, which this rtmw does not know; use the "
            "rtmw that wrote it"
        )

    def _flush(self) -> None:
        """Writes what was committed to the disk, before the reader waits."""
        if self._cursor is not None:
            self._cursor.flush()

    def close(self) -> None:
        """Ends the iteration, also one that waits in another thread, or that a signal handler has interrupted. Waits
        for the disk if commits are not there yet. LogFailed: they are, or not.
        """
        self._closed = True
        self._made.clear()
        if self._watch is not None:
            self._watch.wake()
        if not self._busy.acquire(blocking=False):
            return  # the thread that is inside sees it, and closes
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


_AHEAD: Final = 1 << 16
"""Bytes of records that are made at once, ahead of the program: those are in memory twice."""


class LogRecord(Record, Generic[T]):
    """A record of a log. It is durable. Two are equal if data, position, time, epoch, key and id are."""

    __slots__ = ()

    @property
    def key(self) -> Label | None:
        """The key that was given to `append`."""
        return unpack_labels(self._labels)[0]

    @property
    def id(self) -> Label | None:
        """Likewise."""
        return unpack_labels(self._labels)[1]

    @property
    def value(self) -> T:
        """The data as a value of the log's type; decoded when it is asked for. Raises ValueMismatch."""
        value: T = self._origin.decode(self.data)
        return value

    def commit(self) -> None:
        """This record, and all before it, are done with: a reader with the cursor goes on behind it, also after a kill.
        Commits are batched: on the disk after a tenth of a second with another commit, when the reader waits, and
        when it is closed. What was not there yet is delivered again. ClosedError, LogFailed; LogError: no cursor was
        named.
        """
        self._origin.commit(self.end)

    def _all(self) -> tuple[int, int, int, bytes, bytes]:
        return self.position, self.time_ns, self.epoch, self._labels, self.data

    def __eq__(self, other: object) -> bool:
        return self._all() == other._all() if isinstance(other, LogRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        key = "" if self.key is None else f" key={self.key!r}"
        return f"<rtmw.LogRecord {self.position}{key} {len(self.data)} bytes>"


class LogRecords(Reading[LogRecord[T], T]):
    """Iterates over the records of a log, as `Log.read` gives it.

    Without `follow` it ends where the log ended when `read` was called; with it, it waits for more until it is closed.
    `async for` does the same, and a thread is used for commits only. One thread or task iterates; `close` may be called
    from any.
    Errors while iterating: LogDamaged, LogError; ValueError when no record begins at the given position.
    """

    def _make(self, end: int) -> list[LogRecord[T]]:
        made: list[LogRecord[T]] = self._reader.take(end, LogRecord, self._origin, _AHEAD)
        if made and made[0]._kind != DATA:
            raise self._unknown(made[0].position, made[0]._kind)
        return made

    def _place(self, made: LogRecord[T]) -> int:
        return made.position
