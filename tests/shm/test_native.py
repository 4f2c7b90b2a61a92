"""`tests/native/`: the quick variants of the native tests, without sanitizers. `make check` runs all of them with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.whole import LONG

pytestmark = pytest.mark.timeout(900)
"""The first of them waits until all is built."""

NATIVE = Path(__file__).parents[1] / "native"
UNSEEN = 77
"""Exit status of `quiet` where the machine does not let it be seen."""


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of the plain programs. `make check` builds there, too, and what has not changed is not built again."""
    if not (shutil.which("gcc") and shutil.which("make")):
        pytest.skip("needs gcc and make")
    run("make", "-s", "-j2", "-C", str(NATIVE), "plain")
    return NATIVE / "build"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_all_reliabilities_at_once_in_too_small_a_pool_keep_their_promises(built: Path, kind: str) -> None:
    assert "the books balance" in run(str(built / "plain" / "stress"), kind, "20000")


def test_processes_killed_at_random_stop_nobody_and_leak_nothing(built: Path) -> None:
    assert "none was lost, and the books balance" in run(str(built / "plain" / "kill_stress"), "3")


@pytest.mark.parametrize("kept_from", ["idle", "refused", "stopped", "sandbox"])
# Proves G19.
def test_no_wake_up_is_lost_for_ever(built: Path, kept_from: str) -> None:
    done = subprocess.run([built / "plain" / "wakeups", kept_from], capture_output=True, text=True, timeout=110)
    if done.returncode == UNSEEN:
        pytest.skip(f"wakeups {kept_from}: this machine does not let it be seen")
    assert done.returncode == 0, done.stderr or f"ended by signal {-done.returncode}"


def test_hostile_records_of_a_recording_lead_nowhere(built: Path) -> None:
    assert "nothing was read or found outside" in run(str(built / "plain" / "records"), "5000")


# Proves G35.
def test_two_threads_never_see_an_outcome_on_which_the_core_relies_not_to_come(built: Path) -> None:
    assert "hold ‖ free: 0 of " in run(str(built / "plain" / "litmus"), "200")


# Proves G36.
def test_the_stress_and_the_patterns_hold_on_aarch64_too() -> None:
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if not (emulator and shutil.which("aarch64-linux-gnu-gcc") and shutil.which("make")):
        pytest.skip("needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user")
    out = NATIVE / "build" / "aarch64"
    run("make", "-s", "-C", str(NATIVE), "build/aarch64/litmus", "build/aarch64/stress")
    assert "hold ‖ free: 0 of " in run(emulator, str(out / "litmus"), "20", "emulated")
    assert "the books balance" in run(emulator, str(out / "stress"), "processes", "200")


RACES = ("append ‖ append, first", "claim ‖ hold", "allocate page", "wait ‖ publish", "open topic", "bands")


@pytest.mark.parametrize("race", [*RACES, pytest.param("sweep", marks=LONG)])
# Proves G33, G56, G60, G63, G65, G72, G75, G76, G79.
def test_no_interleaving_of_a_race_has_a_forbidden_outcome(built: Path, race: str) -> None:
    assert ", 0 failed" in run(str(built / "races"), race)


# Proves G38.
def test_every_time_has_one_bucket_and_none_is_wider_than_it_may_be(built: Path) -> None:
    assert run(str(built / "plain" / "histogram")).startswith("1024 buckets")


# Proves G48.
def test_a_wall_clock_that_is_set_ends_no_life_and_no_limit_overflows(built: Path) -> None:
    assert run(str(built / "plain" / "clock")).startswith("no life is ended")


# Proves G30, G31.
def test_slips_of_a_c_program_are_refused_and_nobody_else_notices(built: Path) -> None:
    assert run(str(built / "plain" / "slips")).startswith("every slip was refused")


# Proves G97.
def test_who_is_told_by_hostile_words_that_there_is_something_to_take_does_not_go_round_for_ever(built: Path) -> None:
    assert run(str(built / "plain" / "hostile")).startswith("each program was told")


# Proves G29.
def test_a_parked_subscription_keeps_what_comes_for_the_next_process_and_for_no_longer_than_it_may(built: Path) -> None:
    assert run(str(built / "plain" / "parked")).startswith("each parked subscription went on or ended")


# Proves G21, G23.
def test_a_c_program_that_never_waits_is_not_blocked_by_the_dead_and_a_lease_runs_for_its_tries(built: Path) -> None:
    assert run(str(built / "plain" / "tries")).startswith("nobody who tried was blocked")


# Proves G64, G70.
def test_no_call_does_more_work_where_there_are_more_topics_or_messages(built: Path) -> None:
    assert run(str(built / "plain" / "bounded")).startswith("no call did more")


# Proves G55, G56, G66.
def test_what_may_go_is_found_wherever_it_is_and_nobody_is_full_of_what_he_will_not_get(built: Path) -> None:
    assert run(str(built / "plain" / "admission")).startswith("nothing that may go was hidden")


def test_a_pack_is_read_as_it_was_written_and_a_spoiled_one_is_never_read_outside(built: Path) -> None:
    assert "nothing was read outside" in run(str(built / "plain" / "packs"))


@pytest.mark.parametrize("what", ["calls", "memory", "faults"])
# Proves G108.
def test_publishing_and_taking_make_no_system_call_allocate_nothing_and_meet_no_page_fault(
    built: Path, what: str
) -> None:
    assert watched(built, what) == 0


def test_a_system_call_while_publishing_and_taking_would_be_seen(built: Path) -> None:
    assert watched(built, "seen") == 1


def watched(built: Path, what: str) -> int:
    done = subprocess.run([built / "plain" / "quiet", what], capture_output=True, text=True, timeout=110)
    if done.returncode == UNSEEN:
        pytest.skip(f"quiet {what}: {done.stdout.strip()}")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    sys.stderr.write(done.stderr)
    return done.returncode


def test_an_operation_that_dies_before_any_of_its_steps_costs_nobody_anything(built: Path) -> None:
    assert ", 0 failed" in run(str(built / "races"), "death")
