"""Being on time: how long the player's thread sleeps and spins before a message is due."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import rtmw
from tests.recordings import MS, numbered

pytestmark = pytest.mark.usefixtures("domain")

CREDIT = 0.01
"""Seconds that it may spin at once."""


def test_without_a_spin_none_is_spun(tmp_path: Path) -> None:
    with rtmw.Replay(numbered(tmp_path / "a.mcap", ["t"], 100), spin=0.0) as replay:
        stats = replay.run()
    assert (stats.published, stats.spun) == (100, 0.0)


def test_with_a_spin_as_long_as_the_time_between_messages_it_never_sleeps(tmp_path: Path) -> None:
    with rtmw.Replay(numbered(tmp_path / "a.mcap", ["t"], 5, apart_ns=100 * MS), spin=3600.0) as replay:
        stats = replay.run()
    assert (stats.published, stats.overslept.count) == (5, 0)
    assert stats.spun > 0


def test_how_late_each_sleep_ended_is_counted(tmp_path: Path) -> None:
    with rtmw.Replay(numbered(tmp_path / "a.mcap", ["t"], 5, apart_ns=100 * MS)) as replay:
        stats = replay.run()
    assert 0 < stats.overslept.count <= 4
    assert stats.spun <= 4 * 0.1


def test_unless_told_otherwise_it_spins_a_quarter_of_its_time_at_most(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 5000, apart_ns=MS // 10)
    began = time.monotonic()
    with rtmw.Replay(path) as replay:
        stats = replay.run()
    assert stats.published == 5000
    assert 0 < stats.spun <= (time.monotonic() - began) / 4 + CREDIT
