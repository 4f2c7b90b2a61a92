"""`rtmw report --spark`: the same page as without, to the last digit."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from rtmw.cli import main
from rtmw.recording.report.build import facts_of, write
from rtmw.recording.report.facts import contents_of
from tests.recording.report.made import night
from tests.recording.report.test_page import tables
from tests.recordings import numbered
from tests.spark import fields
from tests.spark.analyse.rows import time_of
from tests.whole import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Proves G149.
def test_a_report_by_spark_has_the_same_figures_as_one_without(spark: SparkSession, tmp_path: Path) -> None:
    from rtmw.spark.report import measure_in

    damaged = numbered(tmp_path / "c.mcap", ["x", "y"], 3000, chunk_bytes=8192, compression="none")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    contents = contents_of([night(tmp_path / "a.mcap"), fields.write(tmp_path / "b.mcap"), damaged])
    here = facts_of(contents, deadline=1.0)
    assert len(here.topics) == 9
    assert len(here.damage) == 1
    assert facts_of(contents, deadline=1.0, measure=measure_in(lambda: spark)) == here


def test_recordings_of_rivers_and_airports_get_their_tables(spark: SparkSession, tmp_path: Path) -> None:
    from rtmw.spark.report import fields_in

    path = fields.write(tmp_path / "a & b.mcap")
    write(facts_of(contents_of([path])), tmp_path / "report.html", 1.0, [fields_in(spark)])
    page = (tmp_path / "report.html").read_text()
    assert "<b>above</b>" not in page
    found = tables(page)
    assert sorted(row[2] for row in found["Delays"][1:]) == ["AA", "AA", "B6", "B6", "UA", "UA"]
    ends = [f"{time_of(fields.BEGIN + number * fields.STEP):%Y-%m-%d %H:%M:%S}.000" for number in (0, 10)]
    assert found["Alarms of the river"][1] == ["S0", "ph", *ends, "600", "10", "9.5", "9", "ph <b>above</b> 9"]
    hours = found["Water quality, by the hour"][1:]
    assert sum(int(row[3]) for row in hours) == fields.ROUNDS - 20
    assert found["Lifetimes"][1] == ["river/alarm", str(fields.ROUNDS), str(fields.ROUNDS), "1", "1"]


def test_a_recording_that_is_not_there_is_said_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--spark", str(tmp_path / "nothing.mcap")]) == 1
    assert "nothing.mcap" in capsys.readouterr().err


LOOK_S = 0.02
"""How often processes are looked for: without a pause that takes the processor from the JVM that starts."""


def processes_of(parent: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return parent.children(recursive=True)
    return []


def has_words(process: psutil.Process, words: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return words in " ".join(process.cmdline())
    return False


ENDED = [
    pytest.param(words, number, status, id=f"{when}-{number.name}")
    for words, when in (("java", "while Spark starts"), ("-m rtmw.spark.daemon", "while tasks run"))
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143))
]


@pytest.mark.parametrize(("words", "number", "status"), sample(ENDED, 2))
def test_a_report_that_is_ended_leaves_no_process_and_no_traceback(
    tmp_path: Path, words: str, number: signal.Signals, status: int
) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 200)
    with (tmp_path / "said").open("w") as said:
        command = [sys.executable, "-m", "rtmw", "report", str(path), "--spark", "-o", str(tmp_path / "report.html")]
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=Path(__file__).parents[2])
        children: list[psutil.Process] = []
        while not any(has_words(child, words) for child in children):
            assert process.poll() is None
            children = processes_of(psutil.Process(process.pid))
            time.sleep(LOOK_S)
        process.send_signal(number)
        assert process.wait(60) == status
    assert not [child for child in children if child.is_running()]
    told = (tmp_path / "said").read_text()
    assert "Traceback" not in told
    assert "Exception" not in told
