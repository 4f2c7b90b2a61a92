"""Durable logs in Spark: `rtmw.spark.read("orders/")`, and `format("rtmw")`.

A query reads those records that the sparse indexes of the segments do not leave out, before a record is looked at. A
stream gives each record once, in batches of positions.

A segment that is sealed has an index, which says of each stretch of 64 KiB or more its latest time; of a segment as a
whole the earliest time is known, too. Conditions on positions and times leave out segments, and then stretches of those
that are left. A segment without an index is read, in pieces: the last one never has an index, and may be all that there
is.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from rtmw.durable_log.batches import metadata
from rtmw.errors import LogError
from rtmw.log import Folder, bases, look_into, segment, stretches
from rtmw.recording.contents import UNSET_NS, nanoseconds
from rtmw.recording.frames.layout import Layout, layout_of
from rtmw.recording.frames.pruning import all_of, between, places_for
from rtmw.recording.frames.scan import Extent, Planned
from rtmw.spark.log_scan import LogPartition, LogScan, open_log
from rtmw.spark.options import ReadOptions, local
from rtmw.spark.partitions import SMALLEST, column_of, packed, sensible
from rtmw.spark.rowset import Rowset
from rtmw.spark.source import (
    OneQuery,
    Scanned,
    arrow_schema,
    check_conditions,
    columns_for,
    hears_conditions,
    name_of,
    say_unpruned,
    spark_schema,
    unsigned_of,
)
from rtmw.spark.stream import Following, budget_of
from rtmw.types.message_type import read_document

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_FEW: Final = 8
"""Segments whose stretches are looked at one by one; of more, the share that stretches spare is small."""
_SCHEMA: Final = pa.schema([metadata()[name] for name in ("position", "time", "time_ns")])
_UNITS: Final = {"time": 1000, "time_ns": 1}


class Stretch(NamedTuple):
    """Records from a position on, below another. Times are unknown where there is no index: then None."""

    start: int
    end: int
    earliest_ns: int | None = None
    latest_ns: int | None = None
    share: float = 1.0
    """The share of its bytes that compaction has left."""

    @property
    def size(self) -> int:
        """Bytes of its records, as they lie in the file."""
        return round((self.end - self.start) * self.share)

    def guarantee(self) -> Any:
        """An expression that is true of all of its records."""
        known = [self._between("position", self.start, self.end - 1)]
        if self.earliest_ns is not None and self.latest_ns is not None and self.latest_ns < UNSET_NS:
            for name, unit in _UNITS.items():
                known.append(self._between(name, self.earliest_ns // unit, self.latest_ns // unit))
        return all_of(known)

    def _between(self, name: str, least: int, most: int) -> Any:
        kind = metadata()[name].type
        return between(name, pa.scalar(least, kind), pa.scalar(most, kind))


def segments_of(folder: Folder, start: int, end: int) -> Iterator[list[Stretch]]:
    """The stretches of each segment from `start`, at which a record begins, up to `end`."""
    begins = bases(folder)
    for base, behind in pairwise([*begins, max(end, begins[-1] + 1 if begins else end)]):
        if behind > start and base < end:
            yield [*_stretches(folder, base, behind, (max(base, start), min(behind, end)))]


def _stretches(folder: Folder, base: int, behind: int, bounds: tuple[int, int]) -> Iterator[Stretch]:
    """Yields the stretches of a segment that lie within bounds, cut at them."""
    removed = segment(folder.path, folder.descriptor, folder.uuid, base)[-1]
    found = stretches(folder.path, folder.descriptor, folder.uuid, base)
    share = 1 - removed / (behind - base)
    if found is not None and found[0] == behind:  # the last one grows
        yield from _clipped(_indexed(found, share), bounds)
    elif removed:
        yield Stretch(*bounds, share=share)
    else:
        yield from _pieces(folder, base, bounds)


def _indexed(index: tuple[int, int, int, bytes], share: float) -> Iterator[Stretch]:
    behind, _, earliest_ns, latest = index
    numbers = np.frombuffer(latest, np.uint64).reshape(-1, 2).tolist()
    ends = [position for position, _ in numbers[1:]] + [behind]
    for (position, latest_ns), end in zip(numbers, ends, strict=True):
        yield Stretch(position, end, earliest_ns, latest_ns, share)


def _pieces(folder: Folder, base: int, bounds: tuple[int, int]) -> Iterator[Stretch]:
    """Each begins with the first record behind so many bytes, which is found without those before it."""
    start, end = bounds
    begins = [start]
    with closing(folder.reader(base)) as reader:
        for place in range(start + SMALLEST, end, SMALLEST):
            record = reader.scan(base, place)
            if record is not None and begins[-1] < record[0] < end:
                begins.append(record[0])
    yield from (Stretch(*both) for both in pairwise([*begins, end]))


def _clipped(found: Iterable[Stretch], bounds: tuple[int, int]) -> Iterator[Stretch]:
    start, end = bounds
    for one in found:
        if one.end > start and one.start < end:
            is_whole = start <= one.start and one.end <= end
            yield one if is_whole else one._replace(start=max(one.start, start), end=min(one.end, end))


def _as_one(found: Sequence[Stretch]) -> Stretch:
    latest = None if found[0].latest_ns is None else max(one.latest_ns or 0 for one in found)
    return found[0]._replace(end=found[-1].end, latest_ns=latest)


def needed(segments: Sequence[Sequence[Stretch]], condition: Any) -> list[Stretch]:
    """Stretches that may have records for which a condition is true: an expression on metadata(), or None."""
    if condition is not None:
        places = places_for([_as_one(one).guarantee() for one in segments], _SCHEMA, condition)
        segments = [one for at, one in enumerate(segments) if places is None or at in places]
    listed = [stretch for one in segments for stretch in one]
    if condition is None or len(segments) > _FEW:
        return listed
    places = places_for([one.guarantee() for one in listed], _SCHEMA, condition)
    return [one for at, one in enumerate(listed) if places is None or at in places]


def log_partitions(
    folder: Folder, start: int, end: int, target: int | None, condition: Any = None
) -> list[LogPartition]:
    """Runs of stretches of about `target` bytes, at least one. `start` is a position at which a record begins."""
    segments = [*segments_of(folder, start, end)]
    found = needed(segments, condition)
    everything, wanted = _extent(chain.from_iterable(segments)), _extent(found)
    skipped = Extent(everything.chunks - wanted.chunks, 0, everything.bytes - wanted.bytes)
    groups = [*packed(found, lambda stretch: stretch.size, target or sensible(one.size for one in found))] or [()]
    return [
        LogPartition(folder.path, _runs(group), _extent(group), Extent() if number else skipped)
        for number, group in enumerate(groups)
    ]


def _extent(found: Iterable[Stretch]) -> Extent:
    sizes = [one.size for one in found]
    return Extent(len(sizes), 0, sum(sizes))


def _runs(group: Iterable[Stretch]) -> tuple[tuple[int, int], ...]:
    """Stretches that follow each other are one run."""
    runs = list[tuple[int, int]]()
    for one in group:
        if runs and runs[-1][1] == one.start:
            runs[-1] = (runs[-1][0], one.end)
        else:
            runs.append((one.start, one.end))
    return tuple(runs)


_OF_RECORDINGS: Final = ("topics", "type", "type_version", "carried")
"""Options that choose among the messages of recordings: a log has one type, and no topics."""


def log_of(options: ReadOptions) -> str | None:
    """The path of the log that is meant; None: recordings are. Raises ValueError: a log together with others."""
    paths = [local(path) for path in options.paths]
    logs = [path for path in paths if os.path.isfile(os.path.join(path, "log"))]
    if not logs:
        return None
    if len(paths) > 1:
        raise ValueError(f"{logs[0]} is a log, and is read alone; unite DataFrames to read several")
    plain = ReadOptions(options.paths)
    for name in _OF_RECORDINGS:
        if getattr(options, name) != getattr(plain, name):
            raise ValueError(f"{logs[0]} is a log, which has one type and no topics: leave out the option {name!r}")
    return os.path.abspath(logs[0])


def log_layout(folder: Folder, options: ReadOptions) -> tuple[Layout, tuple[bytes, ...]]:
    """All columns that there are, and the description whose members they are. Raises UnsupportedType."""
    has_members = options.typed and read_document(folder.description)["kind"] != "bytes"
    descriptions = (folder.description,) if has_members else ()
    return layout_of(descriptions, unsigned_of(options), options.mode != "FAILFAST", metadata()), descriptions


def log_schema(path: str, options: ReadOptions) -> StructType:
    """The columns of a read. Raises UnsupportedType, ValueError."""
    with look_into(Path(path)) as folder:
        return spark_schema(log_layout(folder, options)[0].chosen(options.columns))


def log_scan(folder: Folder, options: ReadOptions, schema: StructType) -> LogScan:
    """How records become rows of a schema."""
    layout, descriptions = log_layout(folder, options)
    columns = columns_for(layout, schema)
    unsigned, arrow = unsigned_of(options), arrow_schema(schema)
    return LogScan(columns, arrow, descriptions, unsigned, options.mode, options.start_ns, options.end_ns)


# ---- conditions ----


_SIGNS: Final[dict[type[Filter], Callable[[Any, Any], Any]]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


def condition_of(filters: Iterable[Filter]) -> Any:
    """The conditions on positions and times, as an expression of pyarrow.compute; None: there are none."""
    return all_of(known for one in filters if (known := _compared(one)) is not None)


def _compared(condition: Filter) -> Any:
    name, value = column_of(condition), getattr(condition, "value", None)
    sign = _SIGNS.get(type(condition))
    if sign is None or name not in ("position", "time", "time_ns"):
        return None
    if type(value) is not (datetime if name == "time" else int):
        return None
    number = nanoseconds(value) // 1000 if isinstance(value, datetime) else value
    return sign(pc.field(name), pa.scalar(number, pa.int64()).cast(metadata()[name].type))


def _asked(options: ReadOptions) -> Any:
    """The options `start` and `end` as an expression; None: neither is given."""
    time_ns = pc.field("time_ns")
    bounds = (
        None if options.start_ns is None else time_ns >= options.start_ns,
        None if options.end_ns is None else time_ns < options.end_ns,
    )
    return all_of(bound for bound in bounds if bound is not None)


# ---- reading ----


class LogReader(DataSourceReader):
    """Made where the query is planned. What is durable then is read."""

    def __init__(self, path: str, options: ReadOptions, schema: StructType) -> None:
        self._path, self._target = path, options.partition_bytes
        self._condition = _asked(options)
        with open_log(path) as folder:
            self._scan = log_scan(folder, options, schema)
            self._earliest, self._end = folder.bounds()

    def __getstate__(self) -> dict[str, Any]:
        """A task reads what it is given."""
        return {**vars(self), "_condition": None}

    def partitions(self) -> Sequence[InputPartition]:
        return self._partitions(self._condition)

    def _partitions(self, condition: Any) -> list[LogPartition]:
        with look_into(Path(self._path)) as folder:
            return log_partitions(folder, self._earliest, self._end, self._target, condition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return self._scan.read(partition)


class UnprunedLogReader(LogReader):
    """Reads all stretches, whatever the conditions of the query are, and says so."""

    def __init__(self, path: str, options: ReadOptions, schema: StructType, load: str) -> None:
        super().__init__(path, options, schema)
        self._load = load

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        condition = all_of(one for one in (self._condition, condition_of(filters)) if one is not None)
        needed, every = (Scanned.of(self._partitions(one)).read for one in (condition, self._condition))
        say_unpruned(self._load, Planned.of(needed, every))
        return filters


class PushdownLogReader(LogReader):
    """Conditions on position, time and time_ns choose the stretches that are read.

    PushdownReader says why that has to be asked for. Spark looks at all conditions again.
    """

    def __init__(self, path: str, options: ReadOptions, schema: StructType, load: str) -> None:
        super().__init__(path, options, schema)
        self._load = load
        self._query: OneQuery | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        check_conditions(self._load, sorted(map(repr, filters)))
        pushed = condition_of(filters)
        if pushed is not None:
            self._query = OneQuery()
            self._condition = all_of(one for one in (self._condition, pushed) if one is not None)
        return filters

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._query is not None:
            self._query.check()
        return super().read(partition)


def log_reader(path: str, options: ReadOptions, schema: StructType, load: str) -> LogReader:
    """`load`: names the call of `load`, which may be planned several times."""
    if options.pushdown:
        return PushdownLogReader(path, options, schema, load)
    return UnprunedLogReader(path, options, schema, load) if hears_conditions() else LogReader(path, options, schema)


def log_frame(spark: SparkSession, path: str, options: ReadOptions) -> DataFrame:
    """A row for each record that is durable now, for `rtmw.spark.read`."""
    with open_log(path) as folder:
        reading = LogReading(spark, path, options, log_layout(folder, options), folder.bounds())
    frame = reading.frame()
    return Rowset.of(frame, reading) if isinstance(frame, ClassicFrame) else frame


@dataclass(frozen=True)
class LogReading:
    """The input of a DataFrame."""

    spark: SparkSession
    path: str
    options: ReadOptions
    known: tuple[Layout, tuple[bytes, ...]]
    """The columns that there are, and the description whose members they are."""
    bounds: tuple[int, int]
    """The first position, and the one behind the last record that was durable."""
    condition: Any = None
    """An expression of pyarrow.compute, which is true of all rows that are looked at."""

    @property
    def fields(self) -> dict[str, pa.Field]:
        """Fields of the columns that the indexes know something about: Spark evaluates conditions on others."""
        return {name: metadata()[name] for name in ("position", "time", "time_ns")}

    def narrowed(self, names: tuple[str, ...], condition: Any) -> tuple[LogReading, DataFrame]:
        """Only these columns; no columns at all would be the usual ones, so one stays."""
        known = all_of(one for one in (self.condition, condition) if one is not None)
        options = replace(self.options, columns=names or ("position",))
        narrower = replace(self, options=options, condition=known)
        return narrower, narrower.frame()

    def frame(self) -> DataFrame:
        schema = spark_schema(self.known[0].chosen(self.options.columns))
        asked = all_of(one for one in (_asked(self.options), self.condition) if one is not None)
        with look_into(Path(self.path)) as folder:
            scan = log_scan(folder, self.options, schema)
            partitions = log_partitions(folder, *self.bounds, self.options.partition_bytes, asked)
        numbers = self.spark.range(0, len(partitions), 1, len(partitions))
        return numbers.mapInArrow(LogTasks(scan, partitions), schema)


class LogTasks:
    """The function that a task calls with its number."""

    def __init__(self, scan: LogScan, partitions: Sequence[LogPartition]) -> None:
        self._scan, self._partitions = scan, partitions
        self.__name__ = name_of(Scanned.of(partitions))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[int] = batch.column(0).to_pylist()
            for number in numbers:
                yield from self._scan.read(self._partitions[number])


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the position behind the last record of a batch. Positions never change: a restart goes on there."""

    def __init__(self, path: str, options: ReadOptions, following: Following, schema: StructType) -> None:
        if isinstance(following.limit, ReadMaxFiles):
            raise ValueError(
                f"{path} is a log: a batch of it is limited by max_rows or max_bytes, and not by max_files"
            )
        self._path, self._following, self._target = path, following, options.partition_bytes
        self._until: int | None = None
        with look_into(Path(path)) as folder:
            self._scan = log_scan(folder, options, schema)

    def __getstate__(self) -> dict[str, Any]:
        """A task reads what it is given."""
        return {"_scan": self._scan}

    def _bounds(self) -> tuple[int, int]:
        with open_log(self._path) as folder:
            return folder.bounds()

    def initialOffset(self) -> dict[str, Any]:
        earliest, end = self._bounds()
        return {"position": end if self._following.is_from_now else earliest}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        budget = budget_of(limit)
        with open_log(self._path) as folder:
            earliest, end = folder.bounds()
            end = end if self._until is None else min(end, self._until)
            first = max(earliest, int(start["position"]))
            if budget.rows is not None or budget.bytes is not None:
                end = _limited(folder, first, end, budget.rows, budget.bytes)
        return {"position": max(end, int(start["position"]))}

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._following.limit

    def reportLatestOffset(self) -> dict[str, Any]:
        return {"position": self._bounds()[1]}

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._bounds()[1]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, behind = int(start["position"]), int(end["position"])
        with look_into(Path(self._path)) as folder:
            earliest = folder.bounds()[0]
            if first < earliest and not self._following.is_tolerant:
                raise LogError(
                    f"{self._path}: records from {first} to {earliest} were trimmed before the stream had read them; "
                    "with fail_on_loss=false it goes on behind them"
                )
            return log_partitions(folder, max(first, earliest), max(behind, earliest), self._target)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return self._scan.read(partition)


def _limited(folder: Folder, start: int, end: int, rows: int | None, size: int | None) -> int:
    """The end of a batch of at least one record: of so many, or so many bytes."""
    reader, count = folder.reader(start), 0
    while (found := reader.next(end)) is not None:
        count += 1
        behind = found[1]
        if (rows is not None and count >= rows) or (size is not None and behind - start >= size):
            return behind
    return end
