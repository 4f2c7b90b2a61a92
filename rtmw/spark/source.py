"""`spark.read.format("rtmw")`: the rows of recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from rtmw.errors import UnsupportedType
from rtmw.recording.frames.layout import METADATA, Layout
from rtmw.recording.frames.scan import Extent, Planned
from rtmw.spark.asked import OneQuery, check_conditions, hears_conditions, say_unpruned
from rtmw.spark.filters import Selection, pushed
from rtmw.spark.options import ReadOptions
from rtmw.spark.partitions import Partition, partitions_of
from rtmw.spark.planned import Scanned
from rtmw.spark.scan import TaskScan
from rtmw.spark.schema import arrow_schema, columns_for, layout_with, spark_schema, unsigned_of
from rtmw.spark.survey import Surveyed, merged_of, remedy, survey, versions_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ALWAYS = frozenset(name for name, field in METADATA.items() if not field.nullable)
"""Columns that are never null."""


def schema_of(options: ReadOptions, surveyed: list[Surveyed]) -> StructType:
    """The columns of a read. Raises UnsupportedType, ValueError."""
    return spark_schema(layout_for(options, surveyed).chosen(options.columns))


def layout_for(options: ReadOptions, surveyed: list[Surveyed]) -> Layout:
    """All columns that there are. Raises UnsupportedType, ValueError."""
    return _layout(merged_of(surveyed, options), surveyed, options)


def _layout(descriptions: tuple[bytes, ...], surveyed: list[Surveyed], options: ReadOptions) -> Layout:
    try:
        return layout_with(descriptions, options)
    except UnsupportedType as error:
        raise UnsupportedType(f"{error}; {remedy(versions_in(surveyed))}") from None


def scan_of(options: ReadOptions, surveyed: list[Surveyed], schema: StructType) -> TaskScan:
    """How the chunks of surveyed recordings become rows of a schema."""
    descriptions = merged_of(surveyed, options)
    columns = columns_for(_layout(descriptions, surveyed, options), schema)
    unsigned, arrow = unsigned_of(options), arrow_schema(schema)
    return TaskScan(columns, arrow, descriptions, unsigned, options.mode, options.carried, selection_of(options))


def selection_of(options: ReadOptions) -> Selection:
    """The rows of a read, as far as its options choose them."""
    return Selection(options.start_ns, options.end_ns)


class RecordingReader(DataSourceReader):
    """Made where the query is planned, with the survey; a task gets it without."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._surveyed = survey(options)
        self._target = options.partition_bytes
        self._scan = scan_of(options, self._surveyed, schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_surveyed": []}

    def partitions(self) -> Sequence[InputPartition]:
        return partitions_of(self._surveyed, self._scan.selection, self._target)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Partition)
        return self._scan.read(partition)


class UnprunedReader(RecordingReader):
    """Reads all chunks, whatever the conditions of the query are, and says so."""

    def __init__(self, options: ReadOptions, schema: StructType, load: str) -> None:
        super().__init__(options, schema)
        self._load = load

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        selection, _ = pushed(filters, self._scan.selection, ALWAYS)
        say_unpruned(self._load, Planned.of(self._read(selection), self._read(self._scan.selection)))
        return filters

    def _read(self, selection: Selection) -> Extent:
        return Scanned.of(partitions_of(self._surveyed, selection, self._target)).read


class PushdownReader(RecordingReader):
    """Answers conditions of the query from the index.

    Spark (4.1 to 4.3) keeps what was planned last for a DataFrame and all that are derived from it: the next query of
    any of them that has no conditions, or two of them in one query, would get these rows. So it has to be asked for,
    and these queries are refused.
    """

    def __init__(self, options: ReadOptions, schema: StructType, load: str) -> None:
        super().__init__(options, schema)
        self._load = load
        self._query: OneQuery | None = None
        """None: nothing was chosen for the query, and others may have the same rows."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Conditions on topic and time of logging are met here, to the nanosecond; the others are Spark's."""
        check_conditions(self._load, sorted(map(repr, filters)))
        selection, left = pushed(filters, self._scan.selection, ALWAYS)
        self._query = OneQuery() if selection != self._scan.selection else None
        self._scan = replace(self._scan, selection=selection)
        return left

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._query is not None:
            self._query.check()
        return super().read(partition)


def reader_of(options: ReadOptions, schema: StructType, load: str) -> RecordingReader:
    """`load`: names the call of `load`, which may be planned several times."""
    if options.pushdown:
        return PushdownReader(options, schema, load)
    return UnprunedReader(options, schema, load) if hears_conditions() else RecordingReader(options, schema)
