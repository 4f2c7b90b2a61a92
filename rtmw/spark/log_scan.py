"""The rows of a durable log, in a task: from one position to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rtmw import columns
from rtmw.columns.rows import Rows
from rtmw.errors import LogDamaged, LogError, ValueMismatch
from rtmw.log import RUN_DATA, RUN_IDS, RUN_KEYS, SEGMENT_LEAST, Folder, open_folder
from rtmw.recording.frames.extent import Extent
from rtmw.recording.frames.layout import Column, member_places
from rtmw.recording.frames.scan import fit
from rtmw.spark.scan import ADVICE
from rtmw.spark.worker import settle

if TYPE_CHECKING:
    from rtmw.columns.program import Unsigned
    from rtmw.log._log import _Run

METADATA: Final = {
    made.name: made
    for made in (
        pa.field("position", pa.int64(), False),
        pa.field("time", pa.timestamp("us", tz="UTC"), False),
        pa.field("epoch", pa.int32(), False),
        pa.field("key", pa.string(), True),
        pa.field("id", pa.string(), True),
        pa.field("time_ns", pa.int64(), False),
        pa.field("payload", pa.binary(), False),
    )
}
"""What each record has. Keys and ids that are numbers are shown in digits, those of bytes in hexadecimal digits."""
MOST_ROWS, MOST_BYTES = 1 << 15, 1 << 20
"""Of a batch, whichever comes first: what is gathered is decoded while it lies in the processor's cache."""
EVER_NS: Final = (1 << 64) - 1
"""Later than each record."""


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
    """The log of a folder, to read. FileNotFoundError, LogError, LogDamaged."""
    return open_folder(Path(path), None, segment=SEGMENT_LEAST)


class _Records:
    """Records that become one batch."""

    def __init__(self, path: str, run: _Run) -> None:
        self._path = path
        self.count, self._position, self._time_ns, self._epoch, self._place, self._size, self._data = run[:7]
        self._labels = {"key": run[7], "id": run[8]}

    @property
    def first(self) -> int:
        """Position of the first one."""
        return int(np.frombuffer(self._position, np.int64, 1)[0])

    def rows(self) -> Rows:
        assert self._data is not None
        assert self._place is not None
        assert self._size is not None
        return Rows(self._data, np.frombuffer(self._place, np.int64), np.frombuffer(self._size, np.int64))

    def metadata(self, name: str) -> pa.Array:
        """A column of METADATA. LogDamaged: a key or an id that should be text is none."""
        match name:
            case "position":
                return self._numbers(self._position, pa.int64())
            case "time_ns":
                return self._numbers(self._time_ns, pa.int64())
            case "time":
                return pa.array(np.frombuffer(self._time_ns, np.int64) // 1000, METADATA["time"].type)
            case "epoch":
                return self._numbers(self._epoch, pa.int32())
            case "payload":
                return columns.payload_array(self.rows())
            case _:
                return self._texts(name)

    def _numbers(self, memory: bytes, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(kind, self.count, [None, pa.py_buffer(memory)])

    def _texts(self, name: str) -> pa.Array:
        texts = self._labels[name]
        assert texts is not None
        text, ends, is_there = texts
        offsets = np.concatenate([np.zeros(1, np.int32), np.frombuffer(ends, np.int32)])
        validity = np.packbits(np.frombuffer(is_there, np.uint8), bitorder="little")
        array = pa.Array.from_buffers(pa.string(), self.count, [*map(pa.py_buffer, (validity, offsets, text))])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            last = int(np.frombuffer(self._position, np.int64)[-1])
            raise LogDamaged(
                f"{self._path}: the {name} of a record from {self.first} to {last} is no text ({error}); read without "
                f"the column {name!r}, or save what is whole: rtmw log salvage",
                self._path,
                self.first,
                last,
            ) from None
        return array


@dataclass(frozen=True)
class LogScan:
    """How records become rows. Spark sends it to every task."""

    columns: tuple[Column, ...]
    schema: pa.Schema
    """Of `columns`."""
    descriptions: tuple[bytes, ...]
    """Of the type, if its members are columns."""
    unsigned: Unsigned
    mode: str
    start_ns: int | None
    end_ns: int | None

    def read(self, partition: LogPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. LogDamaged, LogError, ValueMismatch."""
        settle()
        with open_log(partition.path) as folder:
            for start, end in partition.runs:
                for records in self._records(folder, start, end):
                    yield from self._batches(records, folder.path)

    def _records(self, folder: Folder, start: int, end: int) -> Iterator[_Records]:
        reader = folder.reader(start)
        start_ns, end_ns = self.start_ns or 0, EVER_NS if self.end_ns is None else max(self.end_ns, 0)
        if self.start_ns is not None:
            reader.seek_time(max(start_ns, 0), end)
        while (run := reader.run(end, self._wanted, max(start_ns, 0), end_ns, MOST_ROWS, MOST_BYTES)) is not None:
            position, kind = run[9:]
            if run[0]:
                yield _Records(folder.path, run)
            if kind:
                raise LogError(
                    f"{folder.path}: the record at {position} is of kind {kind}, which this rtmw does not know"
                )

    @cached_property
    def _wanted(self) -> int:
        """What is looked at of records besides their heads: keys, ids and data only if a column needs them."""
        names = {column.name if column.member is None else "payload" for column in self.columns}
        parts = {"key": RUN_KEYS, "id": RUN_IDS, "payload": RUN_DATA}
        return sum(parts[name] for name in names & parts.keys())

    def _batches(self, records: _Records, path: str) -> Iterator[pa.RecordBatch]:
        start = 0
        for members, damaged in self._members(records, path):
            count = records.count if members is None else members.num_rows
            arrays = [
                records.metadata(column.name).slice(start, count)
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

    def _members(self, records: _Records, path: str) -> Iterator[tuple[pa.RecordBatch | None, Any]]:
        places = member_places(self.columns)
        if not self.descriptions or not places:
            yield None, None
            return
        versions = columns.merged_versions(self.descriptions, self.unsigned, places)
        try:
            yield from versions.decode(records.rows(), 0, self.mode != "FAILFAST")
        except ValueMismatch as error:
            where = f"{path}, records from {records.first} on"
            raise ValueMismatch(f"{where}: {error}. {ADVICE}") from None
