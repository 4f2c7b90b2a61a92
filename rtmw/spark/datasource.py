"""The format "rtmw": recordings and durable logs into Spark, and rows onto the bus.

It stands alone, for a worker of Spark that plans imports it before all else of rtmw, and is to import no more than it
needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import DataSource

from rtmw.spark.python_workers import quiet_planner

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rtmw.spark.log_source import LogReader, LogStream
    from rtmw.spark.sink import BusStreamWriter, BusWriter
    from rtmw.spark.source import RecordingReader
    from rtmw.spark.stream import RecordingStream

quiet_planner()  # here: a worker that plans imports this module before all else of rtmw


class RtmwDataSource(DataSource):
    """Each method imports what it needs: reading needs nothing of the bus, and writing nothing of files."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._load = uuid4().hex

    @classmethod
    def name(cls) -> str:
        return "rtmw"

    def schema(self) -> StructType:
        from rtmw.spark.log_source import log_of, log_schema
        from rtmw.spark.options import read_options
        from rtmw.spark.partitions import survey
        from rtmw.spark.source import schema_of
        from rtmw.spark.stream import STREAM_OPTIONS

        options = read_options(self.options, STREAM_OPTIONS)  # Spark does not say which of the two will be made
        if (log := log_of(options)) is not None:
            return log_schema(log, options)
        return schema_of(options, survey(replace(options, incomplete="read")))

    def reader(self, schema: StructType) -> RecordingReader | LogReader:
        from rtmw.spark.log_source import log_of, log_reader
        from rtmw.spark.options import read_options
        from rtmw.spark.source import reader_of

        options = read_options(self.options)
        log = log_of(options)
        return reader_of(options, schema, self._load) if log is None else log_reader(log, options, schema, self._load)

    def streamReader(self, schema: StructType) -> RecordingStream | LogStream:
        from rtmw.spark.log_source import LogStream, log_of
        from rtmw.spark.stream import RecordingStream, following, stream_options

        options, how = stream_options(self.options), following(self.options)
        log = log_of(options)
        return RecordingStream(options, how, schema) if log is None else LogStream(log, options, how, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BusWriter:
        from rtmw.spark.sink import BusWriter, writable

        return BusWriter(writable(schema, overwrite, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> BusStreamWriter:
        from rtmw.spark.sink import BusStreamWriter, writable

        return BusStreamWriter(writable(schema, overwrite, self.options))
