"""`rtmw.demo.durable`: alarms into a log whose writer is killed, and each disagreement is a sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.demo import course
from rtmw.demo.durable import Durable, through_log
from tests.demo.telemetry import write

AGREED = Durable(4, 2, 3, 3, (0, 1, 2, 3))


def test_the_writer_is_killed_and_each_alarm_is_in_the_log_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "telemetry.mcap", 200)
    found = through_log(path, tmp_path / "alarms", 200)
    assert found.problems() == []
    assert 100 <= found.answered <= found.survived
    assert course.show_durable(found) == 0
    assert "The numbers agree: the log has 200 records, each alarm once" in capsys.readouterr().out
    with rtmw.Log(tmp_path / "alarms", rtmw.ANY, create=False) as log:
        assert {record.key for record in log.read()} == {"cpu"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"answered": 5}, "5 appends were answered, and 3 records survived the kill"),
        ({"repeated": 2}, "3 records survived, and 2 appends were made again"),
        ({"numbers": (0, 1, 1, 2, 3)}, "4 alarms were appended, and the log has 5 records, or others"),
    ],
)
def test_what_does_not_agree_is_said(changes: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert AGREED.problems() == []
    (problem,) = replace(AGREED, **changes).problems()
    assert problem.startswith(words)
    assert course.show_durable(replace(AGREED, **changes)) == 1
    assert f"Problem: {words}" in capsys.readouterr().out
