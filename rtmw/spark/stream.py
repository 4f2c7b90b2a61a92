"""`spark.readStream.format("rtmw")`: follows recordings while they grow, with a position behind each chunk that a
restart understands.

A recorder writes NAME_0.mcap, NAME_1.mcap and so on: one series, in which a file is final as soon as the next one is
there. A position in a series is (number of the file, number of the chunk), the next one to be read; behind a complete
file it is (number + 1, 0). Any other file is a series of itself. Several recorders may write to one folder.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rtmw.errors import RecordingError
from rtmw.recording import Chunk, Recording
from rtmw.recording.frames.scan import Run, Stream
from rtmw.spark.options import ReadOptions, read_options, recordings_of
from rtmw.spark.partitions import Partition, Surveyed, packed, runs_of, sensible, size_of, stream_of, survey
from rtmw.spark.source import scan_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


NUMBERED = re.compile(r"(.*)_(0|[1-9]\d{0,5})")
"""Names that a series consists of; a date is no number of a file."""
SHORTEST = 64
"""Bytes below which a recording has only been created."""

Series = dict[int, Path]


class Position(NamedTuple):
    """The next chunk to be read of a series."""

    file: int
    chunk: int


Positions = Mapping[str, Position]


@dataclass(frozen=True)
class Budget:
    """How much one batch may have; a chunk is never divided, and one is always taken."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None

    def allows(self, rows: int, bytes: int, files: int) -> bool:
        pairs = ((self.rows, rows), (self.bytes, bytes), (self.files, files))
        return all(limit is None or found <= limit for limit, found in pairs)


class Step(NamedTuple):
    """A chunk that can be read, and where its series stands behind it. Earlier ones come first."""

    start_ns: int
    series: str
    path: Path
    chunk: Chunk
    behind: Position


def to_json(positions: Positions) -> dict[str, Any]:
    """Returns positions in the form that Spark keeps in a checkpoint."""
    return {series: {"file": at.file, "chunk": at.chunk} for series, at in sorted(positions.items())}


def from_json(offset: Mapping[str, Any]) -> dict[str, Position]:
    return {series: Position(at["file"], at["chunk"]) for series, at in offset.items()}


def series_of(paths: list[Path]) -> dict[str, Series]:
    """Files by series and number."""
    found: dict[str, Series] = {}
    for path in paths:
        numbered = NUMBERED.fullmatch(path.stem)
        name, number = (numbered[1], int(numbered[2])) if numbered else (path.stem, 0)
        found.setdefault(str(path.with_name(name if not numbered else name + "_*")), {})[number] = path
    return found


