"""The format "rtmw": recordings into Spark, and rows onto the bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rtmw.spark.source import RecordingReader


class RtmwDataSource(DataSource):
    """Each method imports what it needs: who reads knows nothing of the bus, who writes nothing of files."""

    @classmethod
    def name(cls) -> str:
        return "rtmw"

    def schema(self) -> StructType:
        from rtmw.spark.options import read_options
        from rtmw.spark.source import schema_of

        return schema_of(read_options(self.options))

    def reader(self, schema: StructType) -> RecordingReader:
        from rtmw.spark.options import read_options
        from rtmw.spark.source import reader_of

        return reader_of(read_options(self.options), schema)
