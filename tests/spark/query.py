"""A query without Spark: what its planner and its tasks do."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from rtmw.spark.options import read_options
from rtmw.spark.partitions import survey
from rtmw.spark.source import reader_of, schema_of


class Query:
    """What Spark does for a query: schema, partitions, and tasks with what was pickled."""

    def __init__(self, path: Path | str, schema: StructType | None = None, **options: str) -> None:
        self.options = read_options({"path": str(path), **options})
        self.schema = schema if schema is not None else schema_of(self.options, survey(self.options))
        self.reader = reader_of(self.options, self.schema, "load")
        self.partitions: list[Any] = [*self.reader.partitions()]

    def batches(self) -> list[pa.RecordBatch]:
        task = pickle.loads(pickle.dumps(self.reader))
        return [batch for part in self.partitions for batch in task.read(pickle.loads(pickle.dumps(part)))]

    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches() for row in batch.to_pylist()]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows()]
