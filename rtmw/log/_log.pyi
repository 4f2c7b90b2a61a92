"""The durable log in C as Python sees it; see log.h, writer.h and reader.h. `subject`: the log's path, for errors."""

from collections.abc import Sequence
from typing import Any, TypeVar, final

from typing_extensions import Buffer, disjoint_base

CLOSED: int
DAMAGED: int
FAILED: int
FORMAT: int
FULL: int
ENDS: int
FENCE: int
FENCED: int
HELD: int
ID_TAKEN: int
NO_LIMIT: int
NO_LOG: int
NO_MEMORY: int
NO_RECORD: int
REFUSED: int
RUN_DATA: int
RUN_IDS: int
RUN_KEYS: int
SEGMENT_DATA: int
SEGMENT_FIRST: int
SEGMENT_LEAST: int
STARTED: int
SYNCED: int
TIMEOUT: int
TOO_LARGE: int
TRIMMED: int
VERSION: int

def create(
    subject: str,
    folder: int,
    uuid: bytes,
    segment: int,
    description: bytes,
    replicated: bool = False,
    base: int = 0,
    copied: int = 0,
    /,
) -> None:
    """A new log in a folder, which begins at `base`; the lock is held. `copied`: so many bytes before it lie in sealed
    segments of another copy of this replicated log, which are in the folder; the log begins with them. LogDamaged: they
    are not whole, or do not follow each other."""

def identify(subject: str, folder: int, /) -> tuple[bytes, bytes, bool] | None:
    """uuid of the log, the description of its type, and whether it is replicated; None: there is no log."""

def truncate(subject: str, folder: int, uuid: bytes, position: int, /) -> None:
    """A replicated log ends at this position, at which a batch ends; the lock is held, and there is no writer."""

def epochs(subject: str, folder: int, uuid: bytes, end: int, /) -> list[tuple[int, int]]:
    """Each epoch of which there are records below `end`, and where the first one lies."""

def recover(subject: str, folder: int, uuid: bytes, replicated: bool = False, /) -> int:
    """Makes durable what is there, cuts what is not whole, tells readers; the lock is held. Bytes that were cut."""

def bounds(subject: str, folder: int, uuid: bytes, replicated: bool = False, /) -> tuple[int, int]:
    """The first position, and the one behind the last record that readers may see."""

def cursor_make(subject: str, folder: int, uuid: bytes, file: str, position: int, /) -> None:
    """A new cursor, durably; its lock is held, as for the next ones."""

def cursor_read(subject: str, folder: int, uuid: bytes, file: str, /) -> tuple[int, int] | None:
    """Its position, and when it was written in nanoseconds since 1970; None: there is none. No lock is needed."""

def cursor_hold(subject: str, folder: int, uuid: bytes, file: str, position: int, /) -> None:
    """The first write of its holder: durable with its name, which a process that was killed may not have synced."""

def cursor_write(subject: str, folder: int, uuid: bytes, file: str, position: int, /) -> None:
    """Durably."""

def cursor_delete(subject: str, folder: int, uuid: bytes, file: str, /) -> None:
    """Durably."""

def segment(subject: str, folder: int, uuid: bytes, base: int, /) -> tuple[int, int, int, int, int]:
    """Returns for the segment of this base: bytes of its file, the watermark, its flags (1: sealed), its time, and
    how many bytes of records compaction has removed."""

def index(subject: str, folder: int, uuid: bytes, base: int, /) -> tuple[int, int, int] | None:
    """Returns from the index of a segment: number of records, earliest and latest time. None: it has no whole index."""

def stretches(subject: str, folder: int, uuid: bytes, base: int, /) -> tuple[int, int, int, bytes] | None:
    """Returns from the index of a segment: where its records end, their number and earliest time; and for each
    stretch two u64, the position of its first record and its latest time. None: the segment has no whole index."""

def watch(path: str, /) -> int:
    """A descriptor that is readable when the file has been written."""

