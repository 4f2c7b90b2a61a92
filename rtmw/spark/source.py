"""`spark.read.format("rtmw")`: the rows of recordings, their columns as Spark has them, and how much of them was read.

`OneQuery` and `check_conditions` keep the conditions of queries apart: with `pushdown` there is one query for each
`load`, and others, which would get the rows of the first, are refused.

Spark keeps what it planned last for a Python data source in an object that all DataFrames of one `load` share, and does
not plan a query without conditions again. So each plan has a name, under which its tasks note on their host for which
query they run; and each `load` has one, under which the first plan notes its conditions.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError, UnsupportedType
from rtmw.recording.frames import layout
from rtmw.recording.frames.layout import METADATA, Column, Layout
from rtmw.recording.frames.scan import Extent, Planned, share_of
from rtmw.spark.ledger import ledgers
from rtmw.spark.log_scan import LogPartition
from rtmw.spark.options import ReadOptions
from rtmw.spark.partitions import (
    Partition,
    Selection,
    Surveyed,
    merged_of,
    partitions_of,
    pushed,
    remedy,
    survey,
    versions_in,
)
from rtmw.spark.scan import TaskScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    from rtmw.columns.program import Unsigned


NULLS: Final = re.compile(r'"(nullable|containsNull)":(true|false),?')
"""Finds in a type in Spark's JSON what a user's own schema may say differently: whether a value may be null."""


def unsigned_of(options: ReadOptions) -> Unsigned:
    return "long" if options.unsigned == "long" else "widen"


def layout_with(descriptions: tuple[bytes, ...], options: ReadOptions) -> Layout:
    """The columns for messages of a type, by its versions; none: of different types. Raises UnsupportedType."""
    return layout.layout_of(descriptions, unsigned_of(options), options.mode != "FAILFAST")


def spark_schema(chosen: tuple[Column, ...]) -> StructType:
    return from_arrow_schema(pa.schema([column.field for column in chosen]))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark wants batches of a schema to have."""
    return to_arrow_schema(schema, timezone="UTC")


def columns_for(known: Layout, wanted: StructType) -> tuple[Column, ...]:
    """The columns of a schema, which may be the user's own: some of ours, in any order. Raises ValueError."""
    chosen = known.chosen(tuple(wanted.fieldNames())) if len(wanted.fields) else ()
    for column, field, ours in zip(chosen, wanted.fields, spark_schema(chosen).fields, strict=True):
        if _plain(field.dataType) != _plain(ours.dataType):
            asked, is_of = field.dataType.simpleString(), ours.dataType.simpleString()
            raise ValueError(f"column {column.name!r} is of type {is_of}; the schema of the read says {asked}")
    return chosen


def _plain(kind: DataType) -> str:
    return NULLS.sub("", kind.json())


_KEPT_S: Final = 86400
_ADVICE: Final = 'with .option("pushdown", "true") call load once for each query, or leave the option out'
_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The worker that tells a data source the conditions of a query: only with spark.sql.python.filterPushdown.enabled."""
_QUERY: Final = ("spark.sql.execution.root.id", "spark.sql.execution.id")


def check_conditions(load: str, conditions: object) -> None:
    """RtmwError: another query of this `load` was planned with other conditions."""
    if _first_text(load, str(conditions)) != str(conditions):
        raise RtmwError(f"another query of the same load was planned with other conditions; {_ADVICE}")


def hears_conditions() -> bool:
    """Does this process plan a query with conditions? Spark refuses readers that listen where it has none to tell."""
    return _PLANNER in sys.modules


def say_unpruned(load: str, needed: Planned) -> None:
    """Warns once a `load`, if the conditions of a query need less than what it reads."""
    if needed.skipped.chunks and _is_first(load):
        warnings.warn(
            f'the conditions of this query need {needed}, and format("rtmw") reads all of them. rtmw.spark.read(path)'
            ".where(…) reads only what is needed, and so do the options topic, start and end of the load; .option("
            '"pushdown", "true") does for a load that is asked once',
            stacklevel=3,
        )


def _is_first(load: str) -> bool:
    caller = uuid4().hex
    return _first_text(f"{load}.said", caller) == caller


class OneQuery:
    """Goes to the tasks with what was planned."""

    def __init__(self) -> None:
        self._plan = uuid4().hex

    def check(self) -> None:
        """In a task. RtmwError: another query runs with what was planned for one that had its own conditions."""
        task = TaskContext.get()
        query = next(filter(None, map(task.getLocalProperty, _QUERY)), None) if task is not None else None
        if query is not None and _first_text(self._plan, query) != query:
            raise RtmwError(f"another query of the same load would get the rows that the first one chose; {_ADVICE}")


def _first_text(name: str, text: str) -> str:
    """The text that is stored under a name on this host; `text`, if none was."""
    folder = ledgers() / "asked"
    folder.mkdir(mode=0o700, exist_ok=True)
    path, new = folder / name, folder / f"{name}.{uuid4().hex}"
    if not path.exists():
        _remove_old(folder)
        new.write_text(text)
        with suppress(FileExistsError):
            os.link(new, path)  # it appears with its content, and once
        new.unlink()
    return path.read_text()


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another task has removed it
            if path.stat().st_mtime < CLOCK.wall() - _KEPT_S:
                path.unlink()


_NAME: Final = "rtmw.spark.read "
"""How the function of a `rtmw.spark.read` is called in Spark's plans, with the figures behind it."""


