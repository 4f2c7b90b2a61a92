"""Which chunks a task reads: runs of them, from the indexes of the recordings alone, so large that no processor is
idle.

Conditions of a query on topics and on the time of logging are answered by the index.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from rtmw.errors import RecordingError
from rtmw.recording import Channel, Chunk, Recording
from rtmw.recording.contents import nanoseconds
from rtmw.recording.frames import scan
from rtmw.recording.frames.scan import Extent, Run, Stream, extent_of, sightings
from rtmw.recording.frames.scan import stream_of as table_stream
from rtmw.recording.places import place
from rtmw.recording.versions import LATEST, Version, chosen_version, dds_name, some, versions_of
from rtmw.spark.options import ReadOptions, local, recordings_of
from rtmw.text.patterns import is_among, is_meant, is_pattern

if TYPE_CHECKING:
    from rtmw.recording.frames.pruning import Pruning


TIMES: Final = {"log_time": 1000, "log_time_ns": 1}
"""Columns of the time of logging, and the nanoseconds of their unit."""

_TEXTS: Final[dict[type, Callable[[str, Any], bool]]] = {
    EqualTo: lambda topic, value: topic == value,
    EqualNullSafe: lambda topic, value: topic == value,
    In: lambda topic, value: topic in value,
    StringStartsWith: lambda topic, value: topic.startswith(value),
    StringEndsWith: lambda topic, value: topic.endswith(value),
    StringContains: lambda topic, value: value in topic,
}


@dataclass(frozen=True)
class Selection(scan.TimeRange):
    """Rows that are wanted: start_ns <= log time < end_ns, and all conditions on topics hold."""

    topics: tuple[Filter, ...] = ()

    def wants(self, topic: str) -> bool:
        return all(_holds(condition, topic) for condition in self.topics)

    def narrowed(self, start_ns: int | None, end_ns: int | None) -> Selection:
        starts = [bound for bound in (self.start_ns, start_ns) if bound is not None]
        ends = [bound for bound in (self.end_ns, end_ns) if bound is not None]
        return replace(self, start_ns=max(starts, default=None), end_ns=min(ends, default=None))


def pushed(filters: Iterable[Filter], selection: Selection, always: frozenset[str]) -> tuple[Selection, list[Filter]]:
    """A selection with what else the index answers, exactly, and the conditions that are left for Spark.

    `always`: columns without nulls.
    """
    left: list[Filter] = []
    for condition in filters:
        narrower = _narrowed(selection, condition, always)
        if narrower is None:
            left.append(condition)
        else:
            selection = narrower
    return selection, left


def _narrowed(selection: Selection, condition: Filter, always: frozenset[str]) -> Selection | None:
    """None: the index cannot answer it."""
    column = column_of(condition)
    if isinstance(condition, IsNotNull) and column in always:
        return selection
    if isinstance(condition, IsNotNull) and column in TIMES:
        return selection.narrowed(0, None)  # a message without a time lies in no time at all
    if column == "topic" and _is_about_text(condition):
        return replace(selection, topics=(*selection.topics, condition))
    if column in TIMES:
        bounds = _bounds(condition, TIMES[column])
        return None if bounds is None else selection.narrowed(*bounds)
    return None


def column_of(condition: Filter) -> str | None:
    """The name of the column that a condition is about; None for a member of a struct."""
    while isinstance(condition, Not):
        condition = condition.child
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return path[0].lower() if len(path) == 1 else None


def _is_about_text(condition: Filter) -> bool:
    if isinstance(condition, Not):
        return _is_about_text(condition.child)
    value = getattr(condition, "value", None)
    values: tuple[Any, ...] = tuple(value) if isinstance(condition, In) and value is not None else (value,)
    return type(condition) in _TEXTS and all(isinstance(part, str) for part in values)


def _holds(condition: Filter, topic: str) -> bool:
    if isinstance(condition, Not):
        return not _holds(condition.child, topic)
    return _TEXTS[type(condition)](topic, getattr(condition, "value", None))


def _bounds(condition: Filter, unit: int) -> tuple[int | None, int | None] | None:
    """start_ns <= log time < end_ns, so that the column's value, which is cut to its unit, meets the condition."""
    count = _count(getattr(condition, "value", None))
    if count is None:
        return None
    here, behind = count * unit, (count + 1) * unit
    match condition:
        case EqualTo() | EqualNullSafe():
            return here, behind
        case GreaterThan():
            return behind, None
        case GreaterThanOrEqual():
            return here, None
        case LessThan():
            return None, here
        case LessThanOrEqual():
            return None, behind
        case _:
            return None


