"""`rtmw.spark.read`: the rows of recordings as plain tasks, without what Spark counts at a Python data source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Unpack

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from rtmw.recording.frames.layout import Layout
from rtmw.recording.frames.pruning import Pruning, all_of
from rtmw.spark.driver import registered, session
from rtmw.spark.log_source import log_frame, log_of
from rtmw.spark.options import ReadKeywords, ReadOptions, keyword_options
from rtmw.spark.partitions import Chosen, Surveyed, chunks_of, merged_of, partitions_of, survey
from rtmw.spark.rowset import Rowset
from rtmw.spark.scan import Tasks
from rtmw.spark.source import Scanned, layout_for, name_of, scan_of, schema_of, selection_of, unsigned_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    Path = str | os.PathLike[str]

MOST_TASKS = 256
"""The most partitions of one function: each of their tasks is sent all of it, and the recording may be any length."""


def read(
    path: Path | Sequence[Path], *, spark: SparkSession | None = None, **options: Unpack[ReadKeywords]
) -> DataFrame:
    """A row for each message of recordings, or for each record of a durable log: the same rows as
    `spark.read.format("rtmw").load(path)` has, faster.

        flow = rtmw.spark.read("monday/", topic="pump/speed", start=datetime(2026, 11, 22, 8, tzinfo=UTC))

    `path`: a file, a folder, a pattern, or several; or the folder of a log. `spark`: None is the running session, or
    a new one. The options are those of the format (docs/spark.md), and may be Python's values. What there is to read
    is looked up now and once. Errors: RecordingError, FileNotFoundError, UnsupportedType, TypeError and ValueError
    (options), NotInstalled; those of the tasks as Spark reports them.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else path
    chosen = keyword_options([os.fspath(one) for one in paths], options)
    running = session() if spark is None else registered(spark)
    if (log := log_of(chosen)) is not None:
        return log_frame(running, log, chosen)
    reading = Reading(running, chosen, survey(chosen))
    frame = reading.frame()
    return Rowset.of(frame, reading) if isinstance(frame, ClassicFrame) else frame


MOST_LOOKED_UP = 4
"""Conditions whose chunks are kept: a chunk that is found is a small object."""


@dataclass(frozen=True)
class Reading:
    """The input of a DataFrame."""

    spark: SparkSession
    options: ReadOptions
    surveyed: list[Surveyed]
    condition: Any = None
    """An expression of pyarrow.compute, which is true of all rows that are looked at."""
    looked_up: list[tuple[Any, Chosen]] = field(default_factory=list[tuple[Any, Chosen]])
    """The chunks that may have rows, by condition, the newest first: of all frames that stem from one call."""

    @cached_property
    def layout(self) -> Layout:
        return layout_for(self.options, self.surveyed)

    @property
    def fields(self) -> dict[str, pa.Field]:
        return {name: column.field for name, column in self.layout.columns.items()}

    def narrowed(self, names: tuple[str, ...], condition: Any) -> tuple[Reading, DataFrame]:
        """Only these columns; no columns at all would be the usual ones, so one stays."""
        options = replace(self.options, columns=names or self.options.columns or self.layout.usual[:1])
        narrower = replace(self, options=options)
        if condition is not None and not self._has(condition):
            both = all_of(one for one in (self.condition, condition) if one is not None)
            narrower = replace(narrower, condition=both)
        return narrower, narrower.frame()

    @property
    def chunks(self) -> Chosen:
        """The chunks that may have rows. The index is asked once for a condition: a `select` behind a `where` has
        the same one."""
        for condition, chunks in self.looked_up:
            if condition is self.condition or (condition is not None and self._has(condition)):
                return chunks
        self.looked_up.insert(0, (self.condition, self._look_up()))
        del self.looked_up[MOST_LOOKED_UP:]
        return self.looked_up[0][1]

    def _has(self, condition: Any) -> bool:
        return self.condition is not None and bool(self.condition.equals(condition))

    def _look_up(self) -> Chosen:
        pruning = None
        if self.condition is not None:
            descriptions = merged_of(self.surveyed, self.options)
            pruning = Pruning(self.layout, descriptions, unsigned_of(self.options), self.condition)
        return chunks_of(self.surveyed, selection_of(self.options), pruning)

    def frame(self) -> DataFrame:
        schema = schema_of(self.options, self.surveyed)
        scan = scan_of(self.options, self.surveyed, schema)
        partitions = partitions_of(self.surveyed, scan.selection, self.options.partition_bytes, self.chunks)
        groups = [partitions[first : first + MOST_TASKS] for first in range(0, len(partitions), MOST_TASKS)]
        tasks = [Tasks(scan, group, name_of(Scanned.of(group))) for group in groups]
        frames = [
            self.spark.range(0, len(group), 1, len(group)).mapInArrow(one, schema)
            for one, group in zip(tasks, groups, strict=True)
        ]
        return reduce(DataFrame.unionAll, frames)
