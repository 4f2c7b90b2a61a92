"""What a program sees of workers that had nothing to do for a minute: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark.plant import Plant

PROGRAM = """
import sys, time
import psutil
import rtmw.spark

spark = rtmw.spark.session("local[1]", memory="1g")
print(spark.read.format("rtmw").load(sys.argv[1]).count())


def workers():
    found = [one.info for one in psutil.process_iter(["pid", "ppid", "cmdline"], ad_value=[])]
    daemons = [one["pid"] for one in found if one["ppid"] == spark.sparkContext._gateway.proc.pid]
    return [one["cmdline"][-1] for one in found if one["ppid"] in daemons and one["cmdline"]]


def factories():
    field = spark._jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")
    field.setAccessible(True)
    found = field.get(spark.sparkContext._jsc.sc().env()).valuesIterator()
    while found.hasNext():
        yield found.next()


print(*sorted(workers()))
for factory in factories():
    getattr(factory, "org$apache$spark$api$python$PythonWorkerFactory$$cleanupIdleWorkers")()
until = time.monotonic() + 60
while workers() and time.monotonic() < until:
    time.sleep(0.05)
print(*workers())
spark.stop()
"""
"""Does what Spark's own clock does when a minute is over."""

PLANNERS = [
    f"pyspark.sql.worker.{work}" for work in ("create_data_source", "lookup_data_sources", "plan_data_source_read")
]


def test_workers_that_spark_ends_after_an_idle_minute_end_without_a_traceback(java: None, tmp_path: Path) -> None:
    plant = Plant(tmp_path / "plant.mcap")
    plant.put("pump/speed", range(1))
    plant.close()
    program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    rows, idle, left = done.stdout.splitlines()
    assert (rows, idle.split(), left) == ("1", [*PLANNERS, "pyspark.worker"], "")
    assert "Traceback" not in done.stderr
