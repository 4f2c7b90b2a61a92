"""What a program sees of workers whose rows nobody wants any more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PROGRAM = """
import rtmw.spark

def same(batches):
    yield from batches

spark = rtmw.spark.session("local[1]", memory="1g")
rows = spark.range(50_000_000, numPartitions=1).mapInArrow(same, "id long")
print([len(rows.limit(3).collect()) for _ in range(6)])
spark.stop()
"""


def test_a_query_that_needs_a_few_rows_of_many_ends_without_a_traceback(java: None) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[3, 3, 3, 3, 3, 3]"
    assert "Traceback" not in done.stderr


def threads_of_the_daemon(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    parent = Path(f"/proc/{os.getppid()}")
    called, threads = (parent / "cmdline").read_text().split("\0"), len([*(parent / "task").iterdir()])
    for batch in batches:
        yield pa.record_batch([[called[2]] * len(batch), [threads] * len(batch)], names=["called", "threads"])


def test_workers_are_forked_from_a_process_without_threads(spark: SparkSession) -> None:
    found = spark.range(2, numPartitions=2).mapInArrow(threads_of_the_daemon, "called string, threads long").collect()
    assert found == [("rtmw.spark.daemon", 1)] * 2


def origins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    archives = [one for one, finder in sys.path_importer_cache.items() if "zip" in type(finder).__name__]
    files = [str(sys.modules[name].__file__) for name in ("pyspark.worker", "py4j")]
    for batch in batches:
        yield pa.record_batch([[files] * len(batch), [archives] * len(batch)], names=["files", "archives"])


def test_workers_import_the_pyspark_that_pip_has_unpacked(spark: SparkSession) -> None:
    import py4j  # type: ignore[import-untyped]
    import pyspark.worker

    found = spark.range(1, numPartitions=1).mapInArrow(origins, "files array<string>, archives array<string>").collect()
    assert found == [([pyspark.worker.__file__, py4j.__file__], [])]


def who_wraps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark.sql.conversion import ArrowBatchTransformer

    code = ArrowBatchTransformer.wrap_struct.__code__
    for batch in batches:
        yield pa.record_batch([[code.co_qualname] * len(batch)], names=["name"])


def test_workers_wrap_rows_by_arrow_itself(spark: SparkSession) -> None:
    found = spark.range(1, numPartitions=1).mapInArrow(who_wraps, "name string").collect()
    assert found == [("quicker.<locals>.wrapped",)]


def test_rows_are_wrapped_as_pyspark_wraps_them() -> None:
    import pyarrow as pa
    from pyspark.sql.conversion import ArrowBatchTransformer

    from rtmw.spark.daemon import quicker

    theirs = ArrowBatchTransformer.wrap_struct
    never_null = pa.schema([pa.field("n", pa.int64(), False, {"unit": "m"}), pa.field("s", pa.string())])
    nested = pa.array([{"a": [1, None], "b": None}, None])
    batches = [
        pa.record_batch([[1, 2], ["a", None]], schema=never_null),
        pa.record_batch([nested, pa.array([b"x", b"y"]).dictionary_encode()], names=["x", "x"]),
        pa.record_batch([pa.nulls(0)], names=["none"]),
        pa.record_batch([[1, 2, 3]], names=["tail"]).slice(1),
        pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([]))),
    ]
    for batch in batches:
        made, other = quicker(theirs)(batch), theirs(batch)
        assert made.schema.equals(other.schema, check_metadata=True)
        assert made.equals(other)
        assert made.num_rows == batch.num_rows
