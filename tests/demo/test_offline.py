"""`rtmw.demo.offline`: what was recorded is read and replayed, and each disagreement is a sentence."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.demo import course, offline
from rtmw.demo.offline import TOPICS, recorded
from tests.demo.telemetry import write

AGREED = offline.Offline(dict.fromkeys(TOPICS, 7), 5, 50, 5, 50)
RECORDED = dict.fromkeys(TOPICS, 7)


def test_a_recording_is_read_and_replayed_without_spark(tmp_path: Path, domain: rtmw.Domain) -> None:
    path = write(tmp_path / "telemetry.mcap", 40)
    found = offline.without_spark(path, domain)
    assert recorded(path) == found.rows == dict.fromkeys(TOPICS, 40)
    assert (found.selected, found.counted) == (40, 40)
    assert found.selected_sum == found.counted_sum == sum(range(40))
    assert found.problems(recorded(path)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": {TOPICS[0]: 6, TOPICS[1]: 7, TOPICS[2]: 7}}, f"7 messages of {TOPICS[0]} were recorded, but 6 were"),
        ({"counted": 4}, "5 messages were to be replayed, but 4 came, or others"),
        ({"counted_sum": 51}, "5 messages were to be replayed, but 5 came, or others"),
        ({"selected": 0, "selected_sum": 0, "counted": 0, "counted_sum": 0}, "Nothing was replayed"),
    ],
)
def test_what_does_not_agree_is_said(changes: dict[str, Any], words: str) -> None:
    assert AGREED.problems(RECORDED) == []
    (problem,) = replace(AGREED, **changes).problems(RECORDED)
    assert words in problem


def test_numbers_that_agree_to_the_end_give_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert course.show_offline(RECORDED, RECORDED, AGREED) == 0
    shown = capsys.readouterr().out
    assert "The numbers agree for all topics: published = recorded = read." in shown
    assert "5 messages, of which 5 were counted there" in shown


def test_what_was_published_and_is_not_in_the_recording_gives_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert course.show_offline(RECORDED | {TOPICS[0]: 8}, RECORDED, AGREED) == 1
    assert f"8 messages of {TOPICS[0]} were published, but 7 were recorded" in capsys.readouterr().out


FAILS = (sys.executable, "-m", "pip", "no-such-command")


def test_spark_that_is_there_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "PIP", FAILS)
    offline.install_spark()


def test_where_spark_cannot_be_installed_the_recording_is_read_without_it(
    tmp_path: Path, domain: rtmw.Domain, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(offline, "PIP", FAILS)
    monkeypatch.setattr(offline, "SPARK", ("a_package_that_is_not_there",))
    path = write(tmp_path / "telemetry.mcap", 40)
    found = course.read_and_replay(path, tmp_path / "picture.png", domain, spark=True, install=True)
    assert found.rows == dict.fromkeys(TOPICS, 40)
    said = capfd.readouterr()
    assert "Installing Spark" in said.out
    assert "Spark could not be installed; pip says why above.\nWithout Spark, rtmw reads" in said.out
    assert "no-such-command" in said.err
