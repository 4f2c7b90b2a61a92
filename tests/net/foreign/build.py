"""Builds the programs of others from IDL, with the compilers that come with each."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
TOPICS = [ROOT / "topics" / f"{name}.idl" for name in ("airport", "river", "telemetry")]
LONGEST_S = 240.0
"""For all of the building."""
KINDS, GROWING, ROS2 = (HERE / f"{name}.idl" for name in ("kinds", "growing", "ros2"))
ROS2_MODULES = ("std_msgs.msg.dds_", "geometry_msgs.msg.dds_")
"""Python modules of the types in ROS2."""


class Builder:
    """Runs compilers in a folder, for so long altogether; then the test that wanted them is skipped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._until = folder, time.monotonic() + LONGEST_S

    def run(self, *command: str | Path) -> None:
        words = [str(word) for word in command]
        left = max(1.0, self._until - time.monotonic())
        try:
            done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            pytest.skip(f"Fast DDS programs and classes took more than {LONGEST_S} s to build, at last {words[0]}")
        assert done.returncode == 0, f"{words[0]}: {done.stdout}{done.stderr}"


def python_modules(folder: Path, *more: Path) -> None:
    """Python modules of all IDL files, and of `more`, by cyclonedds' IDL compiler."""
    builder = Builder(folder)
    for idl in (*TOPICS, KINDS, GROWING, ROS2, *more):
        builder.run(sys.executable, ROOT / "tests" / "idl_compiler.py", idl)


def fast_program(folder: Path, *more: Path) -> Path:
    """fast.cpp with what fastddsgen makes of the IDL, and of `more`; the folder has the Python modules. Skips where it
    cannot be."""
    missing = [name for name in ("fastddsgen", "g++") if shutil.which(name) is None]
    missing += [] if Path("/usr/include/fastrtps").is_dir() else ["libfastrtps-dev"]
    if missing:
        pytest.skip(f"Fast DDS is not installed: apt-get install {' '.join(missing)}")
    idls, builder = (*TOPICS, KINDS, ROS2, *more), Builder(folder)
    builder.run("fastddsgen", "-cs", "-replace", *idls)
    modules = {idl.stem: idl.stem for idl in idls} | {ROS2.stem: ",".join(ROS2_MODULES)}
    builder.run(sys.executable, HERE / "each.py", *(f"{stem}={names}" for stem, names in modules.items()))
    builder.run("g++", "-std=c++17", "-I.", "-o", "fast", HERE / "fast.cpp", "-lfastrtps", "-lfastcdr")
    return folder / "fast"
