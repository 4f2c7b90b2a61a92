"""What a program sees of workers whose rows nobody wants any more."""

from __future__ import annotations

import subprocess
import sys

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
