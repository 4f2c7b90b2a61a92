"""Spark follows a recording while it grows: a table of means that is up to date after each batch.

Needs `pip install 'rtmw[spark]'` and Java 17 or newer.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from cyclonedds.idl import IdlStruct, types

import rtmw


@dataclass
class Level(IdlStruct, typename="river.Level"):
    station: str
    metres: types.float64


def publish(publisher: rtmw.Publisher[Level], begin: int, end: int) -> None:
    for number in range(begin, end):
        publisher.publish(Level(f"station {number % 2}", float(number)))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with rtmw.Publisher("river/level", Level) as publisher, rtmw.Recorder("river/*", folder) as recorder:
            publisher.wait_for_subscribers(timeout=30)
            publish(publisher, 0, 100)
            recorder.split()  # what was recorded so far is a complete file; the next one grows

            spark = rtmw.spark.session("local[1]")
            levels = spark.readStream.format("rtmw").option("topic", "river/level").load(folder)
            means = levels.groupBy("station").avg("metres")
            query = means.writeStream.outputMode("complete").format("memory").queryName("means").start()
            query.processAllAvailable()
            print(*sorted((row[0], row[1]) for row in spark.table("means").collect()))

            publish(publisher, 100, 200)
        query.processAllAvailable()  # the recorder is closed, so all is on the disk
        print(*sorted((row[0], row[1]) for row in spark.table("means").collect()))
        query.stop()
        spark.stop()
        assert len([*Path(folder).iterdir()]) == 2


if __name__ == "__main__":
    main()
