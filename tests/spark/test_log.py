"""Durable logs in Spark: typed rows, runs of segments a task, conditions, and streams that have each record once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import rtmw
from rtmw.spark.log_scan import open_log
from rtmw.spark.log_source import LogReader, log_partitions
from rtmw.spark.options import ReadOptions
from tests.spark.test_stream import drain
from tests.test_log_compaction import compact
from topics.river import Alarm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = 3000


def alarm(number: int) -> Alarm:
    return Alarm(f"A{number % 7}", "pH", value=number / 4, text="x" * (number % 50))


@pytest.fixture(scope="module")
def alarms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with several segments."""
    path = tmp_path_factory.mktemp("logs") / "alarms"
    append(path, 0, MANY)
    return path


def append(path: Path, begin: int, end: int) -> None:
    with rtmw.Log(path, Alarm, segment="64K", sync=False) as log:
        for number in range(begin, end):
            log.append(alarm(number), key=f"A{number % 7}", id=number)


def positions(path: Path) -> list[int]:
    with rtmw.Log(path, rtmw.ANY, create=False) as log:
        return [record.position for record in log.read()]


def test_each_record_is_a_row_with_the_members_of_its_value(spark: SparkSession, alarms: Path) -> None:
    frame = rtmw.spark.read(alarms, spark=spark)
    assert frame.columns[:6] == [
        "position",
        "time",
        "epoch",
        "key",
        "id_" if "id_" in frame.columns[:6] else "id",
        "time_ns",
    ]
    rows = sorted(frame.collect(), key=lambda row: row.position)
    with rtmw.Log(alarms, Alarm, create=False) as log:
        records = list(log.read())
    assert [row.position for row in rows] == [record.position for record in records]
    assert [row.time_ns for row in rows] == [record.time_ns for record in records]
    assert [(row.key, row.id, row.epoch) for row in rows] == [(r.key, str(r.id), r.epoch) for r in records]
    assert [(row.station, row.value, row.text) for row in rows] == [
        (r.value.station, r.value.value, r.value.text) for r in records
    ]


def test_the_format_gives_the_same_rows(spark: SparkSession, alarms: Path) -> None:
    own, by_format = rtmw.spark.read(alarms, spark=spark), spark.read.format("rtmw").load(str(alarms))
    assert own.schema == by_format.schema
    assert sorted(map(tuple, own.collect())) == sorted(map(tuple, by_format.collect()))


