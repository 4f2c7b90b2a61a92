"""A second try for a test that failed while the machine stood still, or that stands in a list (second_tries.py).

A process beside the tests sleeps 10 ms again and again. It tells of each sleep that took far longer: no program of this
machine could keep a time then. A test that failed meanwhile is tried again, at most twice, and so is a test in the
list. The closing line counts these tries, and a section before it names each with its reason. Any other test that
fails on a machine that runs has failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.second_tries import LISTED, Listed, reason

TRIES = 2
LEAST_S = 0.1
"""Shorter pauses each test has to bear."""

STOOD_STILL = "the machine stood still"

METER = f"""
import os, sys, time
def tell(at):
    os.write(1, b"%f\\n" % at)  # one write, so that no reader gets a part of it
before = time.monotonic()
tell(before)
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
    now = time.monotonic()
    if now - before > {LEAST_S}:
        tell(now)
    before = now
"""


class Stalls:
    """Knows when the machine stood still last, and which tests are listed; a plugin of pytest."""

    def __init__(self, listed: tuple[Listed, ...] = LISTED) -> None:
        self._listed = listed
        self.meter = subprocess.Popen([sys.executable, "-c", METER, str(os.getpid())], stdout=subprocess.PIPE)
        assert self.meter.stdout is not None
        self._told = self.meter.stdout.fileno()
        os.read(self._told, 64)  # it has begun: what stands still from now on is seen
        os.set_blocking(self._told, False)
        self._last = self._began = float("-inf")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            condition = True if reason(item.nodeid, self._listed) else self.stood_still
            item.add_marker(pytest.mark.flaky(reruns=TRIES, condition=condition))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._began = time.monotonic()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        tries = Counter(report.nodeid for report in terminalreporter.getreports("rerun"))
        if not tries:
            return
        terminalreporter.section("second tries")
        for test, count in sorted(tries.items()):
            terminalreporter.line(f"{count} × {test}: {reason(test, self._listed) or STOOD_STILL}")
        listed = sum(count for test, count in tries.items() if reason(test, self._listed))
        terminalreporter.line(f"{listed} of listed tests, {tries.total() - listed} because {STOOD_STILL}")

    def pytest_unconfigure(self) -> None:
        self.meter.kill()
        self.meter.communicate()

    def stood_still(self, error: BaseException | None) -> bool:
        """Whether a pause has ended since the test began that failed with this; None: it did not fail."""
        if error is None:
            return False
        time.sleep(2 * LEAST_S)  # one that goes on is told of when it ends
        try:
            while told := os.read(self._told, 65536):
                self._last = float(told.split()[-1])
        except BlockingIOError:
            pass
        return self._last > self._began
