"""Messages as columns: one row a message, and never a Python object for one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.recording.contents import Chunk, Missed
from rtmw.recording.times import UNSET_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.chunk_reader import ChunkMessages
    from rtmw.recording.side import Side

    Column = NDArray[Any]

CARRIED: Final = 1
"""Flag of a message that was carried over from an earlier file."""
CARRIED_MOST: Final = 16
"""Publishers of a channel whose last messages are carried over."""


_ALL: Final = slice(None)


class _Made:
    """A column of a batch, made when it is first asked for: few are."""

    def __set_name__(self, owner: type[Batch], name: str) -> None:
        self._name = name

    def __get__(self, batch: Batch, owner: type[Batch]) -> Column:
        made = batch.__dict__[self._name] = batch.make(self._name)[batch.rows]
        return made


class Batch:
    """Messages of one chunk, in the order of the file. All columns are numpy arrays of one length."""

    channel = _Made()
    """u2, channel id"""
    sequence = _Made()
    """u8, dense within topic and priority; in recordings of others the 32 bits that they have"""
    log_time = _Made()
    """i8, nanoseconds; UNSET_NS: nobody set it"""
    publish_time = _Made()
    """i8, nanoseconds; UNSET_NS: nobody set it"""
    position = _Made()
    """i8, of the payload in `data`"""
    size = _Made()
    """i8, of the payload in bytes"""
    priority = _Made()
    """u1"""
    publisher = _Made()
    """u8, identity; 0: unknown"""
    expires = _Made()
    """i8, nanoseconds; 0: never"""
    flags = _Made()
    """u1; see CARRIED"""
    has_flags = True
    """False: no message of the chunk has one, so that the column need not be made."""

    def __init__(
        self,
        chunk: Chunk,
        data: bytes | memoryview,
        make: Callable[[str], Column],
        missed: tuple[Missed, ...] = (),
        rows: Column | slice = _ALL,
    ) -> None:
        self.chunk = chunk
        self.data = data
        """The uncompressed records, in which the payloads lie."""
        self.make = make
        """A column by its name; `rows` of it are those of the batch."""
        self.missed = missed
        """The messages that the recorder did not get since the chunk before."""
        self.rows = rows

    def __len__(self) -> int:
        return len(self.position)

    def where(self, mask: Column) -> Batch:
        """The rows for which a boolean mask is true, or those of an array of row numbers."""
        mask = np.asarray(mask)
        if mask.dtype == np.bool_ and mask.all():
            return self
        if isinstance(self.rows, slice):
            return Batch(self.chunk, self.data, partial(getattr, self), self.missed, np.arange(len(self))[mask])
        return Batch(self.chunk, self.data, self.make, self.missed, self.rows[mask])

    def having(self, data: bytes | memoryview | None = None, **columns: Column) -> Batch:
        """Returns the batch with these columns in place of its own. `data`: where the payloads lie then; None: where
        they lie now."""
        made: dict[str, Column] = {name: getattr(self, name) for name in COLUMNS} | columns
        return Batch(self.chunk, self.data if data is None else data, made.__getitem__, self.missed)

    def payload(self, row: int) -> memoryview:
        """The payload of a row, without a copy."""
        begin = int(self.position[row])
        return memoryview(self.data)[begin : begin + int(self.size[row])]


def within(batch: Batch, start_ns: int | None, end_ns: int | None) -> list[NDArray[np.bool_]]:
    """Masks that together leave the rows with start_ns <= log time < end_ns; none where the index says that all are so.

    A row without a log time lies in no time at all.
    """
    masks: list[NDArray[np.bool_]] = []
    if start_ns is not None and batch.chunk.start_ns < start_ns:
        masks.append(batch.log_time >= start_ns)
    if end_ns is not None and batch.chunk.end_ns >= end_ns:
        masks.append(batch.log_time < end_ns)
    if start_ns is not None and batch.chunk.end_ns == UNSET_NS:
        masks.append(batch.log_time != UNSET_NS)
    return masks


def placed(batch: Batch, before_ns: int) -> Batch:
    """The batch with times in each row, for callers that write or publish them.

    A row without a log time gets that of the row before it; `before_ns`: what the first rows get, if no row has one. A
    row without a publish time gets its log time.
    """
    log_time, publish_time = batch.log_time, batch.publish_time
    no_log, no_publish = log_time == UNSET_NS, publish_time == UNSET_NS
    if not no_log.any() and not no_publish.any():
        return batch
    row = np.where(no_log, -1, np.arange(len(batch)))
    before = np.maximum.accumulate(row)
    first = before_ns if no_log.all() else int(log_time.min())
    log_time = np.where(before < 0, first, log_time[before])
    return batch.having(log_time=log_time, publish_time=np.where(no_publish, log_time, publish_time))


def batch_of(chunk: Chunk, scanned: ChunkMessages, side: Side) -> Batch:
    """The messages of a chunk, by its records and its side record."""

    def make(name: str) -> Column:
        match name:
            case "position" | "size":
                return scanned.position if name == "position" else scanned.size
            case "sequence":
                sequence: Column = scanned.field(name) | side.column("high")
                return sequence
            case "channel" | "log_time" | "publish_time":
                return scanned.field(name)
            case _:
                return side.column(name)

    batch = Batch(chunk, scanned.data, make, side.missed)
    batch.has_flags = side.has_flags
    return batch


COLUMNS = tuple(name for name, value in vars(Batch).items() if isinstance(value, _Made))
"""Names of the columns."""
