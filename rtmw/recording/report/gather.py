"""The messages of recordings as columns by topic: all that a report counts, and no payload.

Columns of whole numbers are kept in few bytes, a piece for each chunk: the numbers of a chunk lie close together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.errors import RecordingError
from rtmw.recording.batch import CARRIED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording

    Column = NDArray[Any]

_NARROW: Final[dict[str, int]] = {"u1": 0xFF, "u2": 0xFFFF, "u4": 0xFFFFFFFF}
"""Kinds, each with its largest number."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A piece of a column: its least number, and how far each number lies above it."""

    least: int
    count: int
    above: Column | None
    """None: all numbers are the least one."""

    def unpack(self, into: Column) -> None:
        """`into`: as long as the piece, of the kind that the column has."""
        if self.above is None:
            into[:] = self.least
        else:
            np.add(self.above, self.least, out=into, dtype=into.dtype)


def packed(column: Column) -> Packed:
    """Packs a column, which has at least one number."""
    least, most = int(column.min()), int(column.max())
    if least == most:
        return Packed(least, len(column), None)
    kind = next((kind for kind, largest in _NARROW.items() if most - least <= largest), None)
    if kind is None:
        return Packed(0, len(column), column)
    return Packed(least, len(column), (column - least).astype(kind))


class PackedRows(Mapping[str, "Column"]):
    """The columns of a topic by name. Each look-up makes a column anew: hold it while it is used, and no longer."""

    def __init__(self, pieces: Sequence[Mapping[str, Packed]], kinds: Mapping[str, np.dtype[Any]]) -> None:
        self._pieces, self._kinds = pieces, kinds

    def __getitem__(self, name: str) -> Column:
        pieces = [piece[name] for piece in self._pieces]
        column, begin = np.empty(sum(piece.count for piece in pieces), self._kinds[name]), 0
        for piece in pieces:
            piece.unpack(column[begin : begin + piece.count])
            begin += piece.count
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


KINDS: Final[dict[str, np.dtype[Any]]] = {
    "place": np.dtype(np.int64),
    "publish": np.dtype(np.int64),
    "log": np.dtype(np.int64),
    "size": np.dtype(np.int64),
    "expires": np.dtype(np.int64),
    "band": np.dtype(np.uint8),
    "sequence": np.dtype(np.int64),
}
"""Columns of a topic: the number of the message among all of all files, its times in nanoseconds (`expires` 0: never),
the bytes of its payload, its priority (UNNUMBERED where sequences say nothing) and its sequence."""

UNNUMBERED: Final = 255
"""`band` of messages whose recorder does not number them densely."""

TopicColumns = Mapping[str, "Column"]


@dataclass
class Gathered:
    """Messages by topic, as they are read."""

    damage: list[str] = field(default_factory=list[str])
    """A sentence for each chunk that could not be read."""
    _pieces: dict[str, list[dict[str, Packed]]] = field(default_factory=dict[str, "list[dict[str, Packed]]"])

    def add(self, recording: Recording, chunks: Iterable[tuple[Chunk, int]], base: int) -> None:
        """Chunks, each with the number of its first message; `base`: messages of the files before. Raises OSError."""
        for chunk, first in chunks:
            try:
                batch = recording.read_stored(chunk)
            except RecordingError as error:
                self.damage.append(str(error))
                continue
            for topic, rows in by_topic(recording, batch, base + first):
                self._pieces.setdefault(topic, []).append({name: packed(rows[name]) for name in KINDS})

    def topics(self) -> Iterator[tuple[str, TopicColumns]]:
        """Each topic with its columns, by name; what was gathered of it is given away."""
        for topic in sorted(self._pieces):
            yield topic, PackedRows(self._pieces.pop(topic), KINDS)


def numbered(recording: Recording) -> Iterator[tuple[Chunk, int]]:
    """The chunks of a recording that have messages, each with the number of its first one."""
    first = 0
    for chunk in recording.chunks:
        if chunk.counts:
            yield chunk, first
        first += chunk.message_count


def by_topic(recording: Recording, batch: Batch, first: int) -> Iterator[tuple[str, dict[str, Column]]]:
    """The rows of a batch by channel, without what was carried over; `first` is the number of its first row."""
    columns = _columns(recording, batch, first)
    channel, keep = batch.channel, (batch.flags & CARRIED) == 0
    if len(batch.chunk.counts) == 1:
        order, bounds = np.flatnonzero(keep), {int(channel[0]): slice(None)} if len(channel) else {}
    else:
        order = np.argsort(channel, kind="stable")
        order = order[keep[order]]
        numbers, starts = np.unique(channel[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        bounds = {int(n): slice(s, e) for n, s, e in zip(numbers, starts.tolist(), ends, strict=True)}
    for number, part in bounds.items():
        chosen = order[part]
        if len(chosen):
            yield recording.channels[number].topic, {name: column[chosen] for name, column in columns.items()}


def _columns(recording: Recording, batch: Batch, first: int) -> dict[str, Column]:
    count = len(batch)
    is_ours = recording.header.is_ours
    found = {
        "place": np.arange(first, first + count),
        "publish": batch.publish_time,
        "log": batch.log_time,
        "size": batch.size,
        "expires": batch.expires,
        "band": batch.priority if is_ours else np.full(count, UNNUMBERED),
        "sequence": batch.sequence if is_ours else np.zeros(count),
    }
    return {name: found[name].astype(kind, copy=False) for name, kind in KINDS.items()}
