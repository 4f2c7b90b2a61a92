"""Writes bench/results/dds_rtps.md of what a run has shown."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

PAGE = Path(__file__).parents[3] / "bench" / "results" / "dds_rtps.md"
HEAD = """# The OMG's interoperability cases

The OMG has a list of cases by which DDS implementations show that they understand each other
([omg-dds/dds-rtps](https://github.com/omg-dds/dds-rtps), as of July 2026: {count} cases). Here each is run with rtmw on
one side, by `rtmw node`, and a program of another DDS on the other, on loopback. The names are the list's; the programs
are those of rtmw's own tests ([tests/net/foreign](../../tests/net/foreign)), for the OMG's may not be passed on. So
this is no result of the OMG's.

`make torture-dds-rtps` runs the cases and writes this page; `python -m tests.torture.dds_rtps Test_Topic_0` runs one.

Run on {day}, {machine}, with {libraries}.

- **pass**: what the list asks for was seen. Where two sides must not meet, the other program was told so, and `rtmw
  node info` named the policy.
- **n/a**: rtmw has no such policy; the number says which.
- **fail**: something else was seen; the number says what, and why it is so by design, where it is.

Not run: dust-dds and RustDDS, for crates.io could not be reached; and ddsperf, which has none of these cases. The
cyclonedds programs use Cyclone DDS' C library.
"""


@dataclass(frozen=True)
class Row:
    """A case and what came of it, by vendor and by what rtmw did."""

    name: str
    asks: str
    said: dict[tuple[str, str], str]


def write_page(rows: list[Row], page: Path = PAGE) -> None:
    page.write_text("\n".join([*_head(rows), *_table(rows)]) + "\n", encoding="utf-8")


def _head(rows: list[Row]) -> list[str]:
    fast = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", "libfastrtps2.9"], capture_output=True, text=True, check=False
    ).stdout
    libraries = [f"cyclonedds {version('cyclonedds')}"] + ([f"Fast DDS {fast} (Debian)"] if fast else [])
    machine = f"Linux {platform.release()}, {platform.machine()}"
    return [HEAD.format(count=len(rows), day=date.today(), machine=machine, libraries=" and ".join(libraries))]


def _table(rows: list[Row]) -> list[str]:
    ends = [*dict.fromkeys(end for row in rows for end in row.said)]
    notes: dict[str, int] = {}
    lines = [
        f"| case | what it asks for | {' | '.join(f'rtmw {role}, {vendor}' for vendor, role in ends)} |",
        f"|---|---|{'---|' * len(ends)}",
    ]
    lines += [
        f"| {row.name} | {row.asks} | {' | '.join(_cell(row.said[end], notes) for end in ends)} |"
        for row in _folded(rows)
    ]
    counts = {end: Counter(row.said[end].partition(":")[0] for row in rows) for end in ends}
    for what in ("pass", "n/a", "fail"):
        lines.append(f"| | **{what}** | {' | '.join(str(counts[end][what]) for end in ends)} |")
    return [*lines, "", *(f"{number}. {words}" for words, number in notes.items())]


def _folded(rows: list[Row]) -> Iterator[Row]:
    """The rows; of cases that follow each other, and of which none can be run, for the same reasons, one stands."""
    for _, group in groupby(rows, key=lambda row: (row.name.rpartition("_")[0], tuple(row.said.items()))):
        first, *others = group
        if others and all(said.startswith("n/a") for said in first.said.values()):
            last = others[-1].name.rpartition("_")[2]
            yield replace(first, name=f"{first.name} to {last}", asks=f"{first.asks}, and {len(others)} more")
        else:
            yield from (first, *others)


def _cell(said: str, notes: dict[str, int]) -> str:
    what, _, why = said.partition(": ")
    return f"{what} ({notes.setdefault(why, len(notes) + 1)})" if why else what
