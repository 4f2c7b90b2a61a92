"""What conditions spare of a log: by its sparse indexes, and never a row that the query wants."""

from __future__ import annotations

import os
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rtmw
from rtmw.log import Folder, bases, look_into
from rtmw.spark.log_scan import LogScan, open_log
from rtmw.spark.log_source import log_layout, log_partitions, log_scan, needed, segments_of
from rtmw.spark.options import ReadOptions
from rtmw.spark.partitions import SMALLEST
from rtmw.spark.source import spark_schema
from tests.bus import eventually
from tests.log.test_seek import BEGIN, clock, set_times, wait_for_indexes
from topics.river import Alarm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS: Final = 200
LENGTH: Final = 6000
"""Of the text of each record: ten of them are a stretch, forty a segment."""


def made(path: Path, kind: str) -> Path:
    """A log with segments of four stretches, and the times that a clock of this kind shows."""
    with rtmw.Log(path, Alarm, segment="256K") as log:
        for number in range(RECORDS):
            log.append(Alarm(f"A{number % 7}", "pH", value=float(number), text="x" * LENGTH), key=str(number))
    for index in path.glob("*.idx"):
        index.unlink()
    set_times(path, clock(kind))
    wait_for_indexes(path, Alarm)
    return path


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("steady") / "log", "steady")


@pytest.fixture(scope="module")
def jumping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("jumping") / "log", "set back")


def records(path: Path) -> list[rtmw.LogRecord[Any]]:
    with rtmw.Log(path, rtmw.ANY, create=False) as log:
        return [*log.read()]


def positions(frame: DataFrame) -> list[int]:
    return sorted(row.position for row in frame.collect())


