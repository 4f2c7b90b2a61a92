"""Brings the last results into the pages of bench/results, and their pictures beside docs/performance.md.

The links, the log, the relay and the replicated log have a page each, all other questions one more. A page of which the
run has asked nothing stays as it is, so that a run of one part, which takes a fraction of the time, renews that page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.questions import APART, LINKS, NAMES, RELAY, REPLICA
from bench.report import markdown
from bench.results import Results, load
from bench.stage import ROOT

PAGES = ROOT / "bench" / "results"
PICTURES = ROOT / "docs"
LOG = tuple(name for name in NAMES if name.startswith("log_"))


@dataclass(frozen=True)
class PagePart:
    page: str
    questions: tuple[str, ...]
    picture: str = ""
    """File name; nothing: there is none."""


PARTS = (
    PagePart("general.md", tuple(name for name in NAMES if name not in (*LOG, *APART)), "performance.svg"),
    PagePart("log.md", LOG, "performance-log.svg"),
    *(PagePart(f"{name}.md", (name,)) for name in LINKS),
    PagePart("relay.md", RELAY),
    PagePart("replica.md", REPLICA),
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
            page = PAGES / part.page
            page.write_text(between(page.read_text(), markdown(found, part.questions), "results"))
            print(f"Refreshed {page.relative_to(ROOT)}.")
            if part.picture:
                pictures()[part.picture](found, PICTURES / part.picture)
    return 0


def pictures() -> dict[str, Callable[[Results, Path], None]]:
    """Who draws each picture."""
    from bench import log_plot, plots

    return {"performance.svg": plots.save, "performance-log.svg": log_plot.save}
