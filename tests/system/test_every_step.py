"""A process killed or stopped at any atomic operation of the core harms nobody: each of them is tried, one by one."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest

import rtmw
from tests.child import Spawn

OPERATIONS = (
    "publish in place",
    "publish granules",
    "publish pages",
    "publish and evict",
    "publish reliably",
    "publish to another band",
    "publish the first of a topic",
    "drop loans",
    "take and release",
    "take the newest",
    "open a subscriber",
    "open a publisher of a new topic",
    "close",
    "attach",
)


def compiler() -> list[str]:
    usual = shlex.split(os.environ.get("CC") or "")
    found = [name for name in ("cc", "gcc", "clang") if shutil.which(name)]
    if not usual and not found:
        pytest.skip("there is no C compiler to build the core with steps")
    return usual or found[:1]


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of rtmw whose core counts its atomic operations."""
    folder, package = tmp_path_factory.mktemp("stepped"), Path(rtmw.__file__).parent
    shutil.copytree(package, folder / "rtmw", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    sources = [str(path) for path in (folder / "rtmw" / "shm").glob("*.c")]
    built = folder / "rtmw" / "shm" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ["-O1", "-std=gnu11", "-D_GNU_SOURCE", "-DRTMW_EXPLORE", "-shared", "-fPIC"]
    include = f"-I{sysconfig.get_path('include')}"
    steps = str(Path(__file__).with_name("steps.c"))
    command = [*compiler(), *flags, include, *sources, steps, "-o", str(built)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("operation", OPERATIONS)
# Proves G14.
def test_a_process_killed_or_stopped_before_any_step_of_an_operation_harms_nobody(
    operation: str, number: signal.Signals, stepped: Path, spawn: Spawn
) -> None:
    child = spawn(
        f"import sys; sys.path.insert(0, {str(stepped)!r})\n"
        f"import rtmw; assert rtmw.__file__.startswith({str(stepped)!r})\n"
        f"from tests.system.steps import run; run({operation!r}, {int(number)})\n"
    )
    steps, reached = json.loads(child.line(timeout=60.0))
    assert 4 <= reached <= steps
    assert child.wait() == 0