def moment(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def test_the_stretches_of_a_log_follow_each_other_and_begin_with_a_record(steady: Path) -> None:
    begins = {record.position for record in records(steady)}
    with open_log(steady) as folder:
        start, end = folder.bounds()
        segments = [*segments_of(folder, start, end)]
    found = [stretch for segment in segments for stretch in segment]
    assert len(segments) > 3
    assert max(map(len, segments)) > 2
    assert [one.end for one in found] == [*(one.start for one in found[1:]), end]
    assert found[0].start == start
    assert {one.start for one in found} <= begins


@pytest.mark.parametrize("target", [1, 100_000, 1 << 30])
def test_the_tasks_of_a_condition_have_its_stretches_once(target: int, steady: Path) -> None:
    condition = pc.field("position") >= pa.scalar(500_000, pa.int64())
    with open_log(steady) as folder:
        start, end = folder.bounds()
        wanted = needed([*segments_of(folder, start, end)], condition)
        tasks = log_partitions(folder, start, end, target, condition)
    covered = [(low, high) for task in tasks for low, high in task.runs]
    assert sum(high - low for low, high in covered) == sum(one.end - one.start for one in wanted)
    assert sum(task.extent.chunks for task in tasks) == len(wanted)
    assert sum(task.extent.bytes + task.skipped.bytes for task in tasks) == end - start
    assert covered[0][0] <= 500_000 < covered[-1][1] == end


@pytest.mark.parametrize("log", ["steady", "jumping"])
@pytest.mark.parametrize("column", ["time", "time_ns"])
# Proves G135.
def test_a_condition_on_times_reads_stretches_that_have_them(
    column: str, log: str, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(log)
    low, high = moment(600), moment(700)
    bounds = [value if column == "time" else int(value.timestamp()) * 10**9 for value in (low, high)]
    frame = rtmw.spark.read(path, spark=spark)
    rows = frame.where((frame[column] >= bounds[0]) & (frame[column] < bounds[1])).select("position")
    wanted = [r.position for r in records(path) if low.timestamp() <= r.time_ns / 1e9 < high.timestamp()]
    assert len(wanted) in (10, 20)
    assert positions(rows) == wanted
    found = rtmw.spark.scanned(rows)
    assert found.skipped.bytes > (1.5 if log == "steady" else 0.5) * found.read.bytes > 0
    assert str(found.read.bytes) in rows._jdf.queryExecution().toString()  # what explain() shows


def test_a_condition_on_positions_reads_stretches_that_have_them(steady: Path, spark: SparkSession) -> None:
    wanted = [record.position for record in records(steady)][90:95]
    frame = rtmw.spark.read(steady, spark=spark)
    rows = frame.where(frame.position.between(wanted[0], wanted[-1])).select("position")
    assert positions(rows) == wanted
    assert rtmw.spark.scanned(rows).read.chunks <= 2


def test_start_and_end_leave_out_stretches_too(steady: Path, spark: SparkSession) -> None:
    rows = rtmw.spark.read(steady, spark=spark, start=moment(600), end=moment(700), columns=["position"])
    assert len(positions(rows)) == 10
    found = rtmw.spark.scanned(rows)
    assert found.skipped.bytes > 1.5 * found.read.bytes > 0


def test_the_format_pushes_conditions_on_times_down(steady: Path, spark: SparkSession) -> None:
    frame = spark.read.format("rtmw").option("pushdown", "true").load(str(steady))
    rows = frame.where((frame.time >= moment(600)) & (frame.time < moment(700))).select("position")
    assert len(positions(rows)) == 10
    found = rtmw.spark.scanned(rows)
    assert found.skipped.bytes > 1.5 * found.read.bytes > 0


@pytest.mark.parametrize("condition", ["value > 190", "time is not null", "not (time < '1970-01-01')", "key = '7'"])
def test_what_the_indexes_do_not_know_is_read(condition: str, steady: Path, spark: SparkSession) -> None:
    frame = rtmw.spark.read(steady, spark=spark)
    rows = frame.where(condition)
    assert rtmw.spark.scanned(rows).skipped.bytes == 0
    assert rows.count() == {"value > 190": 9, "key = '7'": 1}.get(condition, RECORDS)


# Proves G135.
def test_without_indexes_all_is_read_and_no_row_is_lost(tmp_path: Path, spark: SparkSession) -> None:
    path = made(tmp_path / "log", "set back")
    for index in path.glob("*.idx"):
        index.unlink()
    frame = rtmw.spark.read(path, spark=spark)
    rows = frame.where(frame.time >= moment(600))
    assert rows.count() == sum(record.time_ns >= moment(600).timestamp() * 1e9 for record in records(path))
    assert rtmw.spark.scanned(rows).skipped.bytes == 0


def test_rows_that_are_derived_are_those_of_the_read(tmp_path: Path, spark: SparkSession) -> None:
    path = made(tmp_path / "log", "steady")
    frame = rtmw.spark.read(path, spark=spark)
    with rtmw.Log(path, Alarm) as log:
        log.append(Alarm("late", "pH", value=1e9, text=""))
    assert frame.where("value >= 0").select("value").count() == RECORDS
    assert rtmw.spark.read(path, spark=spark).count() == RECORDS + 1


def scan_for(folder: Folder, *columns: str) -> LogScan:
    options = ReadOptions((folder.path,), columns=columns)
    return log_scan(folder, options, spark_schema(log_layout(folder, options)[0].chosen(columns)))


@pytest.mark.parametrize(
    ("columns", "parts"),
    [("position,time", {"place", "key", "id"}), ("key", {"place", "id"}), ("value", {"key", "id"})],
)
def test_what_no_column_needs_is_not_gathered(columns: str, parts: set[str], steady: Path) -> None:
    with open_log(steady) as folder:
        wanted = scan_for(folder, *columns.split(","))._wanted
        run = folder.reader(0).run(folder.bounds()[1], wanted, 0, 1 << 63, 10, 1000)
    assert run is not None
    absent = {name for name, place in (("place", 4), ("key", 7), ("id", 8)) if run[place] is None}
    assert absent == parts


def test_a_task_reads_what_is_durable_and_recovers_nothing(tmp_path: Path) -> None:
    """The driver has done so; a task that did it too would read the last segment once more."""
    left = tmp_path / "left"
    with rtmw.Log(tmp_path / "log", Alarm) as log:
        log.append(Alarm("A", "pH"))
        shutil.copytree(tmp_path / "log", left)  # as a writer leaves it that is killed

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in left.iterdir()}

    before = files()
    with look_into(left) as folder:
        (task,) = log_partitions(folder, *folder.bounds(), None)
        scan = scan_for(folder)
    assert [batch.num_rows for batch in scan.read(task)] == [1]
    assert files() == before
    open_log(left).close()
    assert files() != before, "there was something to recover"


def sizes_of_tasks(path: Path, target: int | None = None) -> list[int]:
    """Bytes that each task reads, of all records; which are read once."""
    with open_log(path) as folder:
        start, end = folder.bounds()
        tasks = log_partitions(folder, start, end, target)
    runs = [run for task in tasks for run in task.runs]
    for record in records(path):
        assert sum(low <= record.position < high for low, high in runs) == 1
    return [task.extent.bytes for task in tasks]


def test_a_young_log_of_many_small_segments_is_one_task(tmp_path: Path) -> None:
    path = made(tmp_path / "log", "steady")
    assert len([*path.glob("*.seg")]) > 4
    assert len(sizes_of_tasks(path)) == 1


def test_a_large_log_has_tasks_for_all_processors_also_in_its_last_segment(tmp_path: Path, spark: SparkSession) -> None:
    with rtmw.Log(tmp_path / "log", bytes, segment="1G") as log:
        for number in range(160):
            log.append_many([bytes([number]) * 100_000] * 4)
    sizes = sizes_of_tasks(tmp_path / "log")
    with open_log(tmp_path / "log") as folder:
        assert 2 * (folder.bounds()[1] - bases(folder)[-1]) > sum(sizes)  # half of it in the last segment
    assert len(sizes) >= min(os.cpu_count() or 1, sum(sizes) // (2 * SMALLEST))
    assert max(sizes) < 3 * sum(sizes) / len(sizes)
    frame = rtmw.spark.read(tmp_path / "log", spark=spark, partition_bytes="3M")
    assert frame.rdd.getNumPartitions() >= len(sizes)
    assert positions(frame.select("position")) == [record.position for record in records(tmp_path / "log")]


def test_what_compaction_has_removed_makes_no_tasks(tmp_path: Path) -> None:
    options: dict[str, Any] = {"segment": "64K", "retention": rtmw.Retention(per_key=1)}
    with rtmw.Log(tmp_path / "log", bytes, **options) as log:
        for number in range(100):
            log.append(bytes(20_000), key=f"once {number}" if number % 20 == 0 else "often")
        eventually(lambda: log.stats().compacted > 1_800_000)
    sizes = sizes_of_tasks(tmp_path / "log", target=200_000)
    assert sum(sizes) < 200_000
    assert len(sizes) == 1