def _count(value: Any) -> int | None:
    """A time in the unit of its column: microseconds for a datetime."""
    if isinstance(value, datetime):
        return nanoseconds(value) // 1000
    return value if type(value) is int else None


@dataclass(frozen=True)
class Surveyed:
    """A recording: its chunks, and the channels that are wanted."""

    path: Path
    chunks: tuple[Chunk, ...]
    streams: dict[int, Stream]


def survey(options: ReadOptions) -> list[Surveyed]:
    """The recordings of a read. Raises RecordingError, and ValueError when no topic is as it was asked for."""
    found = [*_found(recordings_of(options.paths), options)]
    check_found(found, options)
    surveyed = [surveyed for surveyed, _ in found]
    return surveyed if options.type_version is None else of_version(surveyed, options)


def _found(paths: list[Path], options: ReadOptions) -> Iterator[tuple[Surveyed, set[str]]]:
    """A file in a folder, or of a pattern, that is no recording, or whose beginning or index is damaged, is left out,
    unless incomplete ones are refused."""
    named = {place(local(path)).absolute() for path in options.paths}
    for path in paths:
        try:
            yield look_into(path, options)
        except (RecordingError, FileNotFoundError) as error:
            if path in named or options.incomplete == "fail" or len(paths) == 1:
                raise
            if options.incomplete == "warn":
                warnings.warn(f"{error}; it is left out", stacklevel=2)


def look_into(path: Path, options: ReadOptions) -> tuple[Surveyed, set[str]]:
    """A recording, and all topics in it."""
    with Recording(path) as recording:
        check_complete(recording, options.incomplete)
        found = {number: stream_of(recording, channel, options) for number, channel in recording.channels.items()}
        wanted = {number: stream for number, stream in found.items() if stream is not None}
        return Surveyed(path, recording.chunks, wanted), {*recording.topics()}


def check_complete(recording: Recording, how: str) -> None:
    if how == "read" or recording.complete:
        return
    message = f"{recording.path} is not complete: {recording.incomplete_because}"
    if how == "fail":
        raise RecordingError(f'{message}; .option("incomplete", "read") reads what is whole')
    warnings.warn(f"{message}; what is whole is read", stacklevel=2)


def stream_of(recording: Recording, channel: Channel, options: ReadOptions) -> Stream | None:
    """None: not wanted. What the type consists of is only looked up where members may become columns."""
    if not is_wanted(channel.topic, recording.type_name(channel), options):
        return None
    return table_stream(recording, channel, has_columns(options) or options.type_version is not None)


def is_wanted(topic: str, type_name: str, options: ReadOptions) -> bool:
    if options.type is not None and dds_name(type_name) != dds_name(options.type):
        return False
    return not options.topics or is_among(topic, options.topics)


def check_found(found: list[tuple[Surveyed, set[str]]], options: ReadOptions) -> None:
    """Each topic and type that was asked for has to be somewhere. Raises ValueError."""
    topics = sorted({topic for _, there in found for topic in there})
    wanted = {stream.topic for surveyed, _ in found for stream in surveyed.streams.values()}
    for pattern in options.topics:
        if not any(is_meant(topic, pattern) for topic in wanted):
            what = f"topic {pattern!r}" + (f" with messages of {options.type}" if options.type else "")
            raise ValueError(f"no {what} in {len(found)} recording(s); there are {some(topics)}")
    if options.type is not None and not wanted:
        raise ValueError(f"no messages of type {options.type!r} in {len(found)} recording(s)")


