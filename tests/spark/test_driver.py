"""The session of a program, and what it sees to."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

import rtmw
import rtmw.spark
from rtmw.spark.driver import environment
from tests.recordings import numbered

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


HOUR = 3600 * 10**9
THEIR_OWN = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.sql.python.filterPushdown.enabled": "false",
    "spark.sql.execution.python.udf.buffer.size": "65536",
}
"""Settings of a user's session, other than those of a session of rtmw."""


def where_workers_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    import rtmw

    for batch in batches:
        where = [sys.executable, str(Path(rtmw.__file__).parents[1])]
        yield pa.record_batch([[where[0]] * len(batch), [where[1]] * len(batch)], names=["python", "rtmw"])


def test_workers_run_this_python_with_this_rtmw(spark: SparkSession) -> None:
    found = spark.range(8, numPartitions=4).mapInArrow(where_workers_are, "python string, rtmw string").distinct()
    assert [tuple(row) for row in found.collect()] == [(sys.executable, str(Path(rtmw.__file__).parents[1]))]


def test_everything_listens_on_loopback_only(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_rows_come_through_sockets_in_a_folder_of_this_program_alone(spark: SparkSession) -> None:
    folder = Path(str(spark.conf.get("spark.python.unix.domain.socket.dir")))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert spark.range(1).mapInArrow(where_workers_are, "python string, rtmw string").count() == 1
    sockets = [path for path in folder.iterdir() if path.name != "owner"]
    assert all(stat.S_ISSOCK(path.stat().st_mode) for path in sockets)
    assert len(sockets) > 1  # where accumulators are told, and where workers are asked for


def test_the_folder_of_sockets_is_gone_with_the_program() -> None:
    source = "from rtmw.spark import driver; print(driver.sockets_folder())"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert "rtmw-spark-" in done.stdout
    assert not Path(done.stdout.strip()).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_folder_of_a_program_that_was_killed_is_removed_by_the_next_one(number: signal.Signals) -> None:
    source = "from rtmw.spark import driver; print(driver.sockets_folder(), flush=True); input()"
    with TemporaryDirectory(prefix="t", dir="/tmp") as short:  # or there would be no folder of sockets
        own = {**os.environ, "TMPDIR": short}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": own}
        with ExitStack() as started:
            programs, folders = list[subprocess.Popen[str]](), list[Path]()
            for _ in range(3):
                program = started.enter_context(subprocess.Popen([sys.executable, "-c", source], **pipes))
                started.callback(program.kill)
                folders.append(Path(program.stdout.readline().strip()))
                if not programs:
                    assert folders[0].exists()
                    program.send_signal(number)
                    program.wait(60)
                    assert folders[0].exists()
                programs.append(program)
            assert [folder.exists() for folder in folders] == [False, True, True]
            for program in programs[1:]:
                program.communicate("\n", timeout=60)
        assert [*Path(short).iterdir()] == []


def test_where_paths_are_too_long_for_sockets_there_are_none(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    source = "from rtmw.spark import driver; print(driver.worker_sockets())"
    own = {**os.environ, "TMPDIR": str(deep)}
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True, env=own
    )
    assert done.stdout.strip() == "{}"
    assert [*deep.iterdir()] == []


def test_arrow_does_not_check_again_what_spark_has_checked(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert jvm.org.apache.arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED is False
    assert jvm.org.apache.arrow.vector.NullCheckingForGet.NULL_CHECKING_ENABLED is False


def test_java_options_of_the_caller_are_added_to_ours(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert jvm.System.getProperty("rtmw.kept") == "yes"
    assert jvm.System.getProperty("log4j2.configurationFile").endswith("/rtmw/spark/log4j2.properties")


def test_filters_are_pushed_down_and_times_are_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"


def test_a_session_that_was_made_elsewhere_keeps_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3)
    other = spark.newSession()
    for name, value in THEIR_OWN.items():
        other.conf.set(name, value)
    before = dict(other.conf.getAll)
    rtmw.spark.register(other)
    assert rtmw.spark.read(path, spark=other).count() == 3
    assert dict(other.conf.getAll) == before


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Tokyo"])
def zoned(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """The session in a time zone."""
    name = "spark.sql.session.timeZone"
    before = str(spark.conf.get(name))
    spark.conf.set(name, request.param)
    yield spark
    spark.conf.set(name, before)


def test_columns_are_instants_in_any_zone(zoned: SparkSession, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 48, apart_ns=HOUR)
    fast = rtmw.spark.read(path)
    columns = ("unix_micros(log_time) AS us", "log_time_ns", "string(log_time) AS words")
    rows = fast.selectExpr(*columns).orderBy("us").collect()
    assert [row.us for row in rows] == [row.log_time_ns // 1000 for row in rows]
    half = rows[24]
    for frame in (fast, zoned.read.format("rtmw").load(str(path))):
        for condition in (f"log_time >= '{half.words}'", f"log_time >= timestamp_micros({half.us})"):
            assert frame.where(condition).count() == 24
    assert rtmw.spark.read(path, start=datetime.fromtimestamp(half.us / 1e6, UTC)).count() == 24


def test_the_environment_of_the_program_is_afterwards_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTMW_KEPT", "before")
    with environment({"RTMW_KEPT": "within", "RTMW_NEW": "within"}):
        assert (os.environ["RTMW_KEPT"], os.environ["RTMW_NEW"]) == ("within", "within")
    assert os.environ["RTMW_KEPT"] == "before"
    assert "RTMW_NEW" not in os.environ


def test_a_second_session_is_the_running_one(spark: SparkSession) -> None:
    assert rtmw.spark.session() is spark


def test_a_setting_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="'memoy' is no setting; there are master, name, memory, ui"):
        rtmw.spark.session(memoy="2g")


def test_without_pyspark_it_is_said_how_to_install_it() -> None:
    source = "import sys; sys.modules['pyspark'] = None\nimport rtmw.spark\nrtmw.spark.session()"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert "PySpark is not installed, which rtmw.spark needs" in done.stderr
    assert "pip install 'rtmw[spark]'" in done.stderr


def test_what_it_offers_is_the_same_each_time_it_is_asked_for(java: None) -> None:
    first = [getattr(rtmw.spark, name) for name in rtmw.spark.__all__]
    assert [getattr(rtmw.spark, name) for name in rtmw.spark.__all__] == first


def test_importing_rtmw_spark_starts_and_imports_nothing_of_spark() -> None:
    source = "import sys, rtmw.spark; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], timeout=60).returncode == 0