class Follower:
    """Looks at the recordings of some paths again and again. For one thread."""

    def __init__(self, paths: tuple[str, ...], tolerant: bool = False) -> None:
        self._paths = paths
        self._tolerant = tolerant
        """Files that are gone unread are passed over."""
        self._open: dict[Path, Recording] = {}

    def look(self) -> dict[str, Series]:
        """The files that there are; none yet is no error."""
        try:
            return series_of(recordings_of(self._paths, growing=True))
        except FileNotFoundError:
            return {}

    def recording(self, path: Path, is_last: bool) -> Recording | None:
        """A recording as it is now; None: it has only just been created."""
        known = self._open.get(path)
        if known is not None:
            if not known.complete:
                known.refresh()
            return known
        try:
            self._open[path] = Recording(path)
        except RecordingError:
            if is_last and path.stat().st_size < SHORTEST:
                return None
            raise
        return self._open[path]

    def forget(self, but: set[Path]) -> None:
        """Close all files except these."""
        for path in [*self._open]:
            if path not in but:
                self._open.pop(path).close()

    def steps(self, name: str, files: Series, start: Position | None, end: Position | None) -> Iterator[Step]:
        """The chunks of a series from one position to before another, as far as they are there."""
        numbers = self._numbers(name, files, start, end)
        for number in numbers:
            first = start.chunk if start and number == start.file else 0
            is_last = number == max(files)
            recording = self.recording(files[number], is_last)
            if recording is None:
                return
            chunks = recording.chunks
            is_final = not is_last or recording.complete
            for at in range(first, len(chunks)):
                if end is not None and (number, at) >= end:
                    return
                is_over = is_final and at + 1 == len(chunks)
                behind = Position(number + 1, 0) if is_over else Position(number, at + 1)
                yield Step(chunks[at].start_ns, name, files[number], chunks[at], behind)

    def _numbers(self, name: str, files: Series, start: Position | None, end: Position | None) -> list[int]:
        """The files between two positions. RecordingError: one is gone."""
        numbers = sorted(n for n in files if (start is None or n >= start.file) and (end is None or (n, 0) < end))
        if start is None or self._tolerant:
            return numbers
        last = end.file - (end.chunk == 0) if end else max(files, default=-1)
        missing = sorted({*range(start.file, last + 1)} - {*numbers})
        if missing:
            raise RecordingError(
                f"{name.replace('*', str(missing[0]))}.mcap is gone before it was read to its end. "
                '.option("fail_on_loss", "false") goes on without what is lost'
            )
        return numbers

    def between(self, start: Positions, end: Positions) -> list[Step]:
        """The chunks of a batch. The same for ever, while the files are there."""
        files = self.look()
        moved = [(name, at) for name, at in end.items() if start.get(name) != at]
        return [step for name, at in moved for step in self.steps(name, files.get(name, {}), start.get(name), at)]

    def ends(self) -> dict[str, Position]:
        """Returns the position behind all that there is; it looks at the newest file of each series only."""
        found: dict[str, Position] = {}
        for name, files in self.look().items():
            newest = max(files)
            recording = self.recording(files[newest], True)
            is_over = recording is not None and recording.complete
            chunks = len(recording.chunks) if recording else 0
            found[name] = Position(newest + 1, 0) if is_over else Position(newest, chunks)
        return found

    def latest(self, start: Positions, budget: Budget, until: Positions | None = None) -> dict[str, Position]:
        """How far a batch may go that begins at `start`, oldest chunks first. `until`: not behind these positions."""
        files = self.look()
        lost = [name for name in start if name not in files and start[name].chunk]
        if lost and not self._tolerant:
            raise RecordingError(f"{lost[0]}.mcap is gone before it was read to its end")
        ends: dict[str, Position | None] = {**until} if until is not None else dict.fromkeys(files)
        flows = [self.steps(name, files[name], start.get(name), end) for name, end in ends.items() if name in files]
        reached, rows, size, seen = dict(start), 0, 0, set[Path]()
        for step in heapq.merge(*flows):
            rows, size = rows + step.chunk.message_count, size + step.chunk.uncompressed_size
            if seen and not budget.allows(rows, size, len(seen | {step.path})):
                break
            seen.add(step.path)
            reached[step.series] = step.behind
        self.forget({files[name][at.file] for name, at in reached.items() if at.file in files.get(name, {})})
        return reached


LIMITS: Final[dict[str, Callable[[int], ReadLimit]]] = {
    "max_rows": ReadMaxRows,
    "max_bytes": ReadMaxBytes,
    "max_files": ReadMaxFiles,
}
"""Options that bound a batch, in rows, in bytes of messages, or in files. A chunk stays whole."""
CHOICES: Final = {"starting": ("earliest", "latest"), "fail_on_loss": ("true", "false")}
"""`starting`: with all that there is, or with what comes. `fail_on_loss`: when a file is gone that was not read."""
STREAM_OPTIONS: Final = frozenset({*LIMITS, *CHOICES})


@dataclass(frozen=True)
class Following:
    """The options of a stream beyond those of a read."""

    limit: ReadLimit
    is_from_now: bool
    is_tolerant: bool


