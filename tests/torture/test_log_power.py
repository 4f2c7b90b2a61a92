"""A log, and a relay, on ext4 on a disk that loses what was not flushed. `make torture-power` goes on longer. See
log/power.h."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bus import eventually
from tests.torture.makefile import Makefile

UNAVAILABLE = 77
PATIENCE_S = 400
ROOT = Path(__file__).parents[2]
RIG = Makefile(Path(__file__).parent / "log", patience=PATIENCE_S)

pytestmark = pytest.mark.timeout(600)
"""The rig is compiled first."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() != 0:
        pytest.skip("the power rig needs root, for mounts of its own")
    out = RIG.build(tmp_path_factory.mktemp("power"), "build")
    tried = power(out, seed=1, cuts=0)
    if tried.returncode == UNAVAILABLE:
        pytest.skip(tried.stderr.removeprefix("UNAVAILABLE: ").strip())
    return out


def power(out: Path, *, seed: int, cuts: int) -> subprocess.CompletedProcess[str]:
    command = [str(out / "rig"), "power", str(seed), str(cuts)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def lies_under_a_loop_device(name: str) -> bool:
    """A file of this name; another process may detach its device meanwhile."""
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if file.read_text().strip().endswith(f"/{name}"):
                return True
    return False


# Proves G118.
def test_when_the_power_of_a_disk_is_cut_ext4_has_all_that_was_answered_and_nothing_else(built: Path) -> None:
    done = power(built, seed=5, cuts=250)
    assert done.returncode == 0, done.stdout + done.stderr
    cuts, rots, lives, writes, flushes, records, compacted = map(int, re.findall(r"\b\d+", done.stdout))
    assert cuts >= 250
    assert min(rots, lives, writes, flushes, records, compacted) > 0


@pytest.mark.parametrize(
    "mutant",
    [
        "on ext4 a batch is answered without a sync",
        "on ext4 no watermark is written",
        "on ext4 no sync of the folder at a roll",
        "on ext4 a compacted segment gets its name before it is synced",
    ],
)
def test_the_power_rig_sees_when_a_precaution_is_missing(mutant: str, built: Path) -> None:
    done = RIG.make(built, "mutants", "PARTS=power", f"ONLY={mutant}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant {mutant}: found" in done.stdout


def relay_power(out: Path, cuts: str = "1", **environment: str) -> subprocess.CompletedProcess[str]:
    """A relay on the disk of the rig, and a cut before each flush: see relay/power.py."""
    command = [str(out / "rig"), "program", "1", cuts, sys.executable, "-m", "tests.torture.relay.power", "3"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
    )  # fmt: skip


# Proves G322.
def test_when_the_power_of_a_disk_is_cut_a_relay_has_each_order_that_it_answered_as_it_was_answered(
    built: Path,
) -> None:
    done = relay_power(built)
    assert done.returncode == 0, done.stdout + done.stderr
    cuts, lives, writes, flushes = map(int, re.findall(r"\b\d+", done.stdout))
    assert cuts == flushes + lives
    assert writes > 0


def test_the_power_rig_sees_when_a_relay_answers_before_its_rows_are_on_the_disk(built: Path) -> None:
    done = relay_power(built, "1000", RTMW_UNSYNCED="1")  # ends with the first harm
    assert done.returncode == 1, done.stdout
    assert "is not on record" in done.stderr or "and on record is" in done.stderr, done.stderr


def test_a_power_rig_that_is_killed_leaves_no_mount_and_no_loop_device(built: Path) -> None:
    rig = subprocess.Popen([str(built / "rig"), "power", "1", "1000000"])
    try:
        eventually(lambda: lies_under_a_loop_device(f"image-{rig.pid}"))
    finally:
        rig.kill()
        rig.wait()
    eventually(lambda: not lies_under_a_loop_device(f"image-{rig.pid}"))
    assert "rtmw-torture" not in Path("/proc/mounts").read_text()
