"""`where` and `select` of `rtmw.spark.read` read less, and give the rows that all would give."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.clientserver import ClientServerConnection  # type: ignore[import-untyped]
from pyspark.sql import functions as f

import rtmw.spark
from rtmw.spark import scanned
from rtmw.spark.reading import Reading
from rtmw.spark.rowset import Rowset
from tests.recording.frames.mixed import Mixed, Mode
from tests.spark.plant import BEGIN, MS, Plant
from tests.spark.test_source import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("java")


def mixed(number: int) -> Mixed:
    """In chunks of a hundred; the last one has NaN."""
    single = math.nan if number == 950 else number / 2
    huge = (1 << 63) + number
    mode = Mode.ON if number % 3 else Mode.OFF
    return Mixed(number % 100, number, -number, huge, single, number / 7, mode, f"t{number}", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    for file in range(2):
        plant = Plant(folder / f"{file}.mcap", chunk_bytes=1 << 20)
        for begin in range(500 * file, 500 * file + 500, 100):
            plant.put(f"mixed/{file}", range(begin, begin + 100), mixed)
            plant.writer.flush()
        plant.close()
    return folder


CONDITIONS = {
    "single > 420 and single < 430": 2,  # the chunk that has a NaN has no range of it
    "single >= 'NaN'": 10,
    "not single < 420": 2,
    "double between 10 and 10.5": 1,
    "huge = 9223372036854775811": 1,
    "huge > 9223372036854777000": 0,
    "`long` in (-5, -105) and small = 5": 2,
    "`long` < -799 or word < 3": 3,
    "word > 2000": 0,
    "maybe is null and word < 100": 1,
    "maybe > 3": 10,
    "mode = 'ON' and word >= 900": 1,
    "text = 't7'": 10,
    "small + 1 > 200": 10,
    "topic like 'mixed/1%' and word % 2 = 0": 5,
    f"log_time >= '{at(850)}'": 2,
    f"log_time_ns < {BEGIN + 100 * MS}": 1,
    "word > rand() * 0 + 5": 10,
    "word = null": 0,
}
"""With the number of chunks that are read, at most."""


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.sequence for row in frame.select("sequence").collect())


def test_a_condition_skips_chunks_and_no_row(spark: SparkSession, folder: Path) -> None:
    everything = rtmw.spark.read(folder, type="plant.Mixed")
    plain = spark.read.format("rtmw").load(str(folder), type="plant.Mixed")
    for condition, chunks in CONDITIONS.items():
        found = everything.where(condition)
        assert numbers(found) == numbers(plain.where(condition)), condition
        if condition != "word = null":  # which Spark answers without a look at anything
            assert scanned(found).read.chunks <= chunks, condition
            assert scanned(found).read.chunks + scanned(found).skipped.chunks == 10, condition


def test_one_query_has_nothing_of_another(spark: SparkSession, folder: Path) -> None:
    frame = rtmw.spark.read(folder, type="plant.Mixed")
    early, late = frame.where(frame.word < 100), frame.where(f.col("word") >= 900)
    assert [early.count(), frame.count(), late.count(), frame.count()] == [100, 1000, 100, 1000]
    assert early.union(late).count() == 200
    assert early.join(frame.where("word < 50"), "sequence").count() == 50
    assert early.where(early.word > 98).select(early.word + 1, frame["small"]).collect() == [(100, 99)]
    assert frame.where("word < 10").agg(f.max("text")).collect() == [("t9",)]


def test_select_decodes_the_columns_that_are_selected_or_looked_at(spark: SparkSession, folder: Path) -> None:
    frame = rtmw.spark.read(folder, type="plant.Mixed", partition_bytes="4K")
    some = frame.select("word", (f.col("single") * 2).alias("twice")).where("word < 3").where("twice > 0")
    assert some.collect() == [(1, 1.0), (2, 2.0)]
    plan = some._jdf.queryExecution().optimizedPlan().toString()
    assert "MapInArrow" in plan
    assert "double#" not in plan
    assert "text#" not in plan
    assert scanned(some).read.chunks == 1
    assert frame.select(f.count("*")).collect() == [(1000,)]
    assert len(frame.select(f.explode(f.array("word", "small"))).collect()) == 2000


def test_the_index_is_asked_once_for_a_condition_and_again_for_another(spark: SparkSession, folder: Path) -> None:
    frame = rtmw.spark.read(folder, type="plant.Mixed")
    early = frame.where("word < 300")
    chosen, derived = early.select("word"), early.where("word >= 100").select("word")
    assert isinstance(early, Rowset)
    assert isinstance(chosen, Rowset)
    assert isinstance(derived, Rowset)
    assert scanned(early).read.chunks == scanned(chosen).read.chunks == 3
    assert reading_of(chosen).chunks is reading_of(early).chunks
    assert len(reading_of(chosen).looked_up) == 2  # without a condition, and with that one
    assert scanned(derived).read.chunks == 2
    assert derived.count() == 200


def reading_of(frame: Rowset) -> Reading:
    source = frame._source
    assert isinstance(source, Reading)
    return source


@pytest.mark.parametrize(
    "condition",
    [
        "word in (select max(word) from mixed_rows)",
        "exists (select 1 from mixed_rows as other where other.word = rows.word + 999)",
        "word = (select min(other.word) from mixed_rows as other where other.small = rows.small)",
    ],
)
def test_conditions_with_other_queries_in_them_find_the_same_rows(
    spark: SparkSession, folder: Path, condition: str
) -> None:
    rows = rtmw.spark.read(folder, topic="mixed/*", type="plant.Mixed", spark=spark)
    rows.createOrReplaceTempView("mixed_rows")
    plain = rows.toDF(*rows.columns).alias("rows").where(condition).select("word")
    assert sorted(rows.alias("rows").where(condition).select("word").collect()) == sorted(plain.collect())


@pytest.mark.parametrize("name", ["a#7", "a\x1fb#7", "\n", "7L"])
def test_a_column_may_be_called_as_plans_write_columns(spark: SparkSession, folder: Path, name: str) -> None:
    rows = rtmw.spark.read(folder, topic="mixed/*", spark=spark)
    named = rows.select(f.col("word").alias(name), "small").where("small = 5").select(f"`{name}`")
    assert sorted(row[0] for row in named.collect()) == [*range(5, 1000, 100)]


def test_no_answer_about_a_plan_is_so_long_that_its_rest_waits(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, answers = ClientServerConnection.send_command, list[str]()

    def noted(connection: ClientServerConnection, command: str) -> str:
        answers.append(send(connection, command))
        return answers[-1]

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    rtmw.spark.read(folder, topic="mixed/*", spark=spark).where("word = 7 or small < 5").select("word", "small").count()
    assert len(answers) > 50
    assert max(map(len, answers)) < 8000


def test_what_is_cached_stays_cached(spark: SparkSession, folder: Path) -> None:
    frame = rtmw.spark.read(folder, type="plant.Mixed").cache()
    assert frame.where("word < 100").count() == 100
    assert "InMemory" in frame.where("word < 100")._jdf.queryExecution().executedPlan().toString()
    frame.unpersist()


def test_many_partitions_are_narrowed_too(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtmw.spark.reading.MOST_TASKS", 2)
    frame = rtmw.spark.read(folder, type="plant.Mixed", partition_bytes="4K")
    assert scanned(frame).partitions == 10
    found = frame.where("word >= 300 and word < 700")
    assert (found.count(), scanned(found).partitions) == (400, 4)
