"""Pacing on a simulated line: what is handed to the kernel stays little, whatever came before."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import rtmw

LINE = Path(__file__).parents[1] / "torture" / "wire" / "pacing_line.c"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    net, program = Path(rtmw.__file__).parent / "net" / "dds", tmp_path_factory.mktemp("line") / "line"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", f"-I{net}"]
    subprocess.run([compiler, *flags, "-o", program, LINE, net / "pacing.c"], check=True, timeout=60)
    return program


def holds(line: Path, case: str) -> None:
    done = subprocess.run([line, case], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_flood_after_a_quiet_time_is_paced_like_the_one_before_it(line: Path) -> None:
    holds(line, "quiet")


def test_a_line_that_was_fast_and_becomes_slow_has_little_queued(line: Path) -> None:
    holds(line, "fast")


def test_a_host_that_does_not_answer_holds_up_no_topic_for_others(line: Path) -> None:
    holds(line, "dead")
