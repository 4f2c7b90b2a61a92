"""Whatever bytes come, readers of types, payloads, schemas, settings and frames answer or refuse, in bounded time and
memory.

Here a second of each; `make torture-wire` goes on for minutes. See wire/__main__.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.torture.makefile import Makefile
from tests.torture.wire.__main__ import IN_C, IN_PYTHON, ROOT

RIG = Makefile(ROOT / "tests/torture/wire")
SECONDS = "1"

pytestmark = pytest.mark.timeout(600)
"""The mutants are compiled first, and an attack goes on until the harm is found."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


@pytest.mark.parametrize("part", IN_PYTHON)
# Proves G4.
def test_a_reader_answers_or_refuses_whatever_comes(part: str) -> None:
    done = run(sys.executable, "-m", f"tests.torture.wire.{part}", "1", SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = re.findall(r"(\d+) \w+", done.stdout)
    assert counts
    assert all(int(count) > 0 for count in counts), done.stdout


@pytest.mark.parametrize("part", IN_C)
# Proves G4.
def test_a_decoder_in_c_reads_inside_the_payload_only(part: str, tmp_path: Path) -> None:
    done = RIG.make(tmp_path, "run", f"PART={part}", "SEED=1", f"SECONDS={SECONDS}")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.parametrize(
    ("part", "mutant"),
    [
        ("types_descriptions", "any name"),
        ("idl_texts", "constants are computed again"),
        ("columns_rows", "larger elements"),
        ("cdr_cyclone", "no sizes"),
        ("schemas", "references for ever"),
        ("session_hello", "hellos of any length"),
        ("settings_texts", "any depth"),
        ("transfer_topics", "no barrier"),
        ("relay_frames", "frames of the paper of any length"),
        ("relay_frames", "frames of this package of any length"),
    ],
)
# Proves G5.
def test_an_attack_sees_when_a_bound_is_missing(part: str, mutant: str) -> None:
    done = run(sys.executable, "-m", f"tests.torture.wire.{part}", "1", "200", mutant)
    assert done.returncode == 1, done.stdout
    assert re.search("^HARM: ", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("part", "mutant"),
    [("cdr_decode", "values without bytes have no end"), ("columns_decode", "a size may lead behind the payload")],
)
# Proves G5.
def test_a_fuzzer_sees_when_a_bound_is_missing(part: str, mutant: str, tmp_path: Path) -> None:
    done = RIG.make(tmp_path, "mutants", f"PART={part}", f"ONLY={mutant}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant {mutant}: found" in done.stdout


WITH_THIS = """
import importlib.util, runpy, sys

spec = importlib.util.spec_from_file_location("rtmw.relay._frames", sys.argv.pop(1))
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
runpy.run_module("tests.torture.wire.relay_frames", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("missing", "seconds"),
    [
        ("", SECONDS),
        ("    if (size - at < HEAD) return at;\n", "60"),
        ("    if (size - at < LENGTH + length) return at;\n", "60"),
    ],
)
# Proves G4, G5.
def test_frames_of_a_relay_are_read_inside_what_has_come(missing: str, seconds: str, tmp_path: Path) -> None:
    """Under AddressSanitizer, with a block of memory an object: a line that is missing has to be seen."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    source, built = tmp_path / "rtmw/relay/_frames.c", tmp_path / "_frames.so"
    source.parent.mkdir(parents=True)
    (tmp_path / "rtmw/shm").symlink_to(ROOT / "rtmw/shm")
    text = (ROOT / "rtmw/relay/_frames.c").read_text()
    assert missing in text
    source.write_text(text.replace(missing, ""))
    flags = ["-O1", "-g", "-fsanitize=address", "-shared", "-fPIC", "-std=gnu11", "-D_GNU_SOURCE"]
    made = run("gcc", *flags, "-I", sysconfig.get_path("include"), str(source), "-o", str(built))
    assert made.returncode == 0, made.stderr
    sanitizer = run("gcc", "-print-file-name=libasan.so").stdout.strip()
    options = {"ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16", "PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        [sys.executable, "-c", WITH_THIS, built, "1", seconds],
        cwd=ROOT, env={**os.environ, **options, "LD_PRELOAD": sanitizer}, capture_output=True, text=True, timeout=500,
        check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (not missing), done.stderr[-3000:]
    assert ("AddressSanitizer" in done.stderr) == bool(missing), done.stderr[-3000:]
