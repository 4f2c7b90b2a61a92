"""The tests' own rules: what may be skipped, and what is tried again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from tests.order import LONGEST
from tests.second_tries import KINDS, LISTED, MOST, reason

ROOT = Path(__file__).parents[1]
PLUGINS = """
from tests import required
from tests.second_tries import Listed
from tests.stalls import Stalls

def pytest_configure(config):
    config.pluginmanager.register(required)
    config.pluginmanager.register(Stalls((Listed("its time is measured", ("test_it.py::test_listed*",)),)), "stalls")
"""
NOT_LOADED = ("cacheprovider", "benchmark", "hypothesispytest", "timeout", "xdist.looponfail")
"""Plugins that have no part in it, and take more than half of the time of such a run."""
STALL = """
import signal, time

def test_fails_while_the_machine_stands(pytestconfig):
    meter = pytestconfig.pluginmanager.getplugin("stalls").meter
    meter.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    meter.send_signal(signal.SIGCONT)
    assert False
"""


NO_STALL = """
import signal

def test_fails_while_the_meter_tells_of_nothing(pytestconfig):
    pytestconfig.pluginmanager.getplugin("stalls").meter.send_signal(signal.SIGSTOP)
    assert False
"""


LISTED_TESTS = """
import pathlib

def test_listed_passes_at_its_second_try():
    tried = pathlib.Path("tried")
    if not tried.exists():
        tried.touch()
        assert False

def test_listed_fails():
    assert False
"""


def run(folder: Path, source: str, *arguments: str, **environment: str) -> str:
    """The closing lines of pytest for this test file."""
    (folder / "conftest.py").write_text(PLUGINS)
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        *(word for name in NOT_LOADED for word in ("-p", f"no:{name}")),
        "--rootdir",
        str(folder),
        *arguments,
        str(folder),
    ]
    unset = dict.fromkeys(("PYTEST_ADDOPTS", "RTMW_REQUIRE"), "")
    env = {**os.environ, **unset, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize(
    "skip",
    [
        "def test(): pytest.skip('needs the Tool')",
        "@pytest.mark.skipif(True, reason='needs the Tool')\ndef test(): ...",
    ],
)
def test_a_skip_for_want_of_what_is_required_is_no_skip(skip: str, tmp_path: Path) -> None:
    source = f"import pytest\n\n{skip}\n"
    assert "1 skipped" in run(tmp_path, source)
    assert "1 skipped" in run(tmp_path, source, RTMW_REQUIRE="other,")
    told = run(tmp_path, source, RTMW_REQUIRE="other, tool")
    assert "1 failed in" in told or "1 error in" in told
    assert "RTMW_REQUIRE says that tool is here" in told


def test_a_test_that_fails_on_a_machine_that_runs_is_not_tried_again(tmp_path: Path) -> None:
    """Told by a meter that sees no pause, for this machine may stand still just now."""
    told = run(tmp_path, NO_STALL)
    assert "1 failed in" in told
    assert "rerun" not in told


def test_a_test_that_fails_while_the_machine_stands_still_is_tried_twice_more_and_counted(tmp_path: Path) -> None:
    told = run(tmp_path, STALL)
    assert "1 failed, 2 rerun in" in told
    assert "0 of listed tests, 2 because the machine stood still" in told


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_listed_test_is_tried_twice_more_and_shown_with_its_reason(workers: str, tmp_path: Path) -> None:
    told = run(tmp_path, LISTED_TESTS, "-n", workers)
    assert "1 failed, 1 passed, 3 rerun in" in told
    assert "1 × test_it.py::test_listed_passes_at_its_second_try: its time is measured" in told
    assert "2 × test_it.py::test_listed_fails: its time is measured" in told
    assert "3 of listed tests, 0 because" in told


@cache
def all_tests() -> list[str]:
    """The node ids of the tests of this repository, without parameters."""
    sources = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    named = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
    return [f"{path}::{name}" for path, source in sources.items() for name in named.findall(source)]


def test_each_pattern_in_the_list_of_second_tries_matches_a_test() -> None:
    patterns = [pattern for each in LISTED for pattern in each.patterns]
    assert [it for it in patterns if not any(fnmatchcase(test, it) for test in all_tests())] == []


def test_only_tests_of_programs_of_others_are_tried_again_and_few_of_them() -> None:
    patterns = [pattern for each in LISTED for pattern in each.patterns]
    assert [pattern for pattern in patterns if not pattern.startswith(KINDS)] == []
    assert len([test for test in all_tests() if reason(test)]) <= MOST


def test_what_begins_first_is_there() -> None:
    assert [unit for unit in LONGEST if not (ROOT / unit).exists()] == []


def test_what_depends_on_no_time_is_not_in_the_list() -> None:
    for test in ("tests/shm/test_admission.py", "tests/types/test_codec.py", "tests/net/session/test_wire.py"):
        assert reason(f"{test}::test_any") is None
