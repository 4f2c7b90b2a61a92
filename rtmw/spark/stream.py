"""`spark.readStream.format("rtmw")`: follows recordings while they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from rtmw.spark.follow import Budget, Follower, Position, from_json, to_json
from rtmw.spark.options import ReadOptions, read_options
from rtmw.spark.partitions import Partition, packed, runs_of, sensible, size_of
from rtmw.spark.source import scan_of
from rtmw.spark.survey import Surveyed, stream_of, survey

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

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
