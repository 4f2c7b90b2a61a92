"""Durable logs in Spark: `rtmw.spark.read("orders/")`, and `format("rtmw")`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from rtmw.log import Folder
from rtmw.recording.frames.layout import Layout, layout_of
from rtmw.spark.asked import OneQuery, check_conditions
from rtmw.spark.files import local
from rtmw.spark.filters import column_of
from rtmw.spark.log_scan import METADATA, LogPartition, LogScan, open_log
from rtmw.spark.options import ReadOptions
from rtmw.spark.partitions import sensible
from rtmw.spark.schema import arrow_schema, columns_for, spark_schema, unsigned_of
from rtmw.types.message_type import read_document

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
    return layout_of(descriptions, unsigned_of(options), options.mode != "FAILFAST", METADATA), descriptions


def log_schema(path: str, options: ReadOptions) -> StructType:
    """The columns of a read. Raises UnsupportedType, ValueError."""
    with open_log(path) as folder:
        return spark_schema(log_layout(folder, options)[0].chosen(options.columns))


def log_scan(folder: Folder, options: ReadOptions, schema: StructType) -> LogScan:
    """How records become rows of a schema."""
    layout, descriptions = log_layout(folder, options)
    columns = columns_for(layout, schema)
    unsigned, arrow = unsigned_of(options), arrow_schema(schema)
    return LogScan(columns, arrow, descriptions, unsigned, options.mode, options.start_ns, options.end_ns)


def bases_of(folder: Folder) -> list[int]:
    """Positions at which segments begin: there a task may begin to read."""
    return sorted(int(name.removesuffix(".seg")) for name in os.listdir(folder.descriptor) if name.endswith(".seg"))


def log_partitions(folder: Folder, start: int, end: int, target: int | None) -> list[LogPartition]:
    """Runs of whole segments of about `target` bytes, at least one. `start` is a position at which a record begins."""
    size = target or sensible(max(0, end - start))
    cuts, last = [start], start
    for base in bases_of(folder):
        if start < base < end and base - last >= size:
            cuts.append(base)
            last = base
    return [LogPartition(folder.path, low, high) for low, high in zip(cuts, [*cuts[1:], end], strict=True)]


# ---- conditions ----


@dataclass(frozen=True)
class Bounds:
    """Positions and times that may have wanted rows: from the first on, below the second."""

    first: int | None = None
    behind: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None

    def narrowed(self, low: tuple[str, int | None], high: tuple[str, int | None]) -> Bounds:
        """With one more lower and upper bound, each with the name of its field."""
        (first, least), (behind, most) = low, high
        lows = [bound for bound in (getattr(self, first), least) if bound is not None]
        highs = [bound for bound in (getattr(self, behind), most) if bound is not None]
        return replace(self, **{first: max(lows, default=None), behind: min(highs, default=None)})


def bounds_of(filters: Iterable[Filter], found: Bounds) -> Bounds:
    """Narrowed by what conditions on position and time_ns say."""
    for condition in filters:
        value: Any = getattr(condition, "value", None)
        if type(value) is not int or column_of(condition) not in ("position", "time_ns"):
            continue
        first, behind = ("first", "behind") if column_of(condition) == "position" else ("start_ns", "end_ns")
        match condition:
            case EqualTo():
                found = found.narrowed((first, value), (behind, value + 1))
            case GreaterThan() | GreaterThanOrEqual():
                found = found.narrowed((first, value), (behind, None))
            case LessThan() | LessThanOrEqual():
                found = found.narrowed((first, None), (behind, value + 1))
            case _:
                pass
    return found


# ---- reading ----


class LogReader(DataSourceReader):
    """Made where the query is planned. What is durable then is read."""

    def __init__(self, path: str, options: ReadOptions, schema: StructType) -> None:
        self._path, self._target = path, options.partition_bytes
        self._bounds = Bounds()
        with open_log(path) as folder:
            self._scan = log_scan(folder, options, schema)
            self._earliest, self._end = folder.bounds()

    @property
    def scan(self) -> LogScan:
        """What tasks do."""
        return self._scan

    def partitions(self) -> Sequence[InputPartition]:
        with open_log(self._path) as folder:
            first, behind = self._earliest, self._end
            bases = bases_of(folder)
            if self._bounds.first is not None:  # the segment with that position: a record begins there
                first = max([first, *(base for base in bases if base <= min(self._bounds.first, behind))])
            if self._bounds.behind is not None:
                behind = min([behind, *(base for base in bases if base >= max(self._bounds.behind, first))])
            return log_partitions(folder, first, behind, self._target)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return self._scan.read(partition)


class PushdownLogReader(LogReader):
    """Conditions on position and time_ns choose segments and the place at which to begin.

    PushdownReader says why that has to be asked for. Spark looks at all conditions again.
    """

    def __init__(self, path: str, options: ReadOptions, schema: StructType, load: str) -> None:
        super().__init__(path, options, schema)
        self._load = load
        self._query: OneQuery | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        check_conditions(self._load, sorted(map(repr, filters)))
        self._bounds = bounds_of(filters, Bounds(start_ns=self._scan.start_ns, end_ns=self._scan.end_ns))
        self._query = OneQuery() if self._bounds != Bounds() else None
        self._scan = replace(self._scan, start_ns=self._bounds.start_ns, end_ns=self._bounds.end_ns)
        return filters

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._query is not None:
            self._query.check()
        return super().read(partition)


def log_reader(path: str, options: ReadOptions, schema: StructType, load: str) -> LogReader:
    """`load`: names the call of `load`, which may be planned several times."""
    return PushdownLogReader(path, options, schema, load) if options.pushdown else LogReader(path, options, schema)


def log_frame(spark: SparkSession, path: str, options: ReadOptions) -> DataFrame:
    """A row for each record that is durable now, for `rtmw.spark.read`."""
    schema = log_schema(path, options)
    reader = LogReader(path, options, schema)
    partitions = reader.partitions()
    return spark.range(0, len(partitions), 1, len(partitions)).mapInArrow(LogTasks(reader.scan, partitions), schema)


class LogTasks:
    """What a task does with its number."""

    def __init__(self, scan: LogScan, partitions: Sequence[InputPartition]) -> None:
        self._scan, self._partitions = scan, partitions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[int] = batch.column(0).to_pylist()
            for number in numbers:
                partition = self._partitions[number]
                assert isinstance(partition, LogPartition)
                yield from self._scan.read(partition)
