"""Messages of several recordings as one, in the order of their times.

Chunks are read in the order in which they begin. A message is given once no chunk is left that could hold an earlier
one; so only chunks that overlap are in memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rtmw.errors import RecordingDamaged
from rtmw.recording.batch import CARRIED, placed, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording


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
