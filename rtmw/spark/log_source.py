"""Durable logs in Spark: `rtmw.spark.read("orders/")`, and `format("rtmw")`."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
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

from rtmw.log import Folder, look_into
from rtmw.log_batches import metadata
from rtmw.recording.frames.layout import Layout, layout_of
from rtmw.recording.frames.pruning import all_of
from rtmw.recording.frames.scan import Planned
from rtmw.recording.times import nanoseconds
from rtmw.spark.asked import OneQuery, check_conditions, hears_conditions, say_unpruned
from rtmw.spark.files import local
from rtmw.spark.filters import column_of
from rtmw.spark.log_plan import log_partitions
from rtmw.spark.log_scan import LogPartition, LogScan, open_log
from rtmw.spark.options import ReadOptions
from rtmw.spark.planned import Scanned, name_of
from rtmw.spark.rowset import Rowset
from rtmw.spark.schema import arrow_schema, columns_for, spark_schema, unsigned_of
from rtmw.types.message_type import read_document

if TYPE_CHECKING:
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
