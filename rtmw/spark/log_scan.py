"""The rows of a durable log, in a task: from one position to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rtmw import columns
from rtmw.durable_log.batches import EVER_NS, RunColumns
from rtmw.errors import LogError, ValueMismatch
from rtmw.log import RUN_DATA, RUN_IDS, RUN_KEYS, SEGMENT_LEAST, Folder, look_into, open_folder
from rtmw.recording.frames.layout import Column, member_places
from rtmw.recording.frames.scan import Extent, fit
from rtmw.spark.scan import ADVICE, freeze_imports

if TYPE_CHECKING:
    from rtmw.columns.program import Unsigned

MOST_ROWS, MOST_BYTES = 1 << 15, 1 << 20
"""Limits of a batch, whichever is reached first: the records are decoded while they lie in the processor's cache."""


class LogPartition(InputPartition):
    """Records of runs, each from one position on, at which a record begins, and below another.

    `extent`: stretches of the index, and their bytes; `skipped`: in the first partition only, what nobody has to read.
    """

    def __init__(
        self, path: str, runs: tuple[tuple[int, int], ...], extent: Extent | None = None, skipped: Extent | None = None
    ) -> None:
        super().__init__(None)
        self.path, self.runs = path, runs
        self.extent, self.skipped = extent or Extent(), skipped or Extent()


def open_log(path: str | Path) -> Folder:
    """The log of a folder, recovered, so that its bounds are durable. FileNotFoundError, LogError, LogDamaged.

    Recovery reads the last segment. `look_into` does not recover, for a caller that knows durable bounds already.
    """
    return open_folder(Path(path), None, segment=SEGMENT_LEAST)


@dataclass(frozen=True)
class LogScan:
    """How records become rows. Spark sends it to every task."""

    columns: tuple[Column, ...]
    schema: pa.Schema
    """Schema of `columns`."""
    descriptions: tuple[bytes, ...]
    """Descriptions of the type, if its members are columns."""
    unsigned: Unsigned
    mode: str
    start_ns: int | None
    end_ns: int | None

    def read(self, partition: LogPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. LogDamaged, LogError, ValueMismatch."""
        freeze_imports()
        with look_into(Path(partition.path)) as folder:
            for start, end in partition.runs:
                for records in self._records(folder, start, end):
                    yield from self._batches(records, folder.path)

    def _records(self, folder: Folder, start: int, end: int) -> Iterator[RunColumns]:
        reader = folder.reader(start)
        start_ns, end_ns = self.start_ns or 0, EVER_NS if self.end_ns is None else max(self.end_ns, 0)
        if self.start_ns is not None:
            reader.seek_time(max(start_ns, 0), end)
        while (run := reader.run(end, self._wanted, max(start_ns, 0), end_ns, MOST_ROWS, MOST_BYTES)) is not None:
            position, kind = run[9:]
            if run[0]:
                yield RunColumns(folder.path, run)
            if kind:
                raise LogError(
                    f"{folder.path}: the record at {position} is of kind {kind}, which this rtmw does not know"
                )

    @cached_property
    def _wanted(self) -> int:
        """The parts of records that are read besides their heads: keys, ids and data only if a column needs them."""
        names = {column.name if column.member is None else "payload" for column in self.columns}
        parts = {"key": RUN_KEYS, "id": RUN_IDS, "payload": RUN_DATA}
        return sum(parts[name] for name in names & parts.keys())

    def _batches(self, records: RunColumns, path: str) -> Iterator[pa.RecordBatch]:
        start = 0
        for members, damaged in self._members(records, path):
            count = records.count if members is None else members.num_rows
            arrays = [
                records.column(column.name).slice(start, count)
                if column.member is None or members is None
                else members.column(member_places(self.columns).index(column.member))
                for column in self.columns
            ]
            start += count
            made = self._assembled(arrays, count)
            yield made.filter(pa.array(~damaged)) if damaged is not None and self.mode == "DROPMALFORMED" else made

    def _assembled(self, arrays: list[pa.Array], count: int) -> pa.RecordBatch:
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        fitted = [fit(array, kind) for array, kind in zip(arrays, self.schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(fitted, schema=self.schema)

    def _members(self, records: RunColumns, path: str) -> Iterator[tuple[pa.RecordBatch | None, Any]]:
        places = member_places(self.columns)
        if not self.descriptions or not places:
            yield None, None
            return
        versions = columns.merged_versions(self.descriptions, self.unsigned, places)
        try:
            yield from versions.decode(records.rows(), 0, self.mode != "FAILFAST")
        except ValueMismatch as error:
            where = f"{path}, records from {int(records.position[0])} on"
            raise ValueMismatch(f"{where}: {error}. {ADVICE}") from None
