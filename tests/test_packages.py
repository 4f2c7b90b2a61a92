"""What is shipped: the source distribution has all that is in the repository, the wheel just what programs need."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = ".ci/"
MODULES = ("shm/_core", "types/_cdr", "log/_log", "net/dds/_engine", "recording/_mcap", "player/_player")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def tracked() -> list[str]:
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("needs a clone, and git")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def build(what: str, source: Path, into: Path) -> Path:
    done = subprocess.run([sys.executable, "-c", BUILD, what, into], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of what git tracks, unpacked."""
    source, into = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    with tarfile.open(build("build_sdist", source, into)) as archive:
        archive.extractall(into, filter="data")
    (folder,) = (path for path in into.iterdir() if path.is_dir())
    return folder


def test_the_source_distribution_has_every_file_of_the_repository(unpacked: Path) -> None:
    assert [name for name in tracked() if not name.startswith(NOT_SHIPPED) and not (unpacked / name).exists()] == []


def test_a_wheel_of_the_source_distribution_has_what_programs_need_and_no_package_but_rtmw(
    unpacked: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(build("build_wheel", unpacked, tmp_path)) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"rtmw"}
    for module in MODULES:
        assert any(name.startswith(f"rtmw/{module}.") and name.endswith(".so") for name in names)
    for name in ("rtmw/shm/rtmw.h", "rtmw/shm/librtmw.so", "rtmw/shm/rtmw.pc", "rtmw/py.typed", "rtmw/shm/_core.pyi"):
        assert name in names
    assert "rtmw/demo/topics/telemetry.idl" in names
    assert [name for name in names if name.endswith((".c", ".o"))] == []
