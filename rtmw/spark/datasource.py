"""The format "rtmw": recordings into Spark, and rows onto the bus."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rtmw.spark.sink import BusStreamWriter, BusWriter
    from rtmw.spark.source import RecordingReader
    from rtmw.spark.stream import RecordingStream


class RtmwDataSource(DataSource):
    """Each method imports what it needs: who reads knows nothing of the bus, who writes nothing of files."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._load = uuid4().hex

    @classmethod
    def name(cls) -> str:
        return "rtmw"

    def schema(self) -> StructType:
        from rtmw.spark.options import read_options
        from rtmw.spark.source import schema_of
        from rtmw.spark.stream import STREAM_OPTIONS
        from rtmw.spark.survey import survey

        options = read_options(self.options, STREAM_OPTIONS)  # Spark does not say which of the two will be made
        return schema_of(options, survey(replace(options, incomplete="read")))

    def reader(self, schema: StructType) -> RecordingReader:
        from rtmw.spark.options import read_options
        from rtmw.spark.source import reader_of

        return reader_of(read_options(self.options), schema, self._load)

    def streamReader(self, schema: StructType) -> RecordingStream:
        from rtmw.spark.stream import RecordingStream, following, stream_options

        return RecordingStream(stream_options(self.options), following(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BusWriter:
        from rtmw.spark.sink import BusWriter, writable

        return BusWriter(writable(schema, overwrite, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> BusStreamWriter:
        from rtmw.spark.sink import BusStreamWriter, writable

        return BusStreamWriter(writable(schema, overwrite, self.options))
