"""Messages as columns: one row a message, and never a Python object for one. Batches of several recordings can be had
as one, in the order of their times.

For that, chunks are read in the order in which they begin. A message is given once no chunk is left that could hold an
earlier one; so only chunks that overlap are in memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.errors import RecordingDamaged
from rtmw.recording.contents import Chunk, Missed
from rtmw.recording.times import UNSET_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.chunk_reader import ChunkMessages, Side
    from rtmw.recording.recording import Recording

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


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one chunk, in the order of their times."""

    recording: int
    """Number of the recording, from 0."""
    batch: Batch
    is_first: bool = True
    """Whether this is the first of the parts in which a chunk is given."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The next rows, of one or more chunks."""

    parts: tuple[Part, ...]
    order: NDArray[np.intp]
    """Sorts by time the rows of all parts, which are numbered one part after the other."""

    def __len__(self) -> int:
        return len(self.order)

    def column(self, name: str) -> NDArray[Any]:
        """A column of Batch, in order."""
        return self._sorted([getattr(part.batch, name) for part in self.parts])

    def part(self) -> NDArray[Any]:
        """u4: in which of the parts each row lies, in order."""
        return self._sorted([np.full(len(part.batch), at, np.uint32) for at, part in enumerate(self.parts)])

    def each(self, column: Callable[[Part], NDArray[Any]]) -> NDArray[Any]:
        """A column that is made of each part, in order."""
        return self._sorted([column(part) for part in self.parts])

    def _sorted(self, columns: list[NDArray[Any]]) -> NDArray[Any]:
        joined = columns[0] if len(columns) == 1 else np.concatenate(columns)
        taken: NDArray[Any] = joined[self.order]
        return taken


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Says which messages are wanted."""

    channels: Sequence[frozenset[int]]
    """For each recording, the ids of its channels that are wanted."""
    start_ns: int | None = None
    """The first moment, by log time."""
    end_ns: int | None = None
    """The first moment that does not belong to it any more."""

    def takes(self, recording: int, chunk: Chunk) -> bool:
        """Whether a chunk may have messages that are wanted, by the index alone."""
        if self.start_ns is not None and chunk.end_ns < self.start_ns:
            return False
        if self.end_ns is not None and chunk.start_ns >= self.end_ns:
            return False
        return not self.channels[recording].isdisjoint(chunk.counts)

    def rows(self, recording: int, batch: Batch) -> Batch:
        """Returns the messages of a batch that are wanted."""
        mask = np.isin(batch.channel, list(self.channels[recording]))
        for inside in within(batch, self.start_ns, self.end_ns):
            mask &= inside
        return batch.where(mask)


class CarriedOver:
    """Knows what has been given already, when a recorder has carried it over into the next file of a recording."""

    def __init__(self, keys: int, since_ns: int | None = None) -> None:
        """`keys`: how many topics. `since_ns`: what was published until then is not to be given."""
        self._newest = np.full(keys, -1 if since_ns is None else since_ns, np.int64)

    def again(self, key: NDArray[Any], publish_time: NDArray[Any], flags: NDArray[Any]) -> NDArray[np.bool_]:
        """Returns which rows repeat earlier ones, and remembers all. `key`: the topic of each."""
        found: NDArray[np.bool_] = (flags & CARRIED).astype(bool) & (publish_time <= self._newest[key])
        np.maximum.at(self._newest, key, publish_time)
        return found


Damaged = Callable[[RecordingDamaged], None]
"""A function that is told of a chunk that is left out because it is damaged."""


def in_order(
    recordings: Sequence[Recording], wanted: MessageFilter, damaged: Damaged | None = None
) -> Iterator[Stretch]:
    """All messages that are selected, in the order of log_time; of equal times those of the first recording first.

    Without `damaged` a damaged chunk raises RecordingDamaged.
    """
    chunks = [
        (number, chunk)
        for number, recording in enumerate(recordings)
        for chunk in recording.chunks
        if wanted.takes(number, chunk)
    ]
    chunks.sort(key=lambda item: item[1].start_ns)
    waiting: list[Part] = []
    latest_ns = min((recording.start_ns for recording in recordings), default=0)
    for at, (number, chunk) in enumerate(chunks):
        batch = _read(recordings[number], chunk, damaged)
        if batch is not None:
            batch = placed(batch, latest_ns)
            latest_ns = max(latest_ns, int(batch.log_time.max()) if len(batch) else 0)
            batch = wanted.rows(number, batch)
            if len(batch):
                waiting.append(Part(number, _sorted_by_time(batch)))
        until = chunks[at + 1][1].start_ns if at + 1 < len(chunks) else None
        ready, waiting = _split(waiting, until)
        if ready:
            yield _stretch(ready)


def _read(recording: Recording, chunk: Chunk, damaged: Damaged | None) -> Batch | None:
    """None: it is damaged, and left out."""
    try:
        return recording.read(chunk)
    except RecordingDamaged as error:
        if damaged is None:
            raise
        damaged(error)
        return None


def _sorted_by_time(batch: Batch) -> Batch:
    times = batch.log_time
    return batch if (times[1:] >= times[:-1]).all() else batch.where(np.argsort(times, kind="stable"))


def _split(parts: list[Part], until_ns: int | None) -> tuple[list[Part], list[Part]]:
    """The rows before a moment, and the rest."""
    if until_ns is None:
        return parts, []
    before: list[Part] = []
    rest: list[Part] = []
    for part in parts:
        at = int(np.searchsorted(part.batch.log_time, until_ns, "left"))
        rows = np.arange(len(part.batch))
        if at == len(rows):
            before.append(part)
            continue
        if at:
            before.append(Part(part.recording, part.batch.where(rows[:at]), part.is_first))
        rest.append(Part(part.recording, part.batch.where(rows[at:]), part.is_first and not at))
    return before, rest


def _stretch(parts: list[Part]) -> Stretch:
    parts.sort(key=lambda part: part.recording)
    if len(parts) == 1:
        return Stretch(tuple(parts), np.arange(len(parts[0].batch)))
    times = np.concatenate([part.batch.log_time for part in parts])
    return Stretch(tuple(parts), np.argsort(times, kind="stable"))