_R = TypeVar("_R", bound=Record)

_Texts = tuple[bytes, bytes, bytes]
"""Keys or ids: the text of all, numbers in digits and bytes in hexadecimal ones; i4, where the text of each record
ends; u1, 0 for a record without. Text is as it was appended: nobody has checked that it is UTF-8."""
_Run = tuple[int, bytes, bytes, bytes, bytes | None, bytes | None, bytes | None, _Texts | None, _Texts | None, int, int]
"""Number of records; position, time_ns (u8), epoch (u4); of the data of each, place and size (i8) in the bytes that
follow; keys, ids; position and kind of a record of another kind, which stands alone and is not in the columns, kind 0:
there is none."""

@final
class Writer:
    """Appends: group commit in a thread of its own. The lock is held."""

    def __new__(
        cls,
        subject: str,
        folder: int,
        uuid: bytes,
        most: int,
        window: int,
        retention: tuple[int, int, int, int],
        replicated: bool = False,
    ) -> Writer: ...
    @property
    def durable(self) -> int:
        """All below this position is on the disk."""

    @property
    def next(self) -> int:
        """Where the next record will lie."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record."""

    @property
    def last_base(self) -> int:
        """Where the last segment begins."""

    @property
    def last_size(self) -> int:
        """Bytes of its file."""

    @property
    def cut(self) -> int:
        """Bytes that recovery cut."""

    @property
    def failed(self) -> bool: ...
    def append(
        self, data: Buffer, labels: Buffer | None, how: int, timeout: float | None, time_ns: int = 0, /
    ) -> tuple[int, int]:
        """Its position, and the one behind it; of the record with its id, if there is one.
        `how`: HELD begins no sync: it goes to the disk with what somebody waits for, or with `start`, or after a tenth
        of a second; STARTED: it is on its way; SYNCED: it is there; with ENDS, a record that ends work, for which
        a full disk leaves a reserve; with FENCED, a fence: `labels` have an id and no key, and there is no data.
        `time_ns`: what its time is; 0: now."""

    def append_many(
        self, data: list[Buffer], how: int, labels: Buffer | None = None, timeout: float | None = None, /
    ) -> tuple[Sequence[int], int]:
        """All of them, or none. Where each record begins, and where the last one ends; they lie one after the other. Of
        records of one size a range. `labels`: of the first record; their id is that of the batch."""

    def append_raw(self, data: Buffer, epoch: int, timeout: float | None, /) -> int:
        """Takes whole batches of another node of this log, as Reader.raw gives them; the position behind them.

        `epoch`: of the master, which no record exceeds. LogError: they do not follow, or are no whole valid batches,
        and nothing was taken. After another error `next` says how many were."""

    def tail(self, position: int, size: int, /) -> bytes | None:
        """The next whole batches from a position on, as Reader.raw gives them, of what is not durable, and may be in
        no file. None: nothing of that lies there."""

    def commit(self, position: int, /) -> None:
        """All below this position is final: readers of the folder see what is final and durable."""

    def find_id(self, labels: Buffer, /) -> tuple[tuple[int, int, int] | None, int]:
        """Position, end and kind of the batch with the id of these labels, or None; and the floor: of all records from
        there on the ids are known."""

    def set_epoch(self, epoch: int, /) -> None:
        """Sets the epoch of the records that are appended from now on. ValueError: there are records of a higher
        one."""

    def trim(self, before: int, /) -> int:
        """The log begins with the segment in which this position lies; gives where that is."""

    def ask_trim(self, before: int, /) -> None:
        """Has the log trimmed soon, like `trim`. It does not block; if it fails, so do the appends that follow."""

    def add_eventfd(self, descriptor: int, /) -> bool:
        """An eventfd that is written to when something became durable or failed, or there is room. False: too many."""

    def remove_eventfd(self, descriptor: int, /) -> None: ...
    def start(self, awaited: int = 0, /) -> None:
        """Appended records go to the disk now. Does not block, and does nothing where the writer is closed. `awaited`:
        an event loop waits until all below this position is durable; its eventfd tells it."""

    def write_ahead(self) -> None:
        """The disk begins with what was taken, so that a sync in the thread of the caller, which follows, has less to
        wait for. Of no effect where another thread is at it."""

    def try_flush(self) -> bool:
        """In this thread. False: there is nothing, another thread is at it or has been asked to, or it cannot be."""

    def wait(self, end: int, timeout: float | None, /) -> None: ...
    def counters(self) -> tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]:
        """Records, bytes, batches, syncs, records of the largest batch, rolls, records refused by a full disk, spares
        that could not be made; records, bytes and age in nanoseconds of what waits for the disk; appends that were
        answered with an earlier record of their id, ids that are remembered; bytes that
        the retention would remove but for cursors; bytes that compaction removed; compactions that were given up."""

    def close(self) -> None: ...