# Proves G134.
def test_a_task_reads_a_run_of_segments_and_all_together_read_each_record_once(
    spark: SparkSession, alarms: Path
) -> None:
    frame = rtmw.spark.read(alarms, spark=spark, partition_bytes=128 << 10, columns=["position"])
    assert frame.rdd.getNumPartitions() > 2
    assert sorted(row.position for row in frame.collect()) == positions(alarms)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, of which the full segments have the newest hundred records of each key."""
    path = tmp_path_factory.mktemp("logs") / "compacted"
    append(path, 0, MANY)
    compact(path, per_key=100)
    return path


# Proves G134.
def test_of_a_compacted_log_each_record_that_stayed_is_a_row(spark: SparkSession, compacted: Path) -> None:
    with rtmw.Log(compacted, Alarm, create=False) as log:
        records = list(log.read())
        assert log.stats().segments > 3
    assert len(records) < MANY // 2
    frame = rtmw.spark.read(compacted, spark=spark, partition_bytes=8 << 10)
    assert frame.rdd.getNumPartitions() > 2
    rows = sorted(frame.collect(), key=lambda row: row.position)
    assert [(row.position, row.time_ns, row.key, row.id, row.value) for row in rows] == [
        (r.position, r.time_ns, r.key, str(r.id), r.value.value) for r in records
    ]


@pytest.mark.parametrize("column", ["position", "time_ns"])
def test_a_condition_on_a_compacted_log_leaves_out_no_record_that_meets_it(
    column: str, spark: SparkSession, compacted: Path
) -> None:
    with rtmw.Log(compacted, Alarm, create=False) as log:
        numbers = [getattr(record, column) for record in log.read()]
    low, high = numbers[3], numbers[-3]
    frame = spark.read.format("rtmw").option("pushdown", "true").load(str(compacted))
    chosen = frame.where((frame[column] >= low) & (frame[column] < high)).select(column)
    assert sorted(row[column] for row in chosen.collect()) == sorted(n for n in numbers if low <= n < high)


# Proves G134.
def test_a_stream_goes_on_in_a_log_that_was_compacted_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    append(log, 0, 1000)
    rows = spark.readStream.format("rtmw").load(str(log)).select("position")
    assert drain(rows, state) == [1000]
    append(log, 1000, 2500)
    behind = [position for position in positions(log) if position > positions(log)[999]]
    compact(log, per_key=2)
    stayed = sorted({*behind} & {*positions(log)})
    assert drain(rows, state) == [len(stayed)]
    found = {row.position for row in spark.read.parquet(str(state / "rows")).collect()}
    assert sorted(position for position in found if position >= behind[0]) == stayed


def test_a_time_and_chosen_columns_are_read_from_there_on(spark: SparkSession, alarms: Path) -> None:
    with rtmw.Log(alarms, Alarm, create=False) as log:
        times = [record.time_ns for record in log.read()]
    middle = times[MANY // 2]
    frame = rtmw.spark.read(alarms, spark=spark, start=middle, columns=["value", "time"])
    assert frame.columns == ["value", "time"]
    assert frame.count() == sum(time >= middle for time in times)
    before = rtmw.spark.read(alarms, spark=spark, end=middle)
    assert before.count() == sum(time < middle for time in times)
    found = frame.orderBy("value").first()
    assert found is not None
    assert found.time.astimezone(UTC) == datetime.fromtimestamp(middle // 1000 / 1e6, UTC)


def test_conditions_on_positions_choose_the_segments_that_are_read(spark: SparkSession, alarms: Path) -> None:
    found = positions(alarms)
    low, high = found[MANY // 2], found[MANY // 2 + 10]
    frame = spark.read.format("rtmw").option("pushdown", "true").load(str(alarms))
    chosen = frame.where((frame.position >= low) & (frame.position < high)).select("position")
    assert sorted(row.position for row in chosen.collect()) == found[MANY // 2 : MANY // 2 + 10]
    with open_log(alarms) as folder:
        everything = log_partitions(folder, 0, found[-1], 1)
    from pyspark.sql.datasource import GreaterThanOrEqual, LessThan

    from rtmw.spark.log_source import log_reader, log_schema

    options = ReadOptions((str(alarms),), pushdown=True, partition_bytes=1)
    reader: Any = log_reader(str(alarms), options, log_schema(str(alarms), options), "one load")
    assert isinstance(reader, LogReader)
    reader.pushFilters([GreaterThanOrEqual(("position",), low), LessThan(("position",), high)])
    assert len(reader.partitions()) <= 2 < len(everything)


@pytest.mark.parametrize(
    ("kind", "value", "column", "shown"),
    [
        (bytes, b"abc", "payload", b"abc"),
        (np.dtype([("a", "<i4"), ("b", "<f8")]), np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")]), None, None),
    ],
)
def test_logs_of_other_types_have_rows_too(
    kind: Any, value: Any, column: str | None, shown: Any, spark: SparkSession, tmp_path: Path
) -> None:
    with rtmw.Log(tmp_path / "log", kind) as log:
        log.append(value)
    (row,) = rtmw.spark.read(tmp_path / "log", spark=spark).collect()
    assert row.position == 0
    if column is not None:
        assert row[column] == shown


def test_an_empty_log_has_columns_and_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    rtmw.Log(tmp_path / "log", Alarm).close()
    frame = rtmw.spark.read(tmp_path / "log", spark=spark)
    assert "station" in frame.columns
    assert frame.count() == 0


@pytest.mark.parametrize(("option", "value"), [("topic", "a"), ("type", "b"), ("carried", "true")])
def test_options_of_recordings_are_refused_for_a_log(
    option: str, value: str, spark: SparkSession, alarms: Path
) -> None:
    with pytest.raises(ValueError, match="is a log, which has one type and no topics"):
        rtmw.spark.read(alarms, spark=spark, **{option: value})  # type: ignore[arg-type]


def test_a_damaged_record_is_an_error_that_names_the_file(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "log", 0, 1500)
    first = sorted((tmp_path / "log").glob("*.seg"))[0]
    with first.open("r+b") as file:
        file.seek(20_000)
        file.write(b"\xff" * 64)
    with pytest.raises(Exception, match=first.name):
        rtmw.spark.read(tmp_path / "log", spark=spark).collect()


# Proves G134.
def test_a_stream_has_each_record_once_and_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    append(log, 0, 1000)
    rows = spark.readStream.format("rtmw").load(str(log)).select("position", "value")
    assert drain(rows, state) == [1000]
    append(log, 1000, 1700)
    assert drain(rows, state) == [700]
    assert drain(rows, state) == []
    found = sorted(spark.read.parquet(str(state / "rows")).collect(), key=lambda row: row.position)
    assert [row.position for row in found] == positions(log)
    assert [row.value for row in found] == [number / 4 for number in range(1700)]


# Proves G134.
def test_a_batch_of_a_stream_may_be_limited(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "log", 0, 1000)
    rows = spark.readStream.format("rtmw").option("max_rows", 400).load(str(tmp_path / "log")).select("position")
    assert drain(rows, tmp_path / "state") == [400, 400, 200]
