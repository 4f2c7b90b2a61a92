"""A topic of recordings as a table, read chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtmw.errors import RecordingDamaged, UnsupportedType
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.frames.layout import Layout, layout_of
from rtmw.recording.frames.pruning import Pruning, all_of
from rtmw.recording.frames.scan import (
    ADVICE,
    ALL,
    MODES,
    Planned,
    Run,
    Scan,
    Stream,
    TimeRange,
    common_type,
    extent_of,
    sightings,
    stream_of,
)
from rtmw.recording.versions import Version, chosen_version, some, versions_of

if TYPE_CHECKING:
    from rtmw.recording.batch import Damaged
    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording

_TIME: Final = "log_time_ns"
"""The column that says in which order rows of several recordings are."""


@dataclass(frozen=True)
class Query:
    """A query of a table. Conditions are expressions of pyarrow.compute."""

    columns: tuple[str, ...] = ()
    """None: the usual ones."""
    selection: TimeRange = ALL
    condition: Any = None
    """Rows for which it is true."""
    hint: Any = None
    """Numbers lie so in all rows that are looked at afterwards; chunks are skipped by it, and rows are not."""


class Frame:
    """The messages of a topic, of one recording or of several; of all topics, if none is named.

    The recordings stay the caller's: they are open as long as something is read. `version`: only messages of this
    version of the topic's type, by its number or LATEST. `mode`: one of MODES. Raises ValueError for a topic or version
    that there is not, or whose messages are of several types; UnsupportedType for a type that columns cannot hold.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        topic: str | None,
        typed: bool = True,
        version: int | None = None,
        mode: str = MODES[0],
    ) -> None:
        self.topic, self._mode = topic, mode
        if version is not None and topic is None:
            raise ValueError("type_version chooses among the versions of a topic's type: name the topic")
        has_types = topic is not None and (typed or version is not None)
        self._found = [(recording, _streams(recording, topic, has_types)) for recording in recordings]
        streams = [stream for _, found in self._found for stream in found.values()]
        if topic is not None and not streams:
            there = sorted({name for recording in recordings for name in recording.topics()})
            raise ValueError(f"there is no topic {topic!r}; there are {', '.join(there) or 'none'}")
        seen = [one for recording, found in self._found for one in sightings(recording.chunks, found)]
        self._versions = versions_of(seen) if has_types else []
        if version is not None:
            self._choose(chosen_version(self._versions, version))
        self._descriptions = common_type(self._versions) if typed else ()
        self.layout = self._layout()

    def _choose(self, version: Version) -> None:
        self._versions = [version]
        self._found = [
            (recording, {n: s for n, s in streams.items() if version.has(s.type_name, s.description, s.problem)})
            for recording, streams in self._found
        ]

    def _layout(self) -> Layout:
        try:
            return layout_of(self._descriptions, "keep", self._mode != MODES[0])
        except UnsupportedType as error:
            raise UnsupportedType(f"{error}; there are {some(self._versions)}. {ADVICE}") from None

    def schema(self, columns: tuple[str, ...] = ()) -> pa.Schema:
        """Returns the schema of these columns; without a name, of the usual ones. Raises ValueError."""
        return pa.schema([column.field for column in self.layout.chosen(columns)])

    def read(self, query: Query) -> Iterator[pa.RecordBatch]:
        """The rows. Raises ValueError, RecordingDamaged, ValueMismatch for a damaged payload."""
        pruning = self._pruning(query)
        scan, names = self._scan(query, pruning)
        for recording, run in self._runs(query, pruning):
            for rows in _scanned(scan, recording, run, query):
                yield rows.select(names) if len(names) < len(scan.columns) else rows

    def _scan(self, query: Query, pruning: Pruning | None, *more: str) -> tuple[Scan, list[str]]:
        """What reads the columns of a query, those of its condition and some more; and the names of the first."""
        wanted = self.layout.chosen(query.columns)
        others = (*(pruning.columns if pruning else ()), *(self.layout.columns[name] for name in more))
        columns = (*wanted, *dict.fromkeys(column for column in others if column not in wanted))
        schema = pa.schema([column.field for column in columns])
        scan = Scan(columns, schema, self._descriptions, mode=self._mode, selection=query.selection)
        return scan, [column.name for column in wanted]

    def read_in_order(self, query: Query, damaged: Damaged | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in the order of log_time, of equal times those of the first recording first.

        Rows without a time follow the row before them. Only chunks that overlap are in memory together. `damaged` is
        told of a chunk that is left out because it is damaged. Raises as `read`, without `damaged` RecordingDamaged.
        """
        pruning = self._pruning(query)
        scan, names = self._scan(query, pruning, _TIME)
        pieces = [
            (number, recording, Run(run.path, (chunk,), run.streams))
            for number, (recording, run) in enumerate(self._runs(query, pruning, damaged))
            for chunk in run.chunks
        ]
        pieces.sort(key=lambda piece: piece[2].chunks[0][0].start_ns)
        starts = [run.chunks[0][0].start_ns for _, _, run in pieces]
        waiting, latest_ns = list[_Sorted](), min(starts, default=0)
        for at, (number, recording, run) in enumerate(pieces):
            try:
                found = [*_scanned(scan, recording, run, query)]
            except RecordingDamaged as error:
                if damaged is None:
                    raise
                damaged(error)
                found = []
            waiting += [_sorted(number, rows, latest_ns if starts[at] == UNSET_NS else starts[at]) for rows in found]
            waiting = [one for one in waiting if len(one.times)]
            latest_ns = max([latest_ns, *(int(one.times[-1]) for one in waiting)])
            ready, waiting = _split(waiting, starts[at + 1] if at + 1 < len(starts) else None)
            yield from (rows.select(names) for rows in _merged(ready))

    def planned(self, query: Query) -> Planned:
        """How much would be read, by the indexes. Raises ValueError, RecordingDamaged for one of their ranges."""
        every = [chunk for recording, _ in self._found for chunk in recording.chunks]
        read = extent_of(chunk for _, run in self._runs(query, self._pruning(query)) for chunk, _ in run.chunks)
        return Planned.of(read, extent_of(every))

    def _pruning(self, query: Query) -> Pruning | None:
        condition = all_of(one for one in (query.condition, query.hint) if one is not None)
        return None if condition is None else Pruning(self.layout, self._descriptions, "keep", condition)

    def _runs(
        self, query: Query, pruning: Pruning | None, damaged: Damaged | None = None
    ) -> Iterator[tuple[Recording, Run]]:
        """The chunks that may have rows, of each recording. With `damaged`, damaged ranges of numbers spare nothing."""
        for recording, streams in self._found:
            chunks = tuple(_wanted(recording, streams, query))
            try:
                kept = chunks if pruning is None else pruning.kept(recording, chunks, streams)
            except RecordingDamaged:
                if damaged is None:
                    raise
                kept = chunks
            if kept:
                yield recording, Run(recording.path, kept, streams)


def _scanned(scan: Scan, recording: Recording, run: Run, query: Query) -> Iterator[pa.RecordBatch]:
    """The rows of a run for which the condition is true."""
    for batch in scan.read_run(recording, run):
        yield batch if query.condition is None else batch.filter(query.condition)


@dataclass(frozen=True)
class _Sorted:
    """Rows of one chunk in the order of their times."""

    recording: int
    times: Any
    rows: pa.RecordBatch

    def part(self, begin: int, end: int) -> _Sorted:
        return _Sorted(self.recording, self.times[begin:end], self.rows.slice(begin, end - begin))


def _sorted(recording: int, rows: pa.RecordBatch, before_ns: int) -> _Sorted:
    """`before_ns`: the time of the first rows, if they have none."""
    column = rows.column(_TIME)
    if column.null_count:
        column = pc.fill_null(pc.fill_null_forward(column), before_ns)
    times = column.to_numpy()
    if (times[1:] >= times[:-1]).all():
        return _Sorted(recording, times, rows)
    order = np.argsort(times, kind="stable")
    return _Sorted(recording, times[order], rows.take(order))


def _split(parts: list[_Sorted], until_ns: int | None) -> tuple[list[_Sorted], list[_Sorted]]:
    """The rows before a moment, and the rest. None: all."""
    if until_ns is None:
        return parts, []
    cuts = [int(np.searchsorted(part.times, until_ns, "left")) for part in parts]
    before = [part.part(0, at) for part, at in zip(parts, cuts, strict=True)]
    return before, [part.part(at, len(part.times)) for part, at in zip(parts, cuts, strict=True)]


def _merged(parts: Sequence[_Sorted]) -> Iterator[pa.RecordBatch]:
    """The rows of all parts in the order of their times."""
    found = sorted((part for part in parts if len(part.times)), key=lambda part: part.recording)
    times = np.concatenate([part.times for part in found]) if found else np.empty(0)
    if (times[1:] >= times[:-1]).all():
        yield from (part.rows for part in found)
        return
    table = pa.Table.from_batches([part.rows for part in found])
    yield from table.take(np.argsort(times, kind="stable")).combine_chunks().to_batches()


def _wanted(recording: Recording, streams: dict[int, Stream], query: Query) -> Iterator[tuple[Chunk, int]]:
    """Chunks that may have rows, each with the number of its first message."""
    first = 0
    for chunk in recording.chunks:
        if not streams.keys().isdisjoint(chunk.counts) and query.selection.overlaps(chunk):
            yield chunk, first
        first += chunk.message_count


def _streams(recording: Recording, topic: str | None, has_types: bool) -> dict[int, Stream]:
    return {
        number: stream_of(recording, channel, has_types)
        for number, channel in recording.channels.items()
        if topic in (None, channel.topic)
    }