@dataclass(frozen=True)
class Scanned:
    """The extent that a query reads, as planned from the indexes."""

    partitions: int
    """Tasks."""
    read: Extent
    """Chunks that tasks read, messages in them, and their bytes in the files.

    Of a durable log: stretches of its indexes, or segments without one. An index does not say how many records a
    stretch has, so `messages` is 0.
    """
    skipped: Extent
    """Chunks in which, by the index, no row can be."""

    @classmethod
    def of(cls, partitions: Sequence[Partition | LogPartition]) -> Self:
        read = sum((partition.extent for partition in partitions), Extent())
        return cls(len(partitions), read, sum((partition.skipped for partition in partitions), Extent()))

    def __add__(self, other: Scanned) -> Scanned:
        return Scanned(self.partitions + other.partitions, self.read + other.read, self.skipped + other.skipped)

    def __str__(self) -> str:
        tasks = f"{self.partitions} partition{'' if self.partitions == 1 else 's'}"
        return f"{share_of(self.read, self.skipped)}, in {tasks}"


def scanned(frame: DataFrame) -> Scanned:
    """How much a DataFrame reads of its recordings; nothing is read for it.

    Raises TypeError when it reads none, and for a DataFrame of Spark Connect, whose plan is not here.
    """
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        raise TypeError("scanned() needs a DataFrame of a session in this process; Spark Connect plans elsewhere")
    found = [*_reads(plan.queryExecution().sparkPlan())]
    if not found:
        raise TypeError("this DataFrame reads no recording, or not at first hand: ask before it is cached")
    return sum(found[1:], found[0])


def name_of(read: Scanned) -> str:
    """The name that Spark shows in its plans for a function that reads so much."""
    return _NAME + json.dumps(dict(zip(("partitions", "read", "skipped"), astuple(read), strict=True)))


def _reads(plan: Any) -> Iterator[Scanned]:
    """Yields what is read by each scan of recordings below a node of a physical plan."""
    match plan.getClass().getSimpleName():
        case "BatchScanExec":
            yield from _of_source(plan)
        case "MapInArrowExec" if (name := plan.func().name()).startswith(_NAME):
            figures = json.loads(name.removeprefix(_NAME))
            yield Scanned(figures["partitions"], Extent(*figures["read"]), Extent(*figures["skipped"]))
        case _:
            for child in _listed(plan.children()):
                yield from _reads(child)


def _of_source(scan: Any) -> Iterator[Scanned]:
    """Yields what a scan by `format("rtmw")` reads; nothing if it is a scan of another source."""
    given = [*_listed(scan.inputPartitions())]
    if given and all(one.getClass().getSimpleName() == "PythonInputPartition" for one in given):
        partitions = [pickle.loads(one.pickedPartition()) for one in given]
        if all(isinstance(partition, Partition | LogPartition) for partition in partitions):
            yield Scanned.of(partitions)


def _listed(sequence: Any) -> Iterator[Any]:
    """Yields the elements of a Scala sequence."""
    return (sequence.apply(place) for place in range(sequence.length()))


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
