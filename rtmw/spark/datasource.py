"""The format "rtmw": recordings into Spark, and rows onto the bus."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class RtmwDataSource(DataSource):
    """Each method imports what it needs: who reads knows nothing of the bus, who writes nothing of files."""

    @classmethod
    def name(cls) -> str:
        return "rtmw"