# ---- of which type the columns are ----


def versions_in(surveyed: Iterable[Surveyed]) -> list[Version]:
    """The versions of all types whose messages are wanted."""
    return versions_of(sighting for one in surveyed for sighting in sightings(one.chunks, one.streams))


def of_version(surveyed: list[Surveyed], options: ReadOptions) -> list[Surveyed]:
    """The recordings with only the streams of the version that is asked for. Raises ValueError where there is none."""
    chosen = chosen_version(versions_in(surveyed), options.type_version or LATEST)
    return [_only(one, chosen) for one in surveyed]


def _only(one: Surveyed, version: Version) -> Surveyed:
    found = {n: s for n, s in one.streams.items() if version.has(s.type_name, s.description, s.problem)}
    return replace(one, streams=found)


def merged_of(surveyed: Iterable[Surveyed], options: ReadOptions) -> tuple[bytes, ...]:
    """The type whose members become columns: descriptions of its versions, the oldest first; none: payloads.

    Raises ValueError where one topic, or a type, is asked for by name, and has several types, or one that cannot be
    read; several topics, or a pattern, get columns if their messages are of one type.
    """
    versions = versions_in(surveyed) if has_columns(options) else []
    names = {dds_name(version.type_name) for version in versions}
    problems = [version.problem for version in versions if version.problem]
    if is_named(options) and len(names) > 1:
        raise ValueError(
            f"messages of {len(names)} types are meant, and columns can be those of one; there are {some(versions)}. "
            'Choose with .option("type", …), or take payloads with .option("typed", "false")'
        )
    if is_named(options) and problems:
        raise ValueError(f"{problems[0]}; {remedy(versions)}")
    if len(names) != 1 or problems:
        return ()
    return tuple(version.description for version in versions if version.description is not None)


def remedy(versions: Sequence[Version]) -> str:
    """The remedy where the versions of a type have no columns in common."""
    if len(versions) == 1:
        return f'.option("typed", "false") gives payloads of {versions[0].type_name}'
    numbers = ", ".join(str(version.number) for version in versions if not version.problem)
    choice = f'choose one with .option("type_version", …), of {numbers}, or ' if numbers else ""
    return f'there are {some(versions)}; {choice}take payloads with .option("typed", "false")'


def has_columns(options: ReadOptions) -> bool:
    """May members become columns? Otherwise types are not looked up."""
    return options.typed and bool(options.topics or options.type)


def is_named(options: ReadOptions) -> bool:
    return options.type is not None or (len(options.topics) == 1 and not is_pattern(options.topics[0]))


SMALLEST, USUAL = 16 << 20, 256 << 20
"""Bytes of a partition that is not said how large to be: about USUAL, and less where a processor has less to read. Each
task costs Spark's JVM and worker as much processor time as a twentieth of USUAL (bench/results/README.md)."""
OPENING = 512 << 10
"""Bytes that a task reads in the time that it takes to open another file."""

_T = TypeVar("_T")

Chosen = list[list[tuple[Chunk, int]]]
"""Chunks of each recording, each with the number of its first message in the file."""


class Partition(InputPartition):
    """The chunks that one task reads. `skipped` is in the first partition only: the extent that no task has to read."""

    def __init__(self, runs: tuple[Run, ...], skipped: Extent | None = None) -> None:
        super().__init__(None)
        self.runs = runs
        self.skipped = skipped or Extent()

    @property
    def extent(self) -> Extent:
        return extent_of(chunk for run in self.runs for chunk, _ in run.chunks)


