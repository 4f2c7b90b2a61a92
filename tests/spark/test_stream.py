"""A stream follows recordings while they grow, and has each row exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.bus import Order, eventually
from tests.child import Spawn
from tests.spark.recorded import Recorder, reading, record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LONG = 90.0
"""Seconds after which a test gives up; nothing is measured with it."""


def follow(spark: SparkSession, folder: Path, **options: object) -> DataFrame:
    return spark.readStream.format("rtmw").options(topic="river", **options).load(str(folder))


def drain(rows: DataFrame, folder: Path) -> list[int]:
    """Append what there is to Parquet, once; how many rows each batch had."""
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "rows"))
    try:
        assert query.awaitTermination(int(LONG))
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    finally:
        query.stop()


def sequences(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row.sequence for row in spark.read.parquet(str(folder / "rows")).select("sequence").collect())


def test_rows_appear_while_the_recorder_writes(spark: SparkSession, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run_0.mcap")
    recorder.write(0, 40)
    rows = follow(spark, tmp_path).select("sequence", "station", "value")
    query = rows.writeStream.format("memory").queryName("growing").start()
    try:
        query.processAllAvailable()
        assert spark.table("growing").count() == 40
        recorder.write(40, 70)
        query.processAllAvailable()
        assert spark.table("growing").count() == 70
        recorder.writer.close()
        record(tmp_path / "run_1.mcap", 70, 100)
        query.processAllAvailable()
    finally:
        query.stop()
    found = sorted(tuple(row) for row in spark.table("growing").collect())
    assert found == [(number, reading(number).station, reading(number).value) for number in range(100)]


def test_a_query_that_is_started_again_goes_on_behind_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorder = Recorder(folder / "run_0.mcap")
    recorder.write(0, 100)
    batches = drain(follow(spark, folder, max_rows=30), tmp_path)
    assert sum(batches) == 100
    assert max(batches) <= 30
    recorder.write(100, 130)
    assert sum(drain(follow(spark, folder), tmp_path)) == 30
    assert drain(follow(spark, folder), tmp_path) == []
    assert sequences(spark, tmp_path) == [*range(130)]


DRIVER = """
    import sys
    import rtmw.spark

    spark = rtmw.spark.session("local[1]", memory="512m")
    rows = spark.readStream.format("rtmw").option("topic", "river").option("max_rows", 20).load(sys.argv[1])
    writer = rows.writeStream.format("parquet").option("checkpointLocation", sys.argv[2] + "/checkpoint")
    query = writer.start(sys.argv[2] + "/rows")
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    while True:
        sys.stdin.readline()
        print(sum(progress.numInputRows for progress in query.recentProgress), flush=True)
"""


# Proves G170.
def test_a_driver_that_is_killed_leaves_each_row_exactly_once(
    spark: SparkSession, spawn: Spawn, tmp_path: Path
) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorder = Recorder(folder / "run_0.mcap")
    recorder.write(0, 400)
    driver = spawn(DRIVER.replace("sys.argv[1]", repr(str(folder))).replace("sys.argv[2]", repr(str(tmp_path))))

    machine = psutil.Process(int(driver.line(LONG)))

    def has_begun() -> bool:
        driver.send()
        return int(driver.line(LONG)) > 0

    eventually(has_begun, LONG)
    driver.kill()
    eventually(lambda: not machine.is_running() or machine.status() == psutil.STATUS_ZOMBIE, LONG)
    recorder.write(400, 500)
    assert 0 < sum(drain(follow(spark, folder), tmp_path)) < 500
    assert sequences(spark, tmp_path) == [*range(500)]


def test_a_file_that_is_gone_unread_ends_the_query_in_plain_words(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorder = Recorder(folder / "run_0.mcap")
    recorder.write(0, 30)
    drain(follow(spark, folder), tmp_path)
    record(folder / "run_2.mcap", 30, 60)
    recorder.writer.close()
    with pytest.raises(Exception, match=r"run_1\.mcap is gone before it was read to its end"):
        drain(follow(spark, folder), tmp_path)


def test_a_topic_whose_type_changes_ends_the_query_in_plain_words(spark: SparkSession, tmp_path: Path) -> None:
    record(tmp_path / "run_0.mcap", 0, 10)
    query = follow(spark, tmp_path).writeStream.format("memory").queryName("changing").start()
    try:
        query.processAllAvailable()
        record(tmp_path / "run_1.mcap", 10, 20, kind=Order)
        with pytest.raises(Exception, match="messages of topic 'river' are now of another type, 'Order'"):
            query.processAllAvailable()
    finally:
        query.stop()
    assert spark.table("changing").count() == 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"starting": "yesterday"}, "option starting='yesterday' is not known: one of earliest, latest was expected"),
        ({"max_rows": "0"}, "option max_rows='0' is not known: a number from 1 was expected"),
        ({"max_rows": "1", "max_files": "1"}, "a batch has one limit; found max_files, max_rows"),
        ({"max_row": "1"}, "rtmw has no option 'max_row' for reading"),
    ],
)
def test_an_option_that_is_not_possible_is_named(options: dict[str, str], said: str) -> None:
    from rtmw.spark.stream import following, stream_options

    with pytest.raises(ValueError, match=said):
        _ = following(options), stream_options({"path": "x", **options})
