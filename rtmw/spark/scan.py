"""The rows of partitions, in a task: what is imported here, and below, each new worker imports."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark import TaskContext

from rtmw.errors import ValueMismatch
from rtmw.recording import Recording
from rtmw.recording.frames.scan import Run, Scan
from rtmw.spark.partitions import Partition, Selection

if TYPE_CHECKING:
    import pyarrow as pa


@cache
def freeze_imports() -> None:
    """Called when all is imported that a task needs, and once only.

    Behind each task Spark's workers collect garbage. What is there now stays: to look through it each time would take
    longer than reading a hundred thousand messages.
    """
    if TaskContext.get() is not None:
        gc.freeze()


ADVICE = 'With .option("mode", "PERMISSIVE") it is a row without members, with "DROPMALFORMED" none'


@dataclass(frozen=True)
class TaskScan(Scan):
    """How chunks become rows of Spark. Its schema is as Spark wants it."""

    selection: Selection = Selection()  # noqa: RUF009 (it is frozen)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        for run in partition.runs:
            yield from self._run(run)

    def _run(self, run: Run) -> Iterator[pa.RecordBatch]:
        with Recording(run.path) as recording:
            try:
                yield from self.read_run(recording, run)
            except ValueMismatch as error:
                raise ValueMismatch(f"{error}. {ADVICE}") from None


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
