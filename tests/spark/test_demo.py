"""`rtmw.demo.offline` with Spark: a recording is counted, shown, drawn and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rtmw
from rtmw.demo import offline
from rtmw.demo.offline import TOPICS
from tests.demo.telemetry import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of PySpark, about the newest pandas
# Proves C3.
def test_spark_reads_what_was_recorded_and_replays_a_part_of_it(
    spark: SparkSession, tmp_path: Path, domain: rtmw.Domain, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = write(tmp_path / "telemetry.mcap", 40), tmp_path / "processor.png"
    found = offline.in_spark(spark, path, picture, domain)
    assert found == offline.Offline(dict.fromkeys(TOPICS, 40), 40, sum(range(40)), 40, sum(range(40)))
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "p99_us" in shown
    assert TOPICS[0] in shown
