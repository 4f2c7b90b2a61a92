"""Log: the options that open it, append, and the answer whether that is on the disk. The bytes are rtmw/log/."""

from __future__ import annotations

import builtins
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from rtmw.closing import Closing
from rtmw.durable_log.reading import Asked, Cursor, LogRecord, LogRecords, Reading, Start
from rtmw.errors import ClosedError, LogFailed, TypeMismatch
from rtmw.log import (
    ENDS,
    HELD,
    KEEP_ALL,
    NO_LIMIT,
    SEGMENT_LEAST,
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
from rtmw.notebook import ShownByFields, fields, table
from rtmw.qos import check_seconds
from rtmw.text.units import seconds_of, size_of
from rtmw.types import AnyType, MessageType, from_description, resolve, shown_name

__all__ = ["Appended", "Durability", "Log", "LogRecord", "LogRecords", "LogStats", "PersistQueue", "Start"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rtmw.durable_log.aio import Flushes
    from rtmw.durable_log.batches import LogBatches

    S = TypeVar("S", bound=np.generic)

T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R", bound=Reading[Any, Any])

_logs: weakref.WeakSet[Log[Any]] = weakref.WeakSet()
"""All logs of this process: a child of fork() gives them new locks, for a thread that it lacks may hold one."""


LARGEST_SEGMENT: Final = 4 << 30
DEDUPE: Final = 65_536
MOST_IDS: Final = 1 << 24
MOST_PER_KEY: Final = 1_000_000
ABANDONED_S: Final = 7 * 86400.0
LONGEST_S: Final = 100 * 365 * 86400.0


@dataclass(frozen=True)
class Retention:
    """Which full segments of a log go: those that one of the limits does not want, and no cursor needs.

    Looked at when a segment is full, once a minute, and when a writer begins. The last segment always stays.
    """

    age: float | str | None = None
    """Seconds, or `"7d"`: a segment goes when it was full longer ago. None: no limit."""
    bytes: int | str | None = None
    """Bytes of the files of all segments, or `"10G"`: the oldest segments go until at most this is left. None: no
    limit."""
    cursors: bool | float | str = True
    """Whether a segment stays until each cursor has passed it; but a cursor unused for 7 days, or for so long as is
    given here (`"30d"`), keeps nothing.
    """
    per_key: int | None = None
    """How many records with the same key stay, the newest ones; older ones that each cursor has passed go from full
    segments. Records without a key stay. None: all stay."""

    def __post_init__(self) -> None:
        self.numbers()

    def numbers(self) -> tuple[int, int, int, int]:
        """Nanoseconds, bytes, nanoseconds and records a key (0: all), for the writer. Raises ValueError."""
        age = NO_LIMIT if self.age is None else int(_seconds("age", self.age) * 1e9)
        size = NO_LIMIT if self.bytes is None else size_of(self.bytes)
        if isinstance(self.cursors, bool):
            cursors = int(ABANDONED_S * 1e9) if self.cursors else 0
        else:
            cursors = int(_seconds("cursors", self.cursors) * 1e9)
        return age, size, cursors, 0 if self.per_key is None else _count(self.per_key)


def _count(per_key: int) -> int:
    if isinstance(per_key, bool) or not 1 <= per_key <= MOST_PER_KEY:
        raise ValueError(f"per_key={per_key!r} is not possible; it is a number of records from 1 to {MOST_PER_KEY}")
    return per_key


def _seconds(what: str, written: float | str) -> float:
    seconds = seconds_of(written)
    if isinstance(written, bool) or not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"{what}={written!r} is not possible; write seconds as a number, or as '10min', '2h', '7d'")
    return seconds


def numbers_of(retention: Retention | None) -> tuple[int, int, int, int]:
    """Returns the limits of a retention as the writer takes them; None: all is kept. TypeError: it is no Retention."""
    if retention is not None and not isinstance(retention, Retention):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"retention={retention!r} is not possible; write rtmw.Retention(age={retention!r}) for a time, in seconds "
            f"or as '7d', or rtmw.Retention(bytes={retention!r}) for a size, in bytes or as '10G'"
        )
    return KEEP_ALL if retention is None else retention.numbers()


