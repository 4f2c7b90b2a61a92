"""PySpark's daemon, which forks the workers of a session: one whose rows nobody wants any more ends without a word.

The program of a worker is imported before the first fork, and not anew in each worker: a session ends workers that had
nothing to do for a minute. It starts no thread, and a fork keeps none; NumPy and PyArrow do, so workers import these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rtmw.spark.python_workers import prefer_unpacked, quiet

prefer_unpacked()

from pyspark import daemon  # noqa: E402 (from where, has just been decided)

if TYPE_CHECKING:
    import pyarrow as pa

    Wrap = Callable[[pa.RecordBatch], pa.RecordBatch]


def quicker(wrap_struct: Wrap) -> Wrap:
    """PySpark's own, or one that makes the same of a batch that has columns.

    Rows of `mapInArrow` go to Spark as one column of structs. PySpark makes it of Python objects, of two for each
    column of each batch: for eight columns that takes 17 µs, and Arrow itself 2.5.
    """

    def wrapped(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_columns == 0:
            return wrap_struct(batch)
        import pyarrow as pa  # in workers alone

        return pa.RecordBatch.from_arrays([batch.to_struct_array()], ["_0"])

    return wrapped


def install() -> None:
    """What is changed of PySpark, as far as this release has it."""
    from pyspark.sql import conversion

    theirs: Any = daemon
    theirs.worker = quiet(theirs.worker)
    transformer: Any = getattr(conversion, "ArrowBatchTransformer", None)
    if hasattr(transformer, "wrap_struct"):
        transformer.wrap_struct = staticmethod(quicker(transformer.wrap_struct))


if __name__ == "__main__":
    import pyspark.worker  # noqa: F401  # pyright: ignore[reportUnusedImport]

    install()
    daemon.manager()
