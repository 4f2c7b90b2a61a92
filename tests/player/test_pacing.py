"""Being on time: how long the player's thread sleeps and spins before a message is due."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import rtmw
from tests.child import Spawn
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


def test_unless_told_otherwise_it_spins_an_eighth_of_its_time_at_most(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 5000, apart_ns=MS // 10)
    began = time.monotonic()
    with rtmw.Replay(path) as replay:
        stats = replay.run()
    assert stats.published == 5000
    assert 0 < stats.spun <= (time.monotonic() - began) / 8 + CREDIT


PRIORITIES = """
    import os, sys, threading, time, rtmw
    try:
        rtmw.realtime.run_fifo(7)
    except rtmw.NotPermitted as error:
        sys.exit(print(error))
    with rtmw.Replay({path!r}):
        tasks = [int(task) for task in os.listdir("/proc/self/task")]
        player = next(task for task in tasks if open(f"/proc/self/task/{{task}}/comm").read() == "rtmw replay\\n")
        feeder = next(thread.native_id for thread in threading.enumerate() if thread.name == "rtmw replay feeder")
        while os.sched_getparam(feeder).sched_priority == 7:
            time.sleep(0.001)
        print(*(os.sched_getparam(task).sched_priority for task in (player, feeder)))
"""


def test_of_a_real_time_program_what_reads_ahead_runs_below_what_publishes(tmp_path: Path, spawn: Spawn) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 50, chunk_bytes=1)
    told = spawn(PRIORITIES.format(path=str(path))).line(60)
    if "may go up to" in told:
        pytest.skip(told)
    assert told == "7 6"
