"""When a recorded message is due."""

from __future__ import annotations

import time

from rtmw.spark.pace import Pace

MS = 1_000_000


def test_a_row_waits_until_its_time_divided_by_the_rate() -> None:
    begin = time.monotonic_ns()
    pace = Pace(2.0, epoch_ns=1000, start_ns=begin)
    pace.wait(1000 + 40 * MS)
    assert time.monotonic_ns() - begin >= 20 * MS


def test_the_first_row_is_due_at_once_if_nothing_else_is_said() -> None:
    begin = time.monotonic_ns()
    pace = Pace(1.0)
    pace.wait(1 << 60)
    assert pace.start_ns >= begin
    pace.wait((1 << 60) + 10 * MS)
    assert time.monotonic_ns() - pace.start_ns >= 10 * MS


def test_a_belated_row_follows_at_once_and_is_measured() -> None:
    pace = Pace(1.0, epoch_ns=0, start_ns=time.monotonic_ns() - 5000 * MS)
    pace.wait(1000 * MS)
    assert pace.worst_late_ns >= 4000 * MS


def test_without_a_rate_nothing_waits() -> None:
    pace = Pace(0)
    pace.wait(1 << 62)
    assert pace.worst_late_ns == 0
