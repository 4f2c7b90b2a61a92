"""Each mutant of the sources still changes the line that it is about.

To try all mutants takes hours; that one does nothing any more is to be seen at once.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.transfer.mutants
import tests.transfer.programs.mutants
import tests.transfer.wire.mutants

ROOT = Path(__file__).parents[1]
SCRIPTS = {
    "tests/native/mutate.sh": "rtmw/shm",
    "tests/torture/fuzz/mutate.sh": "rtmw/shm",
    "tests/torture/log/mutate.sh": "rtmw/log",
    "tests/torture/wire/engine_mutate.sh": "rtmw/net/*",
    "tests/torture/wire/link_mutate.sh": "rtmw/net/link",
    "tests/torture/wire/mutate.sh": "rtmw",
}
"""Each script of mutants, and where the sources are that it changes."""


def mutants(script: str) -> Iterator[tuple[str, Path, str]]:
    """The words before the file, the file, and the program for sed."""
    folders = sorted(ROOT.glob(SCRIPTS[script]))
    lines = (ROOT / script).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    for words in (shlex.split(line) for line in lines if line.lstrip().startswith("mutant ")):
        named = [
            (at, folder / name) for at, word in enumerate(words) for name in (word, f"{word}.c") for folder in folders
        ]
        at, file = next((at, path) for at, path in named if path.is_file())
        yield " ".join(words[1:at]), file, words[at + 1]


def test_each_script_of_mutants_is_looked_at() -> None:
    scripts = (*ROOT.glob("tests/native/*mutate.sh"), *ROOT.glob("tests/torture/*/*mutate.sh"))
    assert {str(path.relative_to(ROOT)) for path in scripts} == SCRIPTS.keys()


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_mutant_changes_its_file(script: str) -> None:
    unchanged, count = list[str](), 0
    for name, path, program in mutants(script):
        made = subprocess.run(["sed", "-E", program, path], capture_output=True, text=True, check=True).stdout
        unchanged += [name] * (made == path.read_text(encoding="utf-8"))
        count += 1
    assert unchanged == []
    assert count > 10


RULES = {
    "transactions": tests.transfer.mutants.MUTANTS,
    "queues": tests.transfer.programs.mutants.MUTANTS,
    "wire": tests.transfer.wire.mutants.MUTANTS,
}


@pytest.mark.parametrize("part", RULES)
def test_each_rule_of_transfers_that_is_taken_out_is_there_once(part: str) -> None:
    found = dict[str, int]()
    for name, mutant in RULES[part].items():
        path = ROOT / "rtmw" / "transfer" / (mutant.module.replace(".", "/") + ".py")
        found[name] = path.read_text(encoding="utf-8").count(mutant.old)
    assert [name for name, count in found.items() if count != 1] == []
