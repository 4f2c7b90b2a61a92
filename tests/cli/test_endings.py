"""What signals may set, whatever they interrupt."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rtmw.cli.endings import Demand

STORM = """
import signal, sys, threading, time
from rtmw.cli.endings import Demand
demand = Demand()
signal.signal(signal.SIGALRM, lambda *_: demand.set())
signal.setitimer(signal.ITIMER_REAL, 0.00005, 0.00005)
end = time.monotonic() + 1.0
while time.monotonic() < end:
    demand.set()
    assert demand.wait(0.01)
    demand.clear()
signal.setitimer(signal.ITIMER_REAL, 0)
print("it goes on")
"""


def test_a_demand_that_signals_set_while_the_program_sets_and_waits_for_it_stops_nobody() -> None:
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "it goes on\n"


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_demand_is_set_until_it_is_cleared(timeout: float) -> None:
    demand = Demand()
    assert not demand.wait(timeout)
    demand.set()
    demand.set()
    assert demand.wait(timeout)
    assert demand.is_set()
    demand.clear()
    assert not demand.is_set()
    assert not demand.wait(timeout)
