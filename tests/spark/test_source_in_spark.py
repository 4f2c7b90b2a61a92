"""Recordings read with Spark itself: the numbers are those of a plain loop over the messages."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from rtmw.recording import Recording
from rtmw.spark.source import scanned
from tests.spark.plant import BEGIN, MS, Speed
from tests.spark.plant_folder import record_plant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_plant(tmp_path_factory.mktemp("plant"))


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.format("rtmw").load(str(path), **options)


def at(number: int) -> datetime:
    return datetime.fromtimestamp((BEGIN + number * MS) / 1e9, UTC)


def test_an_aggregate_is_that_of_a_plain_loop_and_of_parquet_to_the_last_digit(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    frame = read(spark, folder, type="plant.Speed")
    frame.write.parquet(str(tmp_path / "parquet"))
    expected: dict[int, list[Any]] = defaultdict(lambda: [0, 0.0, 0])
    for path in sorted(folder.rglob("*.mcap")):
        with Recording(path) as recording:
            for message in recording.messages({"pump/1/speed", "pump/2/speed"}):
                if not message.flags:
                    value = Speed.deserialize(message.payload)
                    sums = expected[value.pump]
                    expected[value.pump] = [sums[0] + 1, max(sums[1], value.rpm), sums[2] + value.turns]
    for rows in (frame, spark.read.parquet(str(tmp_path / "parquet"))):
        found = rows.groupBy("pump").agg(f.count("*"), f.max("rpm"), f.sum("turns")).collect()
        assert {row[0]: [row[1], row[2], int(row[3])] for row in found} == expected


def test_one_dataframe_may_be_asked_with_and_without_conditions(spark: SparkSession, folder: Path) -> None:
    frame = read(spark, folder / "a.mcap", type="plant.Speed", columns="log_time,sequence")
    early, late = frame.where(f.col("log_time") < at(100)), frame.where(f.col("log_time") >= at(100))
    assert [early.count(), frame.count(), early.union(late).count()] == [100, 3000, 3000]


def test_conditions_are_pushed_down_where_that_was_asked_for(spark: SparkSession, folder: Path) -> None:
    conditions = f"log_time >= '{at(1000)}' and log_time < '{at(1100)}' and topic like 'pump/1/%' and rpm > 0"
    frame = read(spark, folder, type="plant.Speed", pushdown="true").where(conditions)
    assert sorted(row.sequence for row in frame.select("sequence").collect()) == [*range(1000, 1100, 2)]
    found = scanned(frame)
    assert found.read.bytes < 0.1 * found.skipped.bytes
    assert str(found).endswith("in 1 partition")
    plan = frame._jdf.queryExecution().optimizedPlan().toString().splitlines()[0]
    assert "rpm" in plan
    assert "log_time" not in plan


# Proves G171.
def test_a_query_that_needs_less_than_it_reads_is_told_so_where_spark_tells_conditions(
    spark: SparkSession, folder: Path, workers_folder: Path
) -> None:
    def said() -> int:
        return len([*workers_folder.rglob("asked/*.said")])

    before, frame = said(), read(spark, folder / "a.mcap", topic="pump/1/speed")
    assert [frame.where(f.col("log_time") < at(until)).count() for until in (100, 200)] == [50, 100]
    assert said() == before + 1
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        frame = read(spark, folder / "a.mcap", topic="pump/1/speed")
        assert frame.where(f.col("log_time") < at(100)).count() == 50
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert said() == before + 1


def test_another_query_of_a_load_with_pushdown_is_refused_or_right(spark: SparkSession, folder: Path) -> None:
    frame = read(spark, folder / "a.mcap", topic="pump/1/speed", pushdown="true")
    early = frame.where(f.col("log_time") < at(100))
    assert [early.count(), early.count()] == [50, 50]
    for other in (frame, frame.where(f.col("log_time") < at(200)), early.union(frame.where(f.col("log_time") < at(7)))):
        with pytest.raises(PySparkException, match="call load once for each query, or leave the option out"):
            other.count()
    whole = read(spark, folder / "a.mcap", topic="pump/1/speed", pushdown="true")
    assert [whole.count(), whole.count()] == [1500, 1500]


def test_a_table_is_refused_with_what_to_do_and_a_view_is_made(spark: SparkSession, folder: Path) -> None:
    what = f"USING rtmw OPTIONS (path '{folder}', topic 'pump/1/speed')"
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW … USING rtmw OPTIONS"):
        spark.sql(f"CREATE TABLE speeds {what}")
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW … USING rtmw OPTIONS"):
        spark.sql(f"CREATE TABLE speeds USING rtmw LOCATION '{folder}'")
    spark.sql(f"CREATE TEMPORARY VIEW speeds {what}")
    assert spark.sql("SELECT count(*), max(rpm) FROM speeds").first() == (4500, 5999 / 7)


def test_a_frame_that_reads_no_recording_has_not_scanned(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match="reads no recording"):
        scanned(spark.range(3))


def test_what_is_wrong_reaches_the_caller_in_its_words(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(PySparkException, match=r"no topic 'pump' in 2 recording\(s\); there are pump/1/speed"):
        read(spark, folder, topic="pump")
    with pytest.raises(PySparkException, match=r"plant.Speed\.turns: .* is beyond 64 bits with a sign"):
        read(spark, folder, topic="pump/1/speed", unsigned64="long").collect()
