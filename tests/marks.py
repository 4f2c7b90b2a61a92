"""docs/proofs.md, and a column of docs/requirements.md: `python -m tests.marks` writes them again.

A row of docs/guarantees.md and of docs/requirements.md begins with an id: `G12`, or the number of a requirement. A test
says which rows it proves in a comment above its `def`: "Proves G12, T3." Files cite requirements in their text, too,
with a bracket or a colon.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
GUARANTEES: Final = ROOT / "docs" / "guarantees.md"
REQUIREMENTS: Final = ROOT / "docs" / "requirements.md"
PAGES: Final = GUARANTEES, REQUIREMENTS
"""The pages with rows that tests prove."""
PROOFS: Final = ROOT / "docs" / "proofs.md"
MADE: Final = PROOFS, REQUIREMENTS
"""The pages that are written here, the second one in part."""
HEAD: Final = """# The tests of each promise

Each line has the id of a row of [guarantees.md](guarantees.md), and the files with its tests; ×2: two tests of a file.
`grep -rnw G12 tests` shows the tests themselves. `python -m tests.marks` writes this page from the marks in the tests.
"""

MARK: Final = re.compile(r"^# Proves ([A-Z0-9, ]+)\.$", re.MULTILINE)
PROVING: Final = re.compile(MARK.pattern + r"\n(?:async )?def test_", re.MULTILINE)
CITED: Final = re.compile(r'(?:\(|"""|: |\bin |requirements? )((?:[PTSRC]\d+(?:, | to | and )?)+)(?=[):;\]]| between)')
ROW: Final = re.compile(r"^\| ([A-Z]\d+) \|.*$", re.MULTILINE)
TIMERS: Final = "relay"
"""In paths of the relay T1 and T2 are times, and no requirements."""


def proved(text: str) -> Iterator[str]:
    """The ids of a file's marks, one for each test that has it."""
    for found in PROVING.finditer(text):
        yield from found[1].split(", ")


def cited(text: str) -> Iterator[str]:
    """The numbers of requirements that a text cites; "R7 to R9" are three of them."""
    for found in CITED.finditer(text):
        for part in re.split(", | and ", found[1].strip()):
            first, _, last = part.partition(" to ")
            yield from (f"{first[0]}{n}" for n in range(int(first[1:]), int((last or first)[1:]) + 1))


@cache
def proving() -> dict[str, Counter[str]]:
    """The tests that prove each id: how many there are in each file."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for key in proved(path.read_text()):
            found[key][path.relative_to(ROOT).as_posix()] += 1
    return found


@cache
def citing() -> dict[str, list[str]]:
    """The files of the tests that cite each requirement."""
    found: dict[str, list[str]] = {}
    for path in sorted(p for p in (ROOT / "tests").rglob("*.*") if p.suffix in (".py", ".c", ".h")):
        name = path.relative_to(ROOT).as_posix()
        if "/build/" in name:  # mutants that a rig has made
            continue
        for key in sorted(set(cited(path.read_text(errors="replace")))):
            if key[0] != "T" or TIMERS not in name:
                found.setdefault(key, []).append(name)
    return found


def link(path: str, count: int = 1) -> str:
    name = Path(path).stem.removeprefix("test_")
    if name.startswith("__"):
        name = Path(path).parent.name
    return f"[{name}](../{path})" + (f"×{count}" if count > 1 else "")


def linked(tests: dict[str, int]) -> str:
    return " ".join(link(path, count) for path, count in sorted(tests.items()))


def proofs() -> str:
    """The page that has the tests of each promise, under the headings of docs/guarantees.md."""
    lines = [HEAD]
    for part in GUARANTEES.read_text().split("\n## ")[1:]:
        if rows := ROW.findall(part):
            heading, _, _ = part.partition("\n")
            lines += [f"## {heading}\n", *(f"- {key}: {linked(proving()[key])}" for key in rows), ""]
    return "\n".join(lines)


def requirements() -> str:
    """The page of the requirements, with its column of tests as it should be."""

    def row(found: re.Match[str]) -> str:
        key = found[1]
        tests = dict.fromkeys(citing().get(key, ()), 1) | proving()[key]
        kept = found[0].strip("|").split("|")[:-1]
        return "|".join(["", *kept, f" {linked(tests)} ", ""])

    return ROW.sub(row, REQUIREMENTS.read_text())


def written(page: Path) -> str:
    """What should stand in a page of MADE."""
    return proofs() if page == PROOFS else requirements()


if __name__ == "__main__":
    for one in MADE:
        one.write_text(written(one))
