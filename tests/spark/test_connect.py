"""Spark Connect: the session is here, and Spark with its workers on a server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rtmw
from rtmw.spark.driver import find_java
from tests.spark.recorded import reading, record

PROGRAM = """
import sys

from pyspark.sql import SparkSession

import rtmw
from rtmw.spark import analyse

path, domain = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.remote("local[2]").config("spark.driver.memory", "512m").getOrCreate()
try:
    rows = rtmw.spark.read(path, topic="river", spark=spark)
except rtmw.NotInstalled as error:
    print(error)
    spark.stop()
    sys.exit()
print("read", *rows.selectExpr("count(*)", "sum(value)").first())
print("where", rows.where("value > 3").count(), spark.read.format("rtmw").load(path, topic="river").count())
spark.sql(f"CREATE TEMPORARY VIEW river USING rtmw OPTIONS (path '{path}', topic 'river')")
print("sql", *spark.sql("SELECT count(*) FROM river").first())
messages = rtmw.spark.read(path, typed=False, spark=spark)
print("rates", analyse.rates(messages).first().messages, analyse.latency(messages).first().messages)
print("replay", rtmw.spark.replay(rows, rate=0, domain=domain).messages)
print("paced", rtmw.spark.replay(rows, rate=1e6, domain=domain).messages)
rows.write.format("rtmw").mode("append").option("domain", domain).save()
try:
    rtmw.spark.scanned(rows)
except TypeError as error:
    print(error)
spark.stop()
"""


def run(path: Path, domain: int, python: str) -> list[str]:
    """The lines of a program whose server has workers with this Python."""
    pytest.importorskip("grpc", reason="no grpc: Spark Connect needs pip install 'pyspark[connect]'")
    own = {"JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    own["PYTHONPATH"] = str(Path(rtmw.__file__).parents[1]) if python == sys.executable else ""
    command = [sys.executable, "-c", PROGRAM, str(path), str(domain)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own}, timeout=350)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.mark.usefixtures("java")
# Proves G174.
def test_reading_sql_analyses_and_publishing_work_over_spark_connect(tmp_path: Path, domain: rtmw.Domain) -> None:
    record(tmp_path / "a.mcap", 0, 10)
    with rtmw.Subscriber("river", rtmw.ANY, domain=domain, reliability=rtmw.Reliability.RELIABLE) as subscriber:
        said = run(tmp_path, domain.id, sys.executable)
        heard = [sample.value.value for sample in subscriber.take_many(100)]
    values = [reading(number).value for number in range(10)]
    assert said[:4] == [
        f"read 10 {sum(values)}",
        f"where {sum(value > 3 for value in values)} 10",
        "sql 10",
        "rates 10 10",
    ]
    assert said[4:6] == ["replay 10", "paced 10"]
    assert "Spark Connect plans elsewhere" in said[6]
    assert sorted(heard) == sorted(values * 3)


@pytest.mark.usefixtures("java")
# Proves G174.
def test_a_server_whose_workers_do_not_find_rtmw_is_told_at_the_call(tmp_path: Path, domain: rtmw.Domain) -> None:
    record(tmp_path / "a.mcap", 0, 1)
    (said,) = run(tmp_path, domain.id, str(Path(sys.base_prefix) / "bin" / "python3"))
    assert said.startswith("the Python of the Spark Connect server cannot import rtmw")
    assert "set PYSPARK_PYTHON" in said
