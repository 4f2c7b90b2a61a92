"""A log on a disk in memory: power cuts, faults, turned bits. `make torture-log` goes on for minutes. See log/rig.h."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.torture.makefile import Makefile
from tests.whole import sample

RIG = Makefile(Path(__file__).parent / "log")

pytestmark = pytest.mark.timeout(600)
"""The rig is compiled first."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return RIG.build(tmp_path_factory.mktemp("log"), "build")


def counts(out: Path, *words: str) -> list[int]:
    done = RIG.make(out, "rig", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return [int(number) for number in re.findall(r"\d+", done.stdout)]


# Proves G117, G119, G121, G123, G127.
def test_whenever_the_power_is_cut_all_that_was_answered_is_there_and_nothing_else(built: Path) -> None:
    cuts, kills, lives, rolls, compacted = counts(built, "PART=cuts", "AMOUNT=1", "SEED=3")
    assert cuts > 1000
    assert min(kills, lives, rolls, compacted) > 0


# Proves G128.
def test_whichever_call_fails_no_call_is_tried_again_and_all_that_was_answered_is_there(built: Path) -> None:
    faults, failed, _, cuts = counts(built, "PART=faults", "AMOUNT=3")  # the rig itself sees that a full disk is told
    assert faults > 50
    assert min(failed, cuts) > 0


# Proves G129.
def test_whichever_bit_is_turned_the_right_records_are_read_or_the_log_is_refused(built: Path) -> None:
    turned, right, refused, by_reader = counts(built, "PART=rot", "AMOUNT=101")
    assert turned == right + refused
    assert min(right, refused, by_reader) > 0


# Proves G347, G350.
def test_whenever_a_replica_is_cut_also_while_it_is_truncated_it_has_what_was_answered_and_shows_what_is_final(
    built: Path,
) -> None:
    cuts, kills, lives, copied, completed, failed = counts(built, "PART=replica", "AMOUNT=1", "SEED=3")
    assert min(cuts, kills, lives, completed, failed) > 10  # truncations that recovery has completed, and that failed
    assert copied > 0


MUTANTS = [
    "a batch is answered without a sync",
    "the watermark is not looked at",
    "no watermark is written",
    "no sync of the folder at a roll",
    "what was found is not written again",
    "ids behind the snapshot are not read",
    "a compacted segment gets its name before it is synced",
    "compaction goes on to a segment that a roll seals meanwhile",
    "the name of the snapshot of ids is not synced before it is trusted",
    "recovery trusts what is said of a truncation and not synced",
    "a truncation leaves the ids of what goes",
    "recovery of a replica shows all that is durable",
]


@pytest.mark.parametrize("mutant", sample(MUTANTS, 4))
# Proves G131.
def test_the_rig_sees_when_a_precaution_is_missing(mutant: str, built: Path) -> None:
    done = RIG.make(built, "mutants", f"ONLY={mutant}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant {mutant}: found" in done.stdout
