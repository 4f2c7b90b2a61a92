"""Brings the last results into docs/performance.md, and its pictures beside it.

The page has parts, each between two markers: the questions of links, of the log, and all others. A part of which the
run has asked nothing stays as it is, so that a run of one part, which takes a fraction of the time, renews that part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.questions import APART, LINKS, NAMES, RELAY, REPLICA
from bench.report import markdown
from bench.results import Results, load
from bench.stage import ROOT

PAGE = ROOT / "docs" / "performance.md"
LOG = tuple(name for name in NAMES if name.startswith("log_"))


@dataclass(frozen=True)
class PagePart:
    marker: str
    questions: tuple[str, ...]
    picture: str = ""
    """File name, beside the page; nothing: there is none."""
    shows: str = ""
    """What is on the picture."""
    is_section: bool = False
    """Its headings lie below one of the page."""


PARTS = (
    PagePart(
        "results",
        tuple(name for name in NAMES if name not in (*LOG, *APART)),
        "performance.svg",
        "Latency over size, publish calls over subscribers, and throughput",
    ),
    PagePart("log results", LOG, "performance-log.svg", "Appends a second that each system answers, by writers", True),
    *(PagePart(f"{name} results", (name,), is_section=True) for name in LINKS),
    PagePart("relay results", RELAY, is_section=True),
    PagePart("replica results", REPLICA, is_section=True),
)


def between(page: str, text: str, marker: str) -> str:
    """The page with the text between its markers."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the page lacks {begin} or {end}")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"


def measured(results: Results, part: PagePart) -> bool:
    return any(name in part.questions for name in results.questions())


def refresh(results: Path) -> int:
    if not results.exists():
        print(f"There are no results at {results.relative_to(ROOT)}; `make bench` makes them.")
        return 1
    found = load(results)
    for part in PARTS:
        if measured(found, part):
            text = markdown(found, part.questions)
            if part.picture:
                text = f"![{part.shows}]({part.picture})\n\n{text}"
                pictures()[part.marker](found, PAGE.with_name(part.picture))
            if part.is_section:
                text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
            PAGE.write_text(between(PAGE.read_text(), text, part.marker))
            print(f"Refreshed the {part.marker} of {PAGE.relative_to(ROOT)}.")
    return 0


def pictures() -> dict[str, Callable[[Results, Path], None]]:
    """Who draws the picture of a part."""
    from bench import log_plot, plots

    return {"results": plots.save, "log results": log_plot.save}
