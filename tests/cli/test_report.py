"""`rtmw report`: what it prints, and its status."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rtmw.cli import main
from tests.recording.report.made import night

ROOT = Path(__file__).parents[2]


def test_it_says_the_verdict_and_what_did_not_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(night(tmp_path / "a.mcap")), "-o", str(page)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"{page}: warn",
        "  warn  silence: without a message: never; silent: dies for the last 12.1 s; interrupted: breaks for 4.1 s",
    ]


def test_as_json_it_says_all_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(night(tmp_path / "a.mcap")), "-o", str(tmp_path / "page.html"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "warn"
    assert {check["check"]: check["level"] for check in told["checks"]} == {
        "silence": "warn", "files": "pass", "disk": "pass", "complete": "pass", "messages": "pass", "missing": "pass",
        "sequences": "pass", "lifetimes": "pass", "clocks": "pass", "types": "pass",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("what", "status"),
    [([], 0), (["fail"], 0), (["warn"], 1), (["missing"], 0), (["silence"], 1), (["missing", "silence"], 1)],
)
def test_the_status_is_1_for_what_fail_on_names(tmp_path: Path, what: list[str], status: int) -> None:
    asked = [part for one in what for part in ("--fail-on", one)]
    assert main(["report", str(night(tmp_path / "a.mcap")), "-o", str(tmp_path / "page.html"), *asked]) == status


def test_a_missed_deadline_is_a_failure(tmp_path: Path) -> None:
    asked = ["--deadline", "1", "--fail-on", "fail"]
    assert main(["report", str(night(tmp_path / "a.mcap")), "-o", str(tmp_path / "page.html"), *asked]) == 1


def test_what_fail_on_does_not_know_is_refused_with_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(night(tmp_path / "a.mcap")), "--fail-on", "gaps"]) == 1
    assert "--fail-on gaps is none of warn, fail, files, disk, " in capsys.readouterr().err


def test_a_recording_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nothing.mcap")]) == 1
    assert "nothing.mcap" in capsys.readouterr().err


def test_so_is_a_folder_that_is_not_there_for_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "nowhere" / "page.html")]) == 1
    assert capsys.readouterr().err == f"rtmw: there is no folder {tmp_path / 'nowhere'} for page.html\n"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.mcap", "has the name of a recording: name a page, as report.html"),
        ("notes", "exists, and is no page: name another file, or remove it"),
        (".", "is a folder: name a file in it"),
        ("pipe", "exists, and is no page: name another file, or remove it"),
    ],
)
def test_the_page_replaces_nothing_but_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    recording, notes = night(tmp_path / "a.mcap"), tmp_path / "notes"
    notes.write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    before = recording.read_bytes()
    assert main(["report", str(recording), "-o", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err == f"rtmw: {tmp_path / name} {why}\n"
    assert (recording.read_bytes(), notes.read_text()) == (before, "mine")


def test_a_page_or_an_empty_file_is_replaced(tmp_path: Path) -> None:
    recording, page = night(tmp_path / "a.mcap"), tmp_path / "page.html"
    page.touch()
    for _ in range(2):
        assert main(["report", str(recording), "-o", str(page)]) == 0


def test_a_page_is_not_written_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(night(tmp_path / "a.mcap")), "-o", "-"]) == 1
    assert "this is not written to standard output: name a file" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["a.mcap"]


def test_intervals_that_are_too_short_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = night(tmp_path / "a.mcap")
    assert main(["report", str(path), "-o", str(tmp_path / "page.html"), "--every", "1ms"]) == 1
    assert "take 0.005 s or more" in capsys.readouterr().err


def test_a_report_needs_neither_spark_nor_arrow_nor_matplotlib(tmp_path: Path) -> None:
    night(tmp_path / "a.mcap")
    asked = ["report", str(tmp_path), "-o", str(tmp_path / "page.html")]
    source = (
        "import sys\n"
        "for name in ('pyspark', 'pyarrow', 'pandas', 'matplotlib'): sys.modules[name] = None\n"
        f"from rtmw.cli import main\nsys.exit(main({asked!r}))"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_on_a_terminal_it_says_how_far_it_is(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "rtmw", "report", str(night(tmp_path / "a.mcap")), "-o", str(tmp_path / "a.html")]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=its, text=True, timeout=60, check=True)
    os.close(its)
    shown = os.read(ours, 1 << 16).decode().split("\r\x1b[K")
    os.close(ours)
    assert shown[1] == "looked into 0 %"
    assert shown[-2:] == ["counted 100 %", ""]
    assert done.stdout.startswith(f"{tmp_path / 'a.html'}: warn\n")