def following(options: Mapping[str, str]) -> Following:
    """Raises ValueError, which names the option and what is possible."""
    found = {name: options[name].lower() for name in sorted(STREAM_OPTIONS) if name in options}
    for name, known in CHOICES.items():
        if found.get(name, known[0]) not in known:
            raise ValueError(f"option {name}={found[name]!r} is not known: one of {', '.join(known)} was expected")
    limits = [name for name in found if name in LIMITS]
    if len(limits) > 1:
        raise ValueError(f"a batch has one limit; found {', '.join(limits)}")
    limit: ReadLimit = ReadAllAvailable()
    for name in limits:
        if not found[name].isdigit() or int(found[name]) == 0:
            raise ValueError(f"option {name}={found[name]!r} is not known: a number from 1 was expected")
        limit = LIMITS[name](int(found[name]))
    return Following(limit, found.get("starting") == "latest", found.get("fail_on_loss") == "false")


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """The read options of a stream, whose recordings are usually incomplete."""
    return replace(read_options(options, STREAM_OPTIONS | {"checkpointlocation"}), incomplete="read")


def budget_of(limit: ReadLimit) -> Budget:
    match limit:
        case ReadMaxRows():
            return Budget(rows=limit.max_rows)
        case ReadMaxBytes():
            return Budget(bytes=limit.max_bytes)
        case ReadMaxFiles():
            return Budget(files=limit.max_files)
        case _:
            return Budget()


class RecordingStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Each whole chunk once, in the order of its file. Offsets name files and chunks, so a restart goes on there."""

    def __init__(self, options: ReadOptions, following: Following, schema: StructType) -> None:
        self._options = options
        self._following = following
        self._scan = scan_of(options, survey(options), schema)
        self._follower = Follower(options.paths, following.is_tolerant)
        self._until: dict[str, Position] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A task reads what it is given, and follows nothing."""
        return {"_scan": self._scan}

    def initialOffset(self) -> dict[str, Any]:
        return to_json(self._follower.ends()) if self._following.is_from_now else {}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return to_json(self._follower.latest(from_json(start), budget_of(limit), self._until))

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._following.limit

    def reportLatestOffset(self) -> dict[str, Any]:
        return to_json(self._follower.ends())

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._follower.ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        steps = self._follower.between(from_json(start), from_json(end))
        target = self._options.partition_bytes or sensible(step.chunk.uncompressed_size for step in steps)
        found: list[Run] = []
        for path, of_file in groupby(steps, lambda step: step.path):
            chunks = [step.chunk for step in of_file]
            recording = self._follower.recording(path, False)
            assert recording is not None
            surveyed = Surveyed(path, recording.chunks, self._streams(recording, chunks))
            firsts = [0, *accumulate(chunk.message_count for chunk in recording.chunks)]
            wanted = [(each, firsts[each.number]) for each in chunks if each.counts.keys() & surveyed.streams.keys()]
            found += runs_of(surveyed, wanted, self._scan.selection, target)
        return [Partition(runs) for runs in packed(found, size_of, target)]

    def _streams(self, recording: Recording, chunks: list[Chunk]) -> dict[int, Stream]:
        """The wanted streams in some chunks of a recording, by channel."""
        there = {number for chunk in chunks for number in chunk.counts}
        found = {n: stream_of(recording, recording.channels[n], self._options) for n in sorted(there)}
        wanted = {number: stream for number, stream in found.items() if stream is not None}
        if self._options.type_version is not None:
            known = self._scan.descriptions
            return {number: stream for number, stream in wanted.items() if stream.description in known}
        self._check_types(recording.path, wanted)
        return wanted

    def _check_types(self, path: Path, streams: Mapping[int, Stream]) -> None:
        """RecordingError: columns are those of one type, and a message that came later is of another."""
        for stream in streams.values():
            if self._scan.descriptions and stream.description not in self._scan.descriptions:
                raise RecordingError(
                    f"{path}: messages of topic {stream.topic!r} are now of another type, {stream.type_name!r}; a new "
                    "query has the new columns, or takes payloads with .option('typed', 'false')"
                )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Partition)
        return self._scan.read(partition)

    def stop(self) -> None:
        self._follower.forget(set())
