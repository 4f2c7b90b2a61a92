"""The function that Spark's tasks call: what is imported here, and below, each new worker imports."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rtmw.spark.scan import TaskScan

if TYPE_CHECKING:
    import pyarrow as pa

    from rtmw.spark.partitions import Partition


class Tasks:
    """The function that a task calls with its number. It is pickled for all tasks, and opens its own partition only."""

    def __init__(self, scan: TaskScan, partitions: Sequence[Partition], name: str) -> None:
        """`name`: for Spark's plans."""
        self._scan = scan
        self._partitions = [pickle.dumps(partition) for partition in partitions]
        self.__name__ = name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[int] = batch.column(0).to_pylist()
            for number in numbers:
                yield from self._scan.read(pickle.loads(self._partitions[number]))
