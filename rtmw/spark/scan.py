"""The rows of partitions, in a task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtmw.errors import ValueMismatch
from rtmw.recording import Recording
from rtmw.recording.frames.scan import Run, Scan
from rtmw.spark.filters import Selection
from rtmw.spark.partitions import Partition
from rtmw.spark.worker import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa

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
