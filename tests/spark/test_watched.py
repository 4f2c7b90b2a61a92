"""How far tasks are is told while they run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rtmw.spark.report import watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_tasks_that_are_done_are_told_while_others_run(spark: SparkSession, tmp_path: Path) -> None:
    gate, told = tmp_path / "gate", list[tuple[int, int]]()

    def heard(done: int, all: int) -> None:
        told.append((done, all))
        if done:
            gate.touch()

    def all_but_the_first_wait_for_the_gate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        end = time.monotonic() + 60
        for batch in batches:
            while batch.column(0)[0].as_py() and not gate.exists() and time.monotonic() < end:
                time.sleep(0.01)
            yield batch

    with watched(spark.sparkContext, 2, heard):
        rows = spark.range(0, 2, 1, 2).mapInArrow(all_but_the_first_wait_for_the_gate, "id bigint").collect()
    assert len(rows) == 2
    assert (1, 2) in told
    assert [done for done, _ in told] == sorted(done for done, _ in told)
