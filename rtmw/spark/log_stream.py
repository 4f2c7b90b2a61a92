"""`spark.readStream.format("rtmw")` of a durable log: each record once, in batches of positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from rtmw.errors import LogError
from rtmw.log import Folder, look_into
from rtmw.spark.log_plan import log_partitions
from rtmw.spark.log_scan import LogPartition, open_log
from rtmw.spark.log_source import log_scan
from rtmw.spark.options import ReadOptions
from rtmw.spark.stream import Following, budget_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


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
