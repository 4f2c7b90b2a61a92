"""The format "rtmw": recordings into Spark, and rows onto the bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rtmw.spark.sink import BusStreamWriter, BusWriter


class RtmwDataSource(DataSource):
    """Each method imports what it needs: who reads knows nothing of the bus, who writes nothing of files."""

    @classmethod
    def name(cls) -> str:
        return "rtmw"

    def writer(self, schema: StructType, overwrite: bool) -> BusWriter:
        from rtmw.spark.sink import BusWriter, writable

        return BusWriter(writable(schema, overwrite, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> BusStreamWriter:
        from rtmw.spark.sink import BusStreamWriter, writable

        return BusStreamWriter(writable(schema, overwrite, self.options))
