"""The columns of docs/guarantees.md and docs/requirements.md: `python -m tests.marks` writes them again.

A row of either page begins with an id: `G12`, or the number of a requirement. A test says which rows it proves in a
comment above its `def`: "Proves G12, T3." Files cite requirements in their text, too, with a bracket or a colon.
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
def citing(folder: str) -> dict[str, list[str]]:
    """The files of a folder that cite each requirement."""
    found: dict[str, list[str]] = {}
    for path in sorted(p for p in (ROOT / folder).rglob("*.*") if p.suffix in (".py", ".c", ".h")):
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


def cells(page: Path, key: str) -> list[str]:
    """What stands in the columns of a row that are made."""
    tests = proving()[key]
    if page == GUARANTEES:
        return [" ".join(link(path, count) for path, count in sorted(tests.items()))]
    beside = dict.fromkeys(citing("tests").get(key, ()), 1) | tests
    return [
        " ".join(map(link, citing("rtmw").get(key, ()))),
        " ".join(link(path, count) for path, count in sorted(beside.items())),
    ]


def written(page: Path) -> str:
    """The page with its columns as they should be."""

    def row(found: re.Match[str]) -> str:
        made = cells(page, found[1])
        kept = found[0].strip("|").split("|")[: -len(made)]
        return "|".join(["", *kept, *(f" {cell} " for cell in made), ""])

    return ROW.sub(row, page.read_text())


if __name__ == "__main__":
    for one in PAGES:
        one.write_text(written(one))
