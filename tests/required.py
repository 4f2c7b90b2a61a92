"""Where RTMW_REQUIRE names what a machine has, a test that is skipped for want of it fails.

The variable is a list of words, with commas between them, such as `RTMW_REQUIRE=tshark,spin,namespace`. The reason of
each skip names what is missing. If one of the words stands in it, the skip is a failure: what cites this test as its
proof would have none.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

VARIABLE = "RTMW_REQUIRE"


def required(reason: str) -> str | None:
    """The first word of RTMW_REQUIRE that stands in this reason; None: it may be skipped."""
    words = (word.strip() for word in os.environ.get(VARIABLE, "").split(","))
    return next((word for word in words if word and word.lower() in reason.lower()), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip that may not be becomes a failure."""
    report = yield
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if word := required(reason):
            report.outcome = "failed"
            report.longrepr = f"{VARIABLE} says that {word} is here, but the test would be skipped: {reason}"
    return report
