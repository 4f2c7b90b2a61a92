"""What a worker sets aside."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rtmw.spark.scan import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def set_aside(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        freeze_imports()
        yield pa.record_batch([[gc.get_freeze_count()] * len(batch)], names=["objects"])


def test_what_a_worker_has_imported_is_not_looked_through_behind_each_task(spark: SparkSession) -> None:
    found = spark.range(4, numPartitions=2).mapInArrow(set_aside, "objects long").collect()
    assert all(row.objects > 10_000 for row in found)


def test_the_garbage_of_a_program_is_its_own_affair() -> None:
    before = gc.get_freeze_count()
    freeze_imports()
    assert gc.get_freeze_count() == before


def test_what_a_task_imports_has_no_pandas_in_it() -> None:
    program = "import sys, pyspark.worker, rtmw.spark.scan; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
