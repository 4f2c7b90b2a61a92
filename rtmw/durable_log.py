"""Log: append, and know that it is on the disk. The bytes are rtmw/log/; types, answers and the lock are here."""

from __future__ import annotations

import builtins
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from rtmw.closing import Closing
from rtmw.errors import ClosedError, LogFailed
from rtmw.log import (
    ENDS,
    HELD,
    STARTED,
    SYNCED,
    Folder,
    Holder,
    Label,
    Writer,
    cursor_names,
    delete_cursor,
    holder_of_cursor,
    open_folder,
    pack_labels,
)
from rtmw.log_answers import Appended, Durability, LogStats, PersistQueue
from rtmw.log_options import (
    DEDUPE,
    ConnectOptions,
    LogOptions,
    Retention,
    agreed_type,
    check_dedupe,
    check_segment,
    log_path,
    not_bytes,
    numbers_of,
)
from rtmw.log_reading import Asked, Cursor, Reading, Start
from rtmw.log_records import LogRecord, LogRecords
from rtmw.notebook import fields, table
from rtmw.qos import check_seconds
from rtmw.types import AnyType, MessageType, resolve, shown_name

__all__ = ["Appended", "Durability", "Log", "LogRecord", "LogRecords", "LogStats", "PersistQueue", "Start"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rtmw.log_aio import Flushes
    from rtmw.log_batches import LogBatches

    S = TypeVar("S", bound=np.generic)

T = TypeVar("T")
V = TypeVar("V")

_logs: weakref.WeakSet[Log[Any]] = weakref.WeakSet()
"""All logs of this process: a child of fork() gives them new locks, for a thread that it lacks may hold one."""


class Log(Closing, Generic[T]):
    """A folder in which records are kept, in the order in which they were appended.

    `path`: a PathLike, or text with a separator (`"orders/"`). `type`: as of Publisher; `rtmw.ANY` stands for the type
    of a log that exists. `create`: make the log if there is none. `segment`: size of a file at most, from 64K to 4G;
    what is appended at once has to fit. `retention`: what is removed while this object appends; None: nothing. `sync`:
    an append is answered when it is on the disk; without it, as soon as it is taken, and `Appended.resolve` or `close`
    wait for the disk. `dedupe`: an append with the id of one of so many last records is not made again.

    Opening keeps no lock: one process at a time appends, from its first append until it closes the log; any number
    read. Threads share a Log. Errors: ValueError, FileNotFoundError, TypeMismatch, LogError, LogDamaged, LogFull,
    LogFailed.
    """

    @overload
    def __init__(self: Log[bytes], path: str | os.PathLike[str], **options: Unpack[LogOptions]) -> None: ...
    @overload
    def __init__(
        self: Log[NDArray[S]],
        path: str | os.PathLike[str],
        type: np.dtype[S] | builtins.type[S],
        **options: Unpack[LogOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Log[Any], path: str | os.PathLike[str], type: AnyType, **options: Unpack[LogOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Log[dict[str, Any]],
        path: str | os.PathLike[str],
        type: builtins.type[dict[str, Any]],
        **options: Unpack[LogOptions],
    ) -> None: ...
    @overload
    def __init__(self, path: str | os.PathLike[str], type: builtins.type[T], **options: Unpack[LogOptions]) -> None: ...

    def __init__(
        self,
        path: str | os.PathLike[str],
        type: Any = bytes,
        *,
        create: bool = True,
        segment: int | str = "64M",
        retention: Retention | None = None,
        sync: bool = True,
        dedupe: int = DEDUPE,
    ) -> None:
        self.path = log_path(path)
        wanted = None if isinstance(type, AnyType) else resolve(type)
        self._segment = check_segment(segment)
        self._how = SYNCED if sync else STARTED
        self._window = check_dedupe(dedupe)
        self._retention = numbers_of(retention)
        description = wanted.description if wanted is not None and create else None
        self._folder: Folder = open_folder(self.path, description, segment=self._segment)
        try:
            self.type: MessageType = agreed_type(self.path, self._folder.description, wanted)
        except BaseException:
            self._folder.close()
            raise
        self._encode = self.type.encode
        self._decode: Callable[[bytes], Any] = self.type.decode or bytes
        self._lock = threading.RLock()
        _logs.add(self)
        self._holder: Holder | None = None
        self._writer: Writer | None = None
        self._closed = self._told = False
        self._loops: list[Flushes] = []
        self._readers: weakref.WeakSet[Reading[Any, T]] = weakref.WeakSet()

    @overload
    @staticmethod
    def connect(name: str, **options: Unpack[ConnectOptions]) -> Log[bytes]: ...
    @overload
    @staticmethod
    def connect(name: str, type: AnyType, **options: Unpack[ConnectOptions]) -> Log[Any]: ...
    @overload
    @staticmethod
    def connect(
        name: str, type: np.dtype[S] | builtins.type[S], **options: Unpack[ConnectOptions]
    ) -> Log[NDArray[S]]: ...
    @overload
    @staticmethod
    def connect(
        name: str, type: builtins.type[dict[str, Any]], **options: Unpack[ConnectOptions]
    ) -> Log[dict[str, Any]]: ...
    @overload
    @staticmethod
    def connect(name: str, type: builtins.type[V], **options: Unpack[ConnectOptions]) -> Log[V]: ...
    @staticmethod
    def connect(name: str, type: Any = bytes, **options: Any) -> Log[Any]:
        """A log that several nodes keep (docs/replication.md), with the methods of this class.

        `nodes`: where they listen, `HOST:PORT` or `unix:PATH`, best all of them; None: the environment variable
        RTMW_LOG_NODES names them, with commas between. `keys`: a folder with node.pem and ca.pem, for TLS; without it
        only loopback is reached, or with `insecure=True` anything. `timeout`: seconds that a call waits for a master
        where it is given no other (30); None: no limit.
        Errors: ValueError, TypeError, TypeMismatch, KeysError, NotPermitted, LogError; SessionError: no node was
        reached within `timeout`.
        """
        made: Log[Any] = import_module("rtmw.replica.client").connect(name, type, options)
        return made

    # ---- append ----

    def append(
        self, value: T, *, key: Label | None = None, id: Label | None = None, timeout: float | None = None
    ) -> Appended:
        """Appends a record. With `sync` it is on the disk when this returns.

        `key`: text, bytes or a whole number that readers find with the record. `id`: likewise, and it makes the append
        idempotent: if one of the last `dedupe` records with an id has this one, nothing is appended, and the answer is
        that record's; LogError, if its data or key differ. `timeout`: seconds.
        Errors, after which nothing was appended: LogLocked, LogFull, MessageTooLarge, TypeMismatch, ValueMismatch,
        ClosedError, and LogFailed that says so. LogFailed, TimeoutError: the outcome is unknown.
        """
        check_seconds("timeout", timeout)
        labels = None if key is None and id is None else pack_labels(key, id)
        data: Any = value if self._encode is None else self._encode(value)
        writer = self._writer or self._begin_to_write()
        try:
            position, end = writer.append(data, labels, self._how, timeout)
        except TypeError:
            raise not_bytes(self.path, value) from None
        except LogFailed:
            self._told = True
            raise
        return Appended(self, position, end, id)

    async def append_async(self, value: T, *, key: Label | None = None, id: Label | None = None) -> Appended:
        """Appends like `append`, for asyncio: the event loop runs meanwhile, and no thread waits. It raises what
        `append` raises.

        After a cancellation the record may be appended or not; a repeat with the same `id` appends it once only.
        """
        labels = None if key is None and id is None else pack_labels(key, id)
        data: Any = value if self._encode is None else self._encode(value)
        writer = self._writer or self._begin_to_write()
        try:
            position, end = await self._flushes(writer).append(data, labels, self._how)
        except TypeError:
            raise not_bytes(self.path, value) from None
        except LogFailed:
            self._told = True
            raise
        return Appended(self, position, end, id)

    def _flushes(self, writer: Writer) -> Flushes:
        """The appends that the running loop waits for."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        found = next((flushes for flushes in self._loops if flushes.serves(loop)), None)
        if found is not None:
            return found
        from rtmw.log_aio import Flushes

        with self._lock:
            self._check_open()
            self._loops = [flushes for flushes in self._loops if not flushes.leave_if_closed()]
            made = Flushes(writer, loop)
            self._loops.append(made)
        return made

    def append_many(self, values: Iterable[T]) -> list[Appended]:
        """Appends a record for each value, all of them or none: also after a power cut. Errors as of `append`."""
        begins, end = self._places(list(values if self._encode is None else map(self._encode, values)))
        return [Appended(self, *place) for place in pairwise((*begins, end))]

    def _places(self, data: list[Any], *, ends: bool = False) -> tuple[Sequence[int], int]:
        """Appends these bytes, all of them or none: where each record begins, and where the last one ends. `ends`: they
        end work that was begun, so they may use what a full disk leaves for that: the rest of the last segment."""
        writer = self._writer or self._begin_to_write()
        try:
            return writer.append_many(data, self._how | ENDS if ends else self._how)
        except TypeError:
            raise not_bytes(self.path, data) from None
        except LogFailed:
            self._told = True
            raise

    def _hold(self) -> None:
        """From now on, appends to this log, made without `sync`, begin no sync. Their records go to the disk with
        the next record that is resolved, or after 0.1 s: many records of which only the last one is awaited take one
        sync."""
        self._how = HELD

    def _begin_to_write(self) -> Writer:
        """Takes the lock, and recovers. LogLocked, LogDamaged, LogFailed."""
        with self._lock:
            self._check_open()
            if self._writer is None:
                self._folder.check_writable()
                holder = self._folder.hold()
                try:
                    self._writer = self._folder.writer(self._segment, self._window, self._retention)
                except BaseException:
                    holder.close()
                    raise
                self._holder = holder
            return self._writer

    def _durable(self) -> int:
        return 0 if self._writer is None else self._writer.durable

    def _resolve(self, end: int, timeout: float | None) -> None:
        try:
            if self._writer is not None:
                self._writer.wait(end, timeout)
        except TimeoutError:
            return
        except LogFailed:
            self._told = True
            raise

    async def _resolve_async(self, end: int) -> None:
        if self._writer is not None:
            try:
                await self._flushes(self._writer).until(end)
            except LogFailed:
                self._told = True
                raise

    # ---- read ----

    def read(
        self, start: Start | int | datetime = Start.EARLIEST, *, cursor: str | None = None, follow: bool = False
    ) -> LogRecords[T]:
        """The records from `start` on: the first one, the next one, the one at a position, or the first that was
        appended at a time (with its zone) or later. `follow`: and all that come, for ever; else up to the present end.

        `cursor`: a name under which it is kept how far `LogRecord.commit` has come. If there is a cursor of this name,
        reading goes on there, and `start` counts for nothing; else it begins at `start`. One reader at a time has a
        cursor: LogLocked names the other one. LogError: what the cursor wants was trimmed.

        Only what is durable is read. Errors: ValueError, ClosedError, LogDamaged.
        """
        with self._lock:
            self._check_open()
            records = LogRecords[T](self._folder, Asked(start, cursor, follow), self._decode, self)
            self._readers.add(records)
        return records

    def read_batches(
        self, start: Start | int | datetime = Start.EARLIEST, *, cursor: str | None = None, follow: bool = False
    ) -> LogBatches[T]:
        """Reads like `read`, but many records a step: a LogBatch has them as columns. For programs that read much of
        a log."""
        from rtmw.log_batches import LogBatches

        with self._lock:
            self._check_open()
            batches = LogBatches[T](self._folder, Asked(start, cursor, follow), self._decode, self)
            self._readers.add(batches)
        return batches

    def cursors(self) -> dict[str, Cursor]:
        """The cursors of the log, by their names."""
        with self._lock:
            self._check_open()
            end, found = self._folder.bounds()[1], dict[str, Cursor]()
            for name in cursor_names(self._folder):
                known = self._folder.cursor(name)
                if known is not None:  # deleted meanwhile
                    behind = max(0, end - known[0])
                    found[name] = Cursor(known[0], known[1], behind, holder_of_cursor(self._folder, name))
        return found

    def delete_cursor(self, name: str) -> None:
        """Removes a cursor: it keeps no records any more, and a reader with this name begins anew.

        LogLocked names its holder; LogError: there is none of this name.
        """
        with self._lock:
            self._check_open()
            delete_cursor(self._folder, name)

    def trim(self, before: int | datetime) -> int:
        """Removes the segments before the one in which `before` lies; gives where the log begins then.

        `before`: a position, or a time (with its zone), for that of the first record of then or later. Whole segments
        go, and the last one stays, so some records before `before` may stay. Cursors are not asked. It is durable when
        this returns; readers that stand in what is gone get LogError. LogLocked: another process writes.
        """
        position = self._position_of(before)
        writer = self._writer or self._begin_to_write()
        return writer.trim(position)

    def _position_of(self, before: int | datetime) -> int:
        if isinstance(before, datetime):
            with self.read(before) as records:
                return records.position
        if isinstance(before, bool) or not 0 <= before <= self.end:
            raise ValueError(f"before={before!r} is not possible; it is a position up to {self.end}, or a datetime")
        return before

    @property
    def end(self) -> int:
        """The position behind the last durable record, whoever appended it."""
        with self._lock:
            self._check_open()
            return self._folder.bounds()[1] if self._writer is None else self._writer.durable

    def stats(self) -> LogStats:
        """The state of the log, and counters of this object."""
        with self._lock:
            self._check_open()
            earliest, end = self._folder.bounds()
            counted = (0,) * 16 if self._writer is None else self._writer.counters()
            segments, disk = self._folder.segments()
            cut = self._folder.cut + (0 if self._writer is None else self._writer.cut)
        records, size, batches, syncs, largest, _, refused, _, *queue, repeated, ids, held, compacted, failed = counted
        return LogStats(
            earliest=earliest,
            end=end,
            segments=segments,
            disk=disk,
            records=records,
            bytes=size,
            batches=batches,
            largest_batch=largest,
            syncs=syncs,
            refused=refused,
            repeated=repeated,
            ids=ids,
            held=held,
            compacted=compacted,
            failed_compactions=failed,
            cut=cut,
            persist_queue=PersistQueue(queue[0], queue[1], queue[2] / 1e9),
        )

    # ---- end ----

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.path}: used after close()")

    def close(self) -> None:
        """Brings what was appended to the disk, ends readers that follow, gives the lock back.

        LogFailed, if that has not been said to anybody yet.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for records in list(self._readers):
                records.close()
            try:
                if self._writer is not None:
                    self._writer.close()
            except LogFailed:
                if not self._told:
                    raise
            finally:
                for flushes in self._loops:
                    flushes.end()
                if self._holder is not None:
                    self._holder.close()
                self._folder.close()

    def __del__(self) -> None:
        try:  # not suppress(): at the interpreter's end the names of modules are gone
            self.close()
        except Exception:  # made in part, or the disk failed: an append has been told, or nobody waits
            return

    def _repr_html_(self) -> str:
        title, type_name = f"Log {self.path}", ("type", shown_name(self.type.name))
        try:
            return table(title, (), [type_name, *fields(self.stats())])
        except ClosedError as error:
            return table(title, (), [type_name], [str(error)])

    def __repr__(self) -> str:
        return f"<rtmw.Log {str(self.path)!r} {shown_name(self.type.name)}{', closed' if self._closed else ''}>"


def _free_locks() -> None:
    for log in list(_logs):
        log._lock = threading.RLock()


os.register_at_fork(after_in_child=_free_locks)
