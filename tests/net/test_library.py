"""The DDS library is found at run time: one that can carry nothing is said when the node starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import rtmw
from tests.conftest import free_number

SECONDS = 120.0


def build_another_engine(folder: Path, *flags: str) -> None:
    """A copy of rtmw whose engine is compiled with these flags."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    shutil.copytree(Path(rtmw.__file__).parent, folder / "rtmw", ignore=shutil.ignore_patterns("__pycache__"))
    net = folder / "rtmw" / "net" / "dds"
    engine = net / f"_engine{sysconfig.get_config_var('EXT_SUFFIX')}"
    engine.unlink()
    crc = folder / "rtmw" / "shm" / "crc32c.c"
    sources = [str(path) for path in (*net.glob("*.c"), *net.glob("../route/*.c"), crc)]
    usual = ["-shared", "-fPIC", "-std=gnu11", "-D_GNU_SOURCE", f"-I{sysconfig.get_path('include')}"]
    subprocess.run([compiler, *usual, *flags, "-o", str(engine), *sources], check=True, timeout=SECONDS)


def test_a_node_does_not_start_with_a_library_of_which_public_calls_carry_nothing_either(tmp_path: Path) -> None:
    build_another_engine(tmp_path, "-DRTMW_MISFIT", "-DRTMW_MISFIT_VALUE")  # which takes it for one of another release
    number = free_number()
    with rtmw.Domain(number, pool="8M"):
        done = subprocess.run(
            [sys.executable, "-m", "rtmw", "node", "--domain", str(number)],
            env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    rtmw.Domain.unlink(number)
    assert done.returncode == 1
    assert "the node's engine is made for cyclonedds 11.0 and does not fit 11" in done.stderr
    assert "it lays out struct ddsi_sertype_ops differently; install 11.0" in done.stderr
