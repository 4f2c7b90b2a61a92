"""A cluster: executors that are processes of their own read recordings and publish rows, with the package alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rtmw
from rtmw.spark.driver import find_java
from tests.conftest import SHORT_LIVED
from tests.spark.recorded import reading, record

JOB = """
import logging
import sys

import rtmw.spark

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage().partition(":")[0])
logging.getLogger("rtmw").addHandler(handler)
path, domain = sys.argv[1:]
spark = rtmw.spark.session()
messages = spark.read.format("rtmw").load(path, topic="river")
print(spark.sparkContext.applicationId)
print("master", spark.sparkContext.master, *said)
print("read", *messages.selectExpr("count(*)", "sum(value)").first())
replayed = rtmw.spark.replay(messages, topic="again", domain=int(domain), rate=0, tasks=1)
print("replayed", replayed.messages)
"""


def submit(job: Path, *arguments: str) -> list[str]:
    """The lines of a job that spark-submit runs on two executors, one core each; their folder is removed."""
    import pyspark

    home = Path(pyspark.__file__).parent
    tool = home / "bin" / "spark-submit"
    environment = {**os.environ, "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = (
        f"spark.pyspark.python={sys.executable}", "spark.driver.memory=512m", "spark.ui.enabled=false",
        f"spark.executor.extraJavaOptions={SHORT_LIVED}", "spark.speculation=true",
    )  # fmt: skip
    options = [word for setting in settings for word in ("--conf", setting)]
    words = [str(tool), "--master", "local-cluster[2,1,1024]", *options, str(job), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=350)
    assert done.returncode == 0, done.stderr
    application, *lines = done.stdout.splitlines()
    shutil.rmtree(home / "work" / application)
    return lines


ELSEWHERE = """
import sys

from pyspark.sql import SparkSession

import rtmw

master, path = sys.argv[1:]
spark = SparkSession.builder.master(master).config("spark.driver.memory", "512m").config("spark.ui.enabled", "false")
spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF").getOrCreate()
print(spark.sparkContext.applicationId)
try:
    rtmw.spark.register(spark)
    print(spark.read.format("rtmw").load(path).count(), rtmw.spark.read(path, spark=spark).count())
except rtmw.NotInstalled as error:
    print(error)
"""


def run_elsewhere(folder: Path, master: str) -> list[str]:
    """The lines of a program whose session was not made by rtmw, and whose workers would run a Python without rtmw."""
    import pyspark

    record(folder / "a.mcap", 0, 10)
    (folder / "program.py").write_text(ELSEWHERE)
    other = Path(sys.base_prefix) / "bin" / "python3"
    own = {"JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(other)}
    command = [sys.executable, str(folder / "program.py"), master, str(folder / "a.mcap")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own}, timeout=350, cwd=folder)
    assert done.returncode == 0, done.stderr
    application, *lines = done.stdout.splitlines()
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)
    return lines


@pytest.mark.usefixtures("java")
def test_workers_of_a_session_that_was_made_elsewhere_on_this_machine_run_this_python(tmp_path: Path) -> None:
    assert run_elsewhere(tmp_path, "local[1]") == ["10 10"]


@pytest.mark.usefixtures("java")
def test_executors_that_do_not_find_rtmw_are_told_at_the_call(tmp_path: Path) -> None:
    (said,) = run_elsewhere(tmp_path, "local-cluster[1,1,1024]")
    assert said.startswith("the Python of the executors cannot import rtmw")
    assert "set spark.pyspark.python" in said


@pytest.mark.usefixtures("java")
def test_a_submitted_job_reads_and_replays_on_executors(tmp_path: Path, domain: rtmw.Domain) -> None:
    for part in range(4):
        record(tmp_path / f"part{part}.mcap", 10 * part, 10 * part + 10)
    (tmp_path / "job.py").write_text(JOB)
    with rtmw.Subscriber("again", rtmw.ANY, domain=domain, reliability=rtmw.Reliability.RELIABLE) as subscriber:
        said = submit(tmp_path / "job.py", str(tmp_path), str(domain.id))
        heard = [sample.value.value for sample in subscriber.take_many(100)]
    total = sum(reading(number).value for number in range(40))
    assert said == ["master local-cluster[2,1,1024] spark.speculation is on", f"read 40 {total}", "replayed 40"]
    assert sum(heard) == pytest.approx(total)
