"""The tests that may be tried again on a machine that runs, each with its reason.

A test belongs here if it waits for a program that is not ours, and keeps times of its own: a DDS program of others,
Spark, or the demonstration, which plays several programs at their real rates. Any other test that fails now and then
has a fault, or rtmw has: find it and mend it. The closing lines show each second try with its reason.
`tests/test_proofs.py` refuses a pattern that no test matches, one of another kind, and a list of more tests than MOST.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Listed:
    """Tests whose node ids match one of these patterns, in which `*` stands for any text, `/` too."""

    reason: str
    patterns: tuple[str, ...]


KINDS = (
    "tests/net/test_docs.py::test_its_program_",
    "tests/net/foreign/",
    "tests/torture/test_dds_rtps.py",
    "tests/spark/",
    "tests/demo/",
    "tests/cli/test_ending.py",
)
"""Where the tests of foreign DDS programs, of Spark and of the demonstration are; no other may be listed."""
MOST = 24
"""Tests that may be listed, each with all its cases. This number only shrinks."""

LISTED = (
    Listed(
        "programs of others find each other over DDS, and send again what was lost, at intervals of their own",
        (
            "tests/net/test_docs.py::test_its_program_*",
            "tests/net/foreign/test_instances.py::*",
            "tests/net/foreign/test_mixes.py::*",
            "tests/net/foreign/test_refused.py::*",
            "tests/net/foreign/test_ros2.py::*",
            "tests/net/foreign/test_tools.py::*",
            "tests/torture/test_dds_rtps.py::*",
        ),
    ),
    Listed(
        "the demonstration plays several programs at their real rates, and none may be late",
        ("tests/cli/test_ending.py::test_*_demonstration_*",),
    ),
    Listed(
        "Spark's streams and their JVM start, poll and end in times of their own",
        (
            "tests/spark/test_demo.py::*",
            "tests/spark/test_examples.py::*",
        ),
    ),
)


def reason(test: str, listed: tuple[Listed, ...] = LISTED) -> str | None:
    """Why the test with this node id may be tried again on a machine that runs; None: it may not."""
    return next((each.reason for each in listed if any(fnmatchcase(test, it) for it in each.patterns)), None)
