"""A cluster: executors that are processes of their own read recordings and publish rows, with the package alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rtmw
from rtmw.spark.java import find_java
from tests.spark.recorded import reading, record

JOB = """
import sys

import rtmw.spark

path, domain = sys.argv[1:]
spark = rtmw.spark.session()
messages = spark.read.format("rtmw").load(path, topic="river")
print(spark.sparkContext.applicationId)
print("master", spark.sparkContext.master)
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
    settings = (f"spark.pyspark.python={sys.executable}", "spark.driver.memory=512m", "spark.ui.enabled=false")
    options = [word for setting in settings for word in ("--conf", setting)]
    words = [str(tool), "--master", "local-cluster[2,1,1024]", *options, str(job), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=350)
    assert done.returncode == 0, done.stderr
    application, *lines = done.stdout.splitlines()
    shutil.rmtree(home / "work" / application)
    return lines


@pytest.mark.usefixtures("java")
def test_a_submitted_job_reads_and_replays_on_executors(tmp_path: Path, domain: rtmw.Domain) -> None:
    for part in range(4):
        record(tmp_path / f"part{part}.mcap", 10 * part, 10 * part + 10)
    (tmp_path / "job.py").write_text(JOB)
    with rtmw.Subscriber("again", rtmw.ANY, domain=domain, reliability=rtmw.Reliability.RELIABLE) as subscriber:
        said = submit(tmp_path / "job.py", str(tmp_path), str(domain.id))
        heard = [sample.value.value for sample in subscriber.take_many(100)]
    total = sum(reading(number).value for number in range(40))
    assert said == ["master local-cluster[2,1,1024]", f"read 40 {total}", "replayed 40"]
    assert sum(heard) == pytest.approx(total)