def partitions_of(
    surveyed: list[Surveyed], selection: Selection, target: int | None, found: Chosen | None = None
) -> list[Partition]:
    """Returns at least one partition. `target`: bytes of messages in each. `found`: what `chunks_of` gave; None: it
    is called without a condition."""
    chosen = [*zip(surveyed, chunks_of(surveyed, selection) if found is None else found, strict=True)]
    sizes = (size for _, found in chosen for size in (OPENING * bool(found), *(c.uncompressed_size for c, _ in found)))
    size = target or sensible(sizes)
    runs = [run for one, found in chosen for run in runs_of(one, found, selection, size)]
    skipped = extent_of(chunk for one, found in chosen for chunk in _others(one, found))
    first, *others = [*packed(runs, size_of, size)] or [()]
    return [Partition(first, skipped), *map(Partition, others)]


def chunks_of(surveyed: list[Surveyed], selection: Selection, pruning: Pruning | None = None) -> Chosen:
    """The chunks of each recording that may have rows. `pruning`: a condition that all rows meet."""
    return [pruned(one, [*wanted_chunks(one, selection)], pruning) for one in surveyed]


def packed(parts: Iterable[_T], size_of: Callable[[_T], int], target: int) -> Iterator[tuple[_T, ...]]:
    """Parts in their order, together until they have about `target` bytes: many small ones are few tasks."""
    group, size = list[_T](), 0
    for part in parts:
        more = size_of(part)
        if group and size + more > target:
            yield tuple(group)
            group, size = [], 0
        group.append(part)
        size += more
    if group:
        yield tuple(group)


def size_of(run: Run) -> int:
    """The cost of reading a run, in bytes."""
    return OPENING + sum(chunk.uncompressed_size for chunk, _ in run.chunks)


def sensible(parts: Iterable[int]) -> int:
    """Bytes of a partition, so that each processor gets as many: none is idle while others read the last ones.

    `parts`: bytes of each part that is not divided. A partition may have nearly one more than its share.
    """
    sizes, processors = [*parts], os.cpu_count() or 1
    share, largest = sum(sizes) // processors, max(sizes, default=0)
    if share < SMALLEST:
        return SMALLEST
    waves = max((share + USUAL // 2) // USUAL, 1)
    return share // waves + largest


def wanted_streams(one: Surveyed, selection: Selection) -> dict[int, Stream]:
    return {number: stream for number, stream in one.streams.items() if selection.wants(stream.topic)}


def wanted_chunks(one: Surveyed, selection: Selection) -> Iterator[tuple[Chunk, int]]:
    """Chunks that may have rows, each with the number of its first message in the file."""
    streams, first = wanted_streams(one, selection), 0
    for chunk in one.chunks:
        if not streams.keys().isdisjoint(chunk.counts) and selection.overlaps(chunk):
            yield chunk, first
        first += chunk.message_count


def pruned(one: Surveyed, found: list[tuple[Chunk, int]], pruning: Pruning | None) -> list[tuple[Chunk, int]]:
    """Chunks that may have rows for which the condition is true."""
    if pruning is None or not found:
        return found
    with Recording(one.path) as recording:
        return [*pruning.kept(recording, found, one.streams)]


def _others(one: Surveyed, found: list[tuple[Chunk, int]]) -> Iterator[Chunk]:
    read = {chunk.number for chunk, _ in found}
    return (chunk for chunk in one.chunks if chunk.number not in read)


def runs_of(one: Surveyed, found: list[tuple[Chunk, int]], selection: Selection, target: int) -> Iterator[Run]:
    """Chunks, each with the number of its first message, in runs of about `target` bytes."""
    streams = wanted_streams(one, selection)
    for run in packed(found, lambda chosen: chosen[0].uncompressed_size, target):
        yield _run(one.path, run, streams)


def _run(path: Path, chunks: tuple[tuple[Chunk, int], ...], streams: dict[int, Stream]) -> Run:
    there = {number for chunk, _ in chunks for number in chunk.counts}
    return Run(path, chunks, {number: stream for number, stream in streams.items() if number in there})
