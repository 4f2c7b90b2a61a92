"""A topic of recordings as a table, read chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rtmw.errors import UnsupportedType
from rtmw.recording.frames.expressions import all_of
from rtmw.recording.frames.extent import Planned, extent_of
from rtmw.recording.frames.layout import Layout, layout_of
from rtmw.recording.frames.pruning import Pruning
from rtmw.recording.frames.scan import ALL, MODES, Run, Scan, Stream, TimeRange
from rtmw.recording.frames.streams import ADVICE, common_type, sightings, stream_of
from rtmw.recording.versions import Version, chosen_version, some, versions_of

if TYPE_CHECKING:
    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording


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
        """Of these columns; of the usual ones, if none are named. Raises ValueError."""
        return pa.schema([column.field for column in self.layout.chosen(columns)])

    def read(self, query: Query) -> Iterator[pa.RecordBatch]:
        """The rows. Raises ValueError, RecordingDamaged, ValueMismatch for a damaged payload."""
        wanted, pruning = self.layout.chosen(query.columns), self._pruning(query)
        more = [column for column in pruning.columns if column not in wanted] if pruning else []
        needed = (*wanted, *more)
        schema = pa.schema([column.field for column in needed])
        scan = Scan(needed, schema, self._descriptions, mode=self._mode, selection=query.selection)
        names = [column.name for column in wanted]
        for recording, run in self._runs(query, pruning):
            for batch in scan.read_run(recording, run):
                rows = batch if query.condition is None else batch.filter(query.condition)
                yield rows.select(names) if more else rows

    def planned(self, query: Query) -> Planned:
        """How much would be read, by the indexes. Raises ValueError, RecordingDamaged for one of their ranges."""
        every = [chunk for recording, _ in self._found for chunk in recording.chunks]
        read = extent_of(chunk for _, run in self._runs(query, self._pruning(query)) for chunk, _ in run.chunks)
        return Planned.of(read, extent_of(every))

    def _pruning(self, query: Query) -> Pruning | None:
        condition = all_of(one for one in (query.condition, query.hint) if one is not None)
        return None if condition is None else Pruning(self.layout, self._descriptions, "keep", condition)

    def _runs(self, query: Query, pruning: Pruning | None) -> Iterator[tuple[Recording, Run]]:
        for recording, streams in self._found:
            chunks = tuple(_wanted(recording, streams, query))
            if pruning is not None:
                chunks = pruning.kept(recording, chunks, streams)
            if chunks:
                yield recording, Run(recording.path, chunks, streams)


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
