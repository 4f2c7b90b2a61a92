"""The rows of a durable log, in a task: from one position to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rtmw import columns
from rtmw.columns.rows import Rows
from rtmw.errors import LogError, ValueMismatch
from rtmw.log import SEGMENT_LEAST, Folder, Label, open_folder, unpack_labels
from rtmw.recording.frames.layout import Column
from rtmw.recording.frames.scan import fit
from rtmw.spark.scan import ADVICE
from rtmw.spark.worker import settle

if TYPE_CHECKING:
    from rtmw.columns.program import Unsigned

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
DATA: Final = 1
"""The kind of record that a program appends."""
MOST_ROWS, MOST_BYTES = 1 << 14, 8 << 20
"""Of a batch: whichever comes first."""


class LogPartition(InputPartition):
    """Records from `start` on, below `end`: positions at which records begin, or segments."""

    def __init__(self, path: str, start: int, end: int) -> None:
        super().__init__(None)
        self.path, self.start, self.end = path, start, end


def open_log(path: str | Path) -> Folder:
    """The log of a folder, to read. FileNotFoundError, LogError, LogDamaged."""
    return open_folder(Path(path), None, segment=SEGMENT_LEAST)


@dataclass
class _Gathered:
    """Records that become one batch."""

    data: bytearray = field(default_factory=bytearray)
    size: list[int] = field(default_factory=list[int])
    position: list[int] = field(default_factory=list[int])
    time_ns: list[int] = field(default_factory=list[int])
    epoch: list[int] = field(default_factory=list[int])
    labels: list[bytes] = field(default_factory=list[bytes])

    def rows(self) -> Rows:
        size = np.array(self.size, np.int64)
        return Rows(bytes(self.data), np.cumsum(size) - size, size)

    def metadata(self, name: str) -> pa.Array:
        match name:
            case "position" | "time_ns":
                return pa.array(getattr(self, name), pa.int64())
            case "time":
                return pa.array(np.array(self.time_ns, np.int64) // 1000, METADATA["time"].type)
            case "epoch":
                return pa.array(self.epoch, pa.int32())
            case "payload":
                return columns.payload_array(self.rows())
            case _:
                which = ("key", "id").index(name)
                return pa.array([_shown(unpack_labels(labels)[which]) for labels in self.labels], pa.string())


def _shown(label: Label | None) -> str | None:
    return label.hex() if isinstance(label, bytes) else None if label is None else str(label)


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
            for gathered in self._gathered(folder, partition):
                yield from self._batches(gathered, partition)

    def _gathered(self, folder: Folder, partition: LogPartition) -> Iterator[_Gathered]:
        reader = folder.reader(partition.start)
        if self.start_ns is not None:
            reader.seek_time(self.start_ns, partition.end)
        gathered = _Gathered()
        while (found := reader.next(partition.end)) is not None:
            position, _, time_ns, epoch, kind, labels, data = found
            if kind != DATA:
                raise LogError(
                    f"{folder.path}: the record at {position} is of kind {kind}, which this rtmw does not know"
                )
            if not self._is_wanted(time_ns):
                continue
            gathered.data += data
            gathered.size.append(len(data))
            gathered.position.append(position)
            gathered.time_ns.append(time_ns)
            gathered.epoch.append(epoch)
            gathered.labels.append(labels)
            if len(gathered.size) == MOST_ROWS or len(gathered.data) >= MOST_BYTES:
                yield gathered
                gathered = _Gathered()
        if gathered.size:
            yield gathered

    def _is_wanted(self, time_ns: int) -> bool:
        """Each record is asked: where the clock was set back, later records have earlier times."""
        return (self.start_ns is None or time_ns >= self.start_ns) and (self.end_ns is None or time_ns < self.end_ns)

    def _batches(self, gathered: _Gathered, partition: LogPartition) -> Iterator[pa.RecordBatch]:
        start = 0
        for members, damaged in self._members(gathered, partition):
            count = len(gathered.size) if members is None else members.num_rows
            arrays = [
                gathered.metadata(column.name).slice(start, count)
                if column.member is None or members is None
                else members.column(column.member)
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

    def _members(self, gathered: _Gathered, partition: LogPartition) -> Iterator[tuple[pa.RecordBatch | None, Any]]:
        if not self.descriptions or all(column.member is None for column in self.columns):
            yield None, None
            return
        versions = columns.merged_versions(self.descriptions, self.unsigned)
        try:
            yield from versions.decode(gathered.rows(), 0, self.mode != "FAILFAST")
        except ValueMismatch as error:
            where = f"{partition.path}, records from {gathered.position[0]} on"
            raise ValueMismatch(f"{where}: {error}. {ADVICE}") from None
