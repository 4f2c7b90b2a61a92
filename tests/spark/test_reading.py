"""`rtmw.spark.read`: the rows that the format "rtmw" has, by tasks of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.testing.utils import assertDataFrameEqual

import rtmw.spark
from rtmw.errors import RecordingError
from rtmw.spark import reading
from tests.spark.plant import BEGIN, MS, Plant, Speed
from tests.spark.plant_folder import record_plant
from tests.spark.test_source_in_spark import at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_plant(tmp_path_factory.mktemp("plant"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"topic": "report"},
        {"topic": "pump/*", "carried": "true"},
        {"type": "plant.Speed", "columns": "offset, file, rpm, expires, type, payload"},
        {"topic": "raw", "typed": "false"},
    ],
    ids=str,
)
def test_its_rows_and_columns_are_those_of_the_format(
    spark: SparkSession, folder: Path, options: dict[str, Any]
) -> None:
    expected = spark.read.format("rtmw").load(str(folder), **options)
    found = rtmw.spark.read(folder, **options)
    assert found.schema == expected.schema
    assertDataFrameEqual(found, expected)


def test_options_may_be_values_of_python(spark: SparkSession, folder: Path) -> None:
    paths, topics = [folder / "a.mcap", folder / "deeper"], ["pump/1/speed", "pump/2/speed"]
    chosen = {"topic": topics, "type": Speed, "columns": ["log_time_ns"], "carried": False}
    found = rtmw.spark.read(paths, start=at(100), end=at(3100), **chosen)
    assert sorted((row.log_time_ns - BEGIN) // MS for row in found.collect()) == [*range(100, 3100)]


def test_what_it_reads_is_told_from_the_plan(spark: SparkSession, folder: Path) -> None:
    frame = rtmw.spark.read(folder, type=Speed, start=at(1000), end=at(1100))
    found, same = rtmw.spark.scanned(frame.where("rpm > 0")), rtmw.spark.scanned(frame.groupBy("pump").count())
    assert found == same
    assert found.read.bytes < 0.1 * found.skipped.bytes
    period = {"start": "2025-10-09T08:53:21", "end": "1760000001100000000"}
    plain = spark.read.format("rtmw").load(str(folder), type="plant.Speed", **period)
    assert found == rtmw.spark.scanned(plain)
    both = rtmw.spark.scanned(frame.unionAll(plain))
    assert (both.partitions, both.read) == (2 * found.partitions, found.read + found.read)


def test_many_tasks_are_several_functions_that_read_each_row_once(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_TASKS", 7)
    frame = rtmw.spark.read(folder / "a.mcap", type=Speed, columns="sequence", partition_bytes=8192)
    assert frame.rdd.getNumPartitions() == rtmw.spark.scanned(frame).partitions > 14
    assert sorted(row.sequence for row in frame.collect()) == sorted([*range(3000)])


def test_a_recording_that_grows_has_more_rows_for_the_next_call(spark: SparkSession, tmp_path: Path) -> None:
    plant = Plant(tmp_path / "run_0.mcap")
    plant.put("river", range(500))
    plant.writer.flush()
    frame = rtmw.spark.read(plant.path, topic="river", incomplete="read")
    before = frame.count()
    plant.put("river", range(500, 1000))
    plant.close()
    assert 0 < before == frame.count() < 1000
    assert rtmw.spark.read(plant.path, topic="river").count() == 1000


def test_what_is_wrong_is_said_at_once_and_by_its_own_error(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"no topic 'pump' in 2 recording\(s\); there are pump/1/speed"):
        rtmw.spark.read(folder, topic="pump")
    with pytest.raises(FileNotFoundError, match="there is no recording nowhere"):
        rtmw.spark.read("nowhere")
    with pytest.raises(RecordingError, match="is no recording"):
        rtmw.spark.read(__file__)
    with pytest.raises(TypeError, match=r"read\(\) has no keyword 'topics'; there are topic, type, columns"):
        rtmw.spark.read(folder, topics="raw")  # type: ignore[call-arg]
    with pytest.raises(PySparkException, match=r"plant.Speed\.turns: .* is beyond 64 bits with a sign"):
        rtmw.spark.read(folder, topic="pump/1/speed", unsigned64="long").collect()
