"""A second try for a test that failed while the machine stood still; in CI (RTMW_SECOND_TRY=always) for any other too.

A process beside the tests sleeps 10 ms again and again. It tells of each sleep that took far longer: no program of this
machine could keep a time then. A test that failed meanwhile is tried again, at most twice, and the closing line counts
the tries. A test that fails on a machine that runs has failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

TRIES = 2
LEAST_S = 0.1
"""Shorter pauses each test has to bear."""

METER = f"""
import os, sys, time
before = time.monotonic()
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
    now = time.monotonic()
    if now - before > {LEAST_S}:
        print(now, flush=True)
    before = now
"""


class Stalls:
    """Knows when the machine stood still last; a plugin of pytest."""

    def __init__(self) -> None:
        self.meter = subprocess.Popen([sys.executable, "-c", METER, str(os.getpid())], stdout=subprocess.PIPE)
        assert self.meter.stdout is not None
        self._told = self.meter.stdout.fileno()
        os.set_blocking(self._told, False)
        self._last = self._began = float("-inf")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=TRIES, condition=self.stood_still))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._began = time.monotonic()

    def pytest_unconfigure(self) -> None:
        self.meter.kill()
        self.meter.communicate()

    def stood_still(self, error: BaseException | None) -> bool:
        """Whether a pause has ended since the test began that failed with this; None: it did not fail."""
        if error is None:
            return False
        if os.environ.get("RTMW_SECOND_TRY") == "always":
            return True
        time.sleep(2 * LEAST_S)  # one that goes on is told of when it ends
        try:
            while told := os.read(self._told, 65536):
                self._last = float(told.split()[-1])
        except BlockingIOError:
            pass
        return self._last > self._began
