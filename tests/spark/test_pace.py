"""When a recorded message is due."""

from __future__ import annotations

from rtmw.spark.sink import Pace
from tests.clocks import Moved

MS = 1_000_000


def test_a_row_waits_until_its_time_divided_by_the_rate() -> None:
    clock = Moved()
    begin = clock.monotonic_ns()
    pace = Pace(2.0, epoch_ns=1000, start_ns=begin, clock=clock)
    pace.wait(1000 + 40 * MS)
    assert clock.monotonic_ns() - begin == 20 * MS
    clock.pass_by(0.005)
    pace.wait(1000 + 60 * MS)
    assert clock.monotonic_ns() - begin == 30 * MS
    assert pace.worst_late_ns == 0


def test_the_first_row_is_due_at_once_if_nothing_else_is_said() -> None:
    clock = Moved()
    pace = Pace(1.0, clock=clock)
    pace.wait(1 << 60)
    assert pace.start_ns == clock.monotonic_ns()
    pace.wait((1 << 60) + 10 * MS)
    assert clock.monotonic_ns() - pace.start_ns == 10 * MS


def test_a_belated_row_follows_at_once_and_is_measured() -> None:
    clock = Moved()
    pace = Pace(1.0, epoch_ns=0, start_ns=clock.monotonic_ns() - 5000 * MS, clock=clock)
    before = clock.monotonic_ns()
    pace.wait(1000 * MS)
    assert clock.monotonic_ns() == before
    assert pace.worst_late_ns == 4000 * MS


def test_without_a_rate_nothing_waits() -> None:
    clock = Moved()
    before = clock.monotonic_ns()
    Pace(0, clock=clock).wait(1 << 62)
    assert clock.monotonic_ns() == before