class LogOptions(TypedDict, total=False):
    """Keywords of Log."""

    create: bool
    segment: int | str
    retention: Retention | None
    sync: bool
    dedupe: int


class ConnectOptions(TypedDict, total=False):
    """Keywords of Log.connect."""

    nodes: Sequence[str] | None
    keys: str | os.PathLike[str] | None
    insecure: bool
    timeout: float | None


def log_path(path: str | os.PathLike[str]) -> Path:
    """The folder that is meant. ValueError: a bare name, which is not said to be a folder."""
    text = os.fspath(path)
    if isinstance(path, str) and os.sep not in text:
        raise ValueError(f"{text!r} is a bare name; a log is a folder: write {text + '/'!r}, or pathlib.Path({text!r})")
    return Path(text)


def check_segment(segment: int | str) -> int:
    """Bytes of the largest segment, in whole pages."""
    size = size_of(segment)
    if not SEGMENT_LEAST <= size <= LARGEST_SEGMENT:
        raise ValueError(f"segment={segment!r} is not possible; it is a size from 64K to 4G")
    return size & ~4095


def check_dedupe(dedupe: int) -> int:
    """The length of the dedupe window, in ids."""
    if isinstance(dedupe, bool) or not 1 <= dedupe <= MOST_IDS:
        raise ValueError(f"dedupe={dedupe!r} is not possible; it is a number of ids from 1 to {MOST_IDS}")
    return dedupe


def agreed_type(path: Path, description: bytes, wanted: MessageType | None) -> MessageType:
    """The type of a log, as its folder describes it. `wanted`: what was asked for; None: any. Raises TypeMismatch."""
    found = from_description(description)
    if wanted is None:
        return found
    if wanted.identity != found.identity:
        raise TypeMismatch(
            f"{path}: the log is one of {shown_name(found.name)}, and {shown_name(wanted.name)} was asked for; open it "
            "with the type that it was made with, or with rtmw.ANY"
        )
    return wanted


def not_bytes(path: Path, value: object) -> TypeMismatch:
    """The error of an append that was given something else."""
    return TypeMismatch(
        f"{path}: a log of bytes was given {value!r:.80}; give bytes, bytearray or memoryview, or make a log of the "
        "values' type, such as rtmw.Log(path, str)"
    )


class _Answers(Protocol):
    """The log, as far as an answer asks it."""

    def _durable(self) -> int: ...
    def _resolve(self, end: int, timeout: float | None) -> None: ...
    async def _resolve_async(self, end: int) -> None: ...


class Durability(Enum):
    """The outcome of an append. The log of one host gives BUFFERED and WRITTEN only.

    The other three are those of a log that several nodes keep, `Log.connect`: docs/replication.md.
    """

    BUFFERED = "buffered"
    """Taken, and on its way to the disk: a log with `sync=False`. The end of the program's process may lose it."""
    WRITTEN = "written"
    """On the disk. A power cut does not lose it."""
    CACHED = "cached"
    """Replicated: kept by the cache of the control node, and not by all replicas yet. It will not be lost."""
    PENDING = "pending"
    """Replicated: not known yet. `Appended.resolve` finds out whether it is WRITTEN or ABSENT."""
    ABSENT = "absent"
    """Replicated: not in the log, and it never will be: it may be appended again."""


@dataclass(frozen=True)
class PersistQueue(ShownByFields):
    """Records that were appended and are not on the disk yet."""

    records: int
    bytes: int
    """Bytes of the records with their heads."""
    oldest: float
    """Seconds that the first of them has been waiting."""


