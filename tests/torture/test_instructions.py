"""A process killed or stopped at any machine instruction of the core harms nobody.

Here a sample of each call; `make torture-instructions` tries every instruction. See instructions/instructions.c.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture.instructions.rig import HERE, SHM, CannotRun, Harmed, Outcome, Rig, build

SAMPLE = 4
CALLS = re.findall(r'^    \{"([^"]+)",', (HERE / "calls.c").read_text(), re.MULTILINE)


def built(folder: Path, core: Path = SHM) -> Rig:
    try:
        return build(folder, core)
    except CannotRun as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return built(tmp_path_factory.mktemp("instructions"))


def tried(rig: Rig, call: str, signal: str, most: int) -> Outcome:
    try:
        return rig.run(call, signal, most)
    except CannotRun as reason:
        pytest.skip(str(reason))


def test_the_rig_knows_the_calls_that_are_tried(rig: Rig) -> None:
    assert rig.calls() == CALLS


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("signal", ["kill", "stop"])
# Proves G8, G9, G10, G11, G12.
def test_a_death_or_a_stop_at_any_instruction_of_a_call_harms_nobody(rig: Rig, call: str, signal: str) -> None:
    outcome = tried(rig, call, signal, SAMPLE)
    assert outcome.instructions > SAMPLE
    assert SAMPLE <= outcome.victims <= 2 * SAMPLE  # at some it is killed twice: see try_one


def without(file: str, precaution: str, instead: str) -> Callable[[Path], None]:
    """Takes a precaution out of a copy of the core."""

    def change(core: Path) -> None:
        text = (core / file).read_text()
        assert precaution in text, f"{file} does not read like that any more: {precaution}"
        (core / file).write_text(text.replace(precaution, instead))

    return change


MUTANTS = {
    "holders of the dead stay": (
        without("participants.c", "fetch_and(&d->holders[dead >> 6], ~bit_of(dead))", "(void)0"),
        "take",
        "kill",
    ),
    "what the dead had just linked stays as they left it": (
        without("descriptors.c", "        if (linked) {", "        if (linked) return;\n        if (linked) {"),
        "publish in place",
        "kill",
    ),
    "loans of the dead stay": (
        without("descriptors.c", "if (descriptor_take_over(r, index, state)) descriptor_free(r, index);", ""),
        "loan and drop",
        "kill",
    ),
    "who is stopped is taken for dead": (
        without(
            "slots.c",
            "F_OFD_SETLK, &lock) == 0) return ",
            "F_OFD_SETLK, &lock) == 0) return life_give(r, slot), ",
        ),
        "release",
        "stop",
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
# Proves G13.
def test_the_rig_sees_a_precaution_that_is_missing(mutant: str, rig: Rig, tmp_path: Path) -> None:
    change, call, signal = MUTANTS[mutant]
    core = tmp_path / "core"
    shutil.copytree(SHM, core, ignore=shutil.ignore_patterns("*.so", "*.py*"))
    shutil.copytree(rig.program.parent, tmp_path / "built")  # with their dates: only what changes is compiled again
    change(core)
    broken = built(tmp_path / "built", core)
    with pytest.raises(Harmed, match=r"at instruction \d+"):
        tried(broken, call, signal, 0)
