"""The tests' own rules: what may be skipped, and what is tried again."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGINS = """
from tests import required
from tests.stalls import Stalls

def pytest_configure(config):
    config.pluginmanager.register(required)
    config.pluginmanager.register(Stalls(), "stalls")
"""
STALL = """
import signal, time

def test_fails_while_the_machine_stands(pytestconfig):
    meter = pytestconfig.pluginmanager.getplugin("stalls").meter
    meter.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    meter.send_signal(signal.SIGCONT)
    assert False
"""


def run(folder: Path, source: str, **environment: str) -> str:
    """The closing lines of pytest for this test file."""
    (folder / "conftest.py").write_text(PLUGINS)
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        str(folder),
    ]
    unset = dict.fromkeys(("PYTEST_ADDOPTS", "RTMW_REQUIRE", "RTMW_SECOND_TRY"), "")
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
    for _ in range(10):  # this machine may stand still just now
        told = run(tmp_path, "def test(): assert False")
        if "rerun" not in told:
            break
    assert "1 failed in" in told


def test_a_test_that_fails_while_the_machine_stands_still_is_tried_twice_more_and_counted(tmp_path: Path) -> None:
    assert "1 failed, 2 rerun in" in run(tmp_path, STALL)
