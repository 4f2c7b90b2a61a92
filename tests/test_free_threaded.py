"""On a Python without the GIL, programs of raw messages keep it off, and their threads may share all objects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rtmw

ROOT = Path(rtmw.__file__).parents[1]
PROGRAM = ROOT / "tests/threads_at_once.py"
PYTHONS = ("python3.15t", "python3.14t", "python3.13t")
GLUE = ("_publisher.c", "_subscriber.c")
UNGUARDED = {
    "Py_GenericAlias",
    "Loan_enter",
    "Sample_data",  # asks for the buffer, which is guarded
    "Loan_publish",  # is guarded together with its publisher
    "Sample_topic",
    "Sample_type_name",
    "Sample_pid",
    "Sample_publisher",
    "Sample_expires",
    "Sample_description",
    "Sample_html",  # asks for the value, which is guarded
}
"""Methods that read only what never changes once the object is made, or guard it themselves."""


def outcome(python: str, path: Path, domain: int, rounds: int, **environment: str) -> object:
    """What the program prints, of the package in `path`."""
    done = subprocess.run(
        [python, str(PROGRAM), str(domain), str(rounds)],
        env={**os.environ, "PYTHONPATH": str(path), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Proves G32.
def test_threads_that_use_and_close_the_same_objects_at_once_harm_nothing(domain_id: int) -> None:
    assert outcome(sys.executable, ROOT, domain_id, 1) == {"gil": True, "problems": []}


@pytest.fixture
def free_python() -> str:
    found = next(filter(None, map(shutil.which, PYTHONS)), None)
    if found is None:
        pytest.skip(f"needs a Python without the GIL: one of {', '.join(PYTHONS)}")
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    return found


@pytest.fixture
def built(free_python: str, tmp_path: Path) -> Path:
    """A folder with the package, and the core as a module of that Python, under AddressSanitizer."""
    shutil.copytree(ROOT / "rtmw", tmp_path / "rtmw", ignore=shutil.ignore_patterns("*.so", "__pycache__", "topics"))
    ask = "import sysconfig as c; print(c.get_path('include'), c.get_config_var('EXT_SUFFIX'))"
    said = subprocess.run([free_python, "-c", ask], capture_output=True, text=True, check=True, timeout=60).stdout
    include, suffix = said.split()
    flags = [
        "-O1",
        "-g",
        "-fsanitize=address",
        "-shared",
        "-fPIC",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-fvisibility=hidden",
        "-I",
        include,
    ]
    sources = sorted(map(str, (tmp_path / "rtmw/shm").glob("*.c")))
    output = tmp_path / f"rtmw/shm/_core{suffix}"
    subprocess.run(["gcc", *flags, *sources, "-o", str(output)], check=True, timeout=300)
    return tmp_path


# Proves G32.
def test_a_python_without_the_gil_needs_none_for_raw_messages(free_python: str, built: Path, domain_id: int) -> None:
    ask = ["gcc", "-print-file-name=libasan.so"]
    library = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    sanitizer = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    assert outcome(free_python, built, domain_id, 20, **sanitizer) == {"gil": False, "problems": []}


@pytest.mark.parametrize("name", GLUE)
# Proves G32.
def test_each_method_that_reads_or_changes_what_threads_share_is_guarded(name: str) -> None:
    source = (ROOT / "rtmw/shm" / name).read_text()
    tables = "".join(re.findall(r"static (?:PyMethodDef|PyGetSetDef) \w+\[\] = \{.*?\};", source, re.DOTALL))
    rows = re.findall(r'\{\s*"\w+",\s*(?:FAST\()?(GUARDED\()?(\w+)', tables)
    assert rows
    assert {function for guarded, function in rows if not guarded} <= UNGUARDED