@dataclass(frozen=True)
class LogStats(ShownByFields):
    """State of a log, and counters of this object."""

    earliest: int
    """Position of the first record."""
    end: int
    """Position behind the last durable record."""
    segments: int
    """Files with records, and the one made ahead."""
    disk: int
    """Bytes of these."""
    records: int
    """Records appended."""
    bytes: int
    """Their data."""
    batches: int
    """Groups that went to the disk with one sync each."""
    largest_batch: int
    """Records of the largest of them."""
    syncs: int
    refused: int
    """Records refused with LogFull."""
    repeated: int
    """Appends that were answered with an earlier record of their id."""
    ids: int
    """Ids that are remembered for that, at most `dedupe`."""
    held: int
    """Bytes of segments that the retention would remove, but for a cursor that has not passed them."""
    compacted: int
    """Bytes of records that this writer's compaction has removed."""
    failed_compactions: int
    """Compactions that were given up: the disk had no room, or a segment is damaged."""
    cut: int
    """Bytes without an answer that were cut off when this writer began."""
    persist_queue: PersistQueue


class Appended:
    """The answer to an append."""

    __slots__ = ("_end", "_log", "id", "position")

    position: int
    """Position of the record in the log."""
    id: Label | None
    """The id that was given to `append`."""

    def __init__(self, log: _Answers, position: int, end: int, id: Label | None = None) -> None:
        self._log = log
        self._end = end
        self.position = position
        self.id = id

    @property
    def state(self) -> Durability:
        """Whether the record is durable at this moment: WRITTEN, else BUFFERED."""
        return Durability.WRITTEN if self._log._durable() >= self._end else Durability.BUFFERED

    def resolve(self, timeout: float | None = None) -> Durability:
        """Waits until it is on the disk; at most so many seconds (None: no limit), then the state is as it was.

        LogFailed: the outcome is unknown.
        """
        check_seconds("timeout", timeout)
        self._log._resolve(self._end, timeout)
        return self.state

    async def resolve_async(self) -> None:
        """Waits until it is on the disk; the event loop goes on meanwhile, and no thread waits.

        LogFailed: the outcome is unknown.
        """
        await self._log._resolve_async(self._end)

    def __repr__(self) -> str:
        return f"<rtmw.Appended {self.position} {self.state.name}>"


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
        self._lock: AbstractContextManager[Any] = threading.RLock()
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
        made: Log[Any] = import_module("rtmw.replica.client").connect(name, type, **options)
        return made

    # ---- append ----

    def append(
        self, value: T, *, key: Label | None = None, id: Label | None = None, timeout: float | None = None
    ) -> Appended:
        """Appends a record. With `sync` it is on the disk when this returns.

        `key`: text, bytes or a whole number that readers find with the record. `id`: likewise, and if one of the last
        `dedupe` records with an id has this one, nothing is appended, and the answer is that record's; LogError, if
        its data or key differ. `timeout`: seconds. Errors, after which nothing was appended: LogLocked, LogFull,
        MessageTooLarge, TypeMismatch, ValueMismatch, ClosedError, and LogFailed that says so. LogFailed,
        TimeoutError: the outcome is unknown.
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
        from rtmw.durable_log.aio import Flushes

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

        `cursor`: a name under which it is kept how far `LogRecord.commit` has come. If there is a cursor of this
        name, reading goes on there; else it begins at `start`. One reader at a time has a cursor: LogLocked names the
        other one. LogError: what the cursor wants was trimmed.

        Only what is durable is read. Errors: ValueError, ClosedError, LogDamaged.
        """
        return self._read_with(LogRecords[T], Asked(start, cursor, follow))

    def read_batches(
        self, start: Start | int | datetime = Start.EARLIEST, *, cursor: str | None = None, follow: bool = False
    ) -> LogBatches[T]:
        """Reads like `read`, but many records a step: a LogBatch has them as columns. For programs that read much of
        a log."""
        from rtmw.durable_log.batches import LogBatches

        return self._read_with(LogBatches[T], Asked(start, cursor, follow))

    def _read_with(self, kind: Callable[[Folder, Asked, Callable[[bytes], T], object], R], asked: Asked) -> R:
        with self._lock:
            self._check_open()
            reader = kind(self._folder_for(asked), asked, self._decode, self)
            self._readers.add(reader)
        return reader

    def _folder_for(self, asked: Asked) -> Folder:
        return self._folder

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
        """Removes the segments before the one in which `before` lies, a position or a time (with its zone); gives where
        the log begins then. The last segment stays. Cursors are not asked. It is durable when this returns; readers
        that stand in what is gone get LogError. LogLocked: another process writes.
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