@disjoint_base
class Record:
    """A record. Only Reader.take makes one, as an instance of a subclass."""

    @property
    def data(self) -> bytes:
        """The data as it lies in the log."""

    @property
    def position(self) -> int:
        """Where it lies: positions grow from record to record, and stay."""

    @property
    def end(self) -> int:
        """The position behind it."""

    @property
    def time_ns(self) -> int:
        """When it was appended: nanoseconds since 1970, by the wall clock of then, which may have been set back."""

    @property
    def epoch(self) -> int:
        """1 in a log that one host writes; in a replicated log that of the master which appended it."""

    @property
    def _kind(self) -> int: ...
    @property
    def _labels(self) -> bytes: ...
    @property
    def _origin(self) -> Any: ...  # as it was given to `take`

@final
class Reader:
    """Goes through the records from a position on."""

    def __new__(cls, subject: str, folder: int, uuid: bytes, position: int, begins: bool = False) -> Reader:
        """`begins`: a file of the log says that a record begins there, so that it is damage if none does.
        `folder` -1: there are no files, and records come by `feed`."""
    @property
    def position(self) -> int:
        """Position of the next record."""

    def next(self, limit: int, /) -> tuple[int, int, int, int, int, bytes, bytes] | None:
        """Position, end, time_ns, epoch, kind, labels and data of the next record below `limit`."""

    def take(self, limit: int, kind: type[_R], origin: object, size: int, /) -> list[_R]:
        """The next records below `limit`, at least one if there is one, and no more than it takes to have `size` bytes.

        `kind`: a subclass of Record with __slots__ = (). A record of another kind than 1 stands alone. What goes wrong
        behind the first record is raised by the next call."""

    def run(self, limit: int, wanted: int, start_ns: int, end_ns: int, rows: int, size: int, /) -> _Run | None:
        """The next records below `limit` with start_ns <= time < end_ns, as columns; None: there is none.

        `wanted`: the sum of RUN_KEYS, RUN_IDS, RUN_DATA; what is not wanted is None. At most so many rows, and bytes of
        data, but at least one. The interpreter is kept, as by `next`. Raises as `next` does; what goes wrong behind the
        first record is raised by the next call."""

    def raw(self, limit: int, size: int, /) -> bytes | None:
        """The next whole batches below `limit`, as they lie in the log: no more than `size` bytes, or one batch. None:
        there is none. The reader stands where a batch begins."""

    def feed(self, data: Buffer, /) -> None:
        """The bytes of the next records, as `raw` has given them in another process; they follow on those before."""

    def scan(self, base: int, start: int, /) -> tuple[int, int, int, int, int, bytes, bytes] | None:
        """The first valid record at or behind a position in the segment of this base, whatever lies before it."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing but whole records lies before what the last scan gave, or before the end of the segment.
        Then compaction has removed what is missing there."""

    def seek_time(self, time_ns: int, limit: int, /) -> None:
        """To the first record of that time or later."""

    def close(self) -> None: ...
