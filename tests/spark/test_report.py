"""`rtmw.spark.report`: one page, whole by itself, with what the analyses say."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from rtmw.cli import main
from rtmw.spark.page import Page, heading, shown
from tests.recordings import Maker, numbered
from tests.spark import fields
from tests.spark.analyse.rows import time_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tables(page: str) -> dict[str, list[list[str]]]:
    """The cells of each table by the heading before it. Fails where the page is not well formed."""
    body = page[page.index("<main>") : page.index("</main>")] + "</main>"
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for part in ET.fromstring(body):
        if part.tag == "h2":
            heading = part.text or ""
        for row in part.iter("tr"):
            found.setdefault(heading, []).append([cell.text or "" for cell in row])
    return found


def test_a_report_is_one_page_with_all_that_is_known(spark: SparkSession, tmp_path: Path) -> None:
    from rtmw.spark.report import report

    path = fields.write(tmp_path / "a & b.mcap")
    output = report(str(path), tmp_path / "report.html", spark=spark, deadline=60.0)
    page = output.read_text()
    assert "a &amp; b.mcap, from 2023-11-14 22:13:20 to 2023-11-15 01:12:20 UTC" in page
    assert "<b>above</b>" not in page
    assert page.count("<svg") == 4
    assert not [line for line in page.splitlines() if "src=" in line or "<link" in line or "@import" in line]
    found = tables(page)
    topics = ["airport/departure", "machine/load", "river/alarm", "river/reading"]
    assert [row[:2] for row in found["Topics"][1:]] == [[topic, str(fields.ROUNDS)] for topic in topics]
    assert found["Latency"][1][:4] == ["airport/departure", str(fields.ROUNDS), "2,000", "2,000"]
    assert found["Deadline"][1] == ["airport/departure", str(fields.ROUNDS), "60", "0", "60", "0"]
    assert found["Lifetimes"][1] == ["river/alarm", str(fields.ROUNDS), str(fields.ROUNDS), "1", "1"]
    assert sorted(row[2] for row in found["Delays"][1:]) == ["AA", "AA", "B6", "B6", "UA", "UA"]
    ends = [shown(time_of(fields.BEGIN + number * fields.STEP)) for number in (0, 10)]
    assert found["Alarms of the river"][1] == ["S0", "ph", *ends, "600", "10", "9.5", "9", "ph <b>above</b> 9"]
    hours = found["Water quality, by the hour"][1:]
    assert sum(int(row[3]) for row in hours) == fields.ROUNDS - 20


def test_a_report_counts_from_when_the_recorder_began_until_it_ended(tmp_path: Path) -> None:
    from rtmw.spark.report import _contents

    paths = [numbered(tmp_path / "a.mcap", ["t"], 3)]
    assert _contents(paths).ends == {"since": None, "until": None, "known": []}
    for name, began, ended in (("b", 5, 9), ("c", 7, 8)):
        with Maker(tmp_path / f"{name}.mcap") as maker:
            told = {"started_ns": str(began), "ended_ns": str(ended), "known": f'["t", "{name}"]'}
            maker.writer.metadata("rtmw.recorder", told)
        paths.append(maker.path)
    assert _contents(paths[1:]).ends == {"since": 5, "until": 9, "known": ["t", "b", "c"]}
    assert _contents(paths).ends == {"since": 5, "until": None, "known": ["t", "b", "c"]}  # a may be longer


def test_values_are_shown_for_people() -> None:
    cells = [None, 3, 12345, 0.123456, 1234.5, 7.0, "<text>", time_of(fields.BEGIN)]
    assert [shown(cell) for cell in cells] == [
        "–", "3", "12,345", "0.1235", "1,234", "7", "<text>", "2023-11-14 22:13:20",
    ]  # fmt: skip


def test_headings_of_columns_are_words_with_units() -> None:
    assert [heading(name) for name in ("topic", "gap_p99_ms", "late_share", "p999_us", "hz", "deadline_s")] == [
        "topic", "gap p99, ms", "late share", "p999, µs", "Hz", "deadline, s",
    ]  # fmt: skip


def test_a_page_escapes_what_it_is_told() -> None:
    page = Page("a < b", "c & d")
    page.heading("<h>", "<p>")
    page.cards([("<1>", "<2>")])
    page.table(["<c>"], [["<v>"]])
    html = page.html("<end>")
    for text in ("a < b", "c & d", "<h>", "<p>", "<1>", "<2>", "<c>", "<v>", "<end>"):
        assert escape(text) in html


def test_a_recording_that_is_not_there_is_said_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "nothing.mcap")]) == 1
    assert "nothing.mcap" in capsys.readouterr().err


def test_so_is_a_folder_that_is_not_there_for_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "nowhere" / "page.html")]) == 1
    assert capsys.readouterr().err == f"rtmw: there is no folder {tmp_path / 'nowhere'} for page.html\n"


def processes_of(parent: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return parent.children(recursive=True)
    return []


def has_words(process: psutil.Process, words: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return words in " ".join(process.cmdline())
    return False


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("words", ["java", "-m rtmw.spark.daemon"], ids=["while Spark starts", "while tasks run"])
def test_a_report_that_is_ended_leaves_no_process_and_no_traceback(
    tmp_path: Path, words: str, number: signal.Signals, status: int
) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 200)
    with (tmp_path / "said").open("w") as said:
        command = [sys.executable, "-m", "rtmw", "report", str(path), "-o", str(tmp_path / "report.html")]
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=Path(__file__).parents[2])
        children: list[psutil.Process] = []
        while not any(has_words(child, words) for child in children):
            assert process.poll() is None
            children = processes_of(psutil.Process(process.pid))
        process.send_signal(number)
        assert process.wait(60) == status
    assert not [child for child in children if child.is_running()]
    told = (tmp_path / "said").read_text()
    assert "Traceback" not in told
    assert "Exception" not in told
