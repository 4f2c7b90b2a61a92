"""Brings the last results into docs/performance.md, between two markers, and its picture beside it."""

from __future__ import annotations

from pathlib import Path

from bench.report import markdown
from bench.results import load
from bench.stage import ROOT

PAGE = ROOT / "docs" / "performance.md"
PICTURE = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def between(page: str, text: str) -> str:
    """The page with the text between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}"


def refresh(results: Path) -> int:
    if not results.exists():
        print(f"There are no results at {results.relative_to(ROOT)}; `make bench` makes them.")
        return 1
    from bench.plots import save

    found = load(results)
    picture = f"![Latency over size, publish calls over subscribers, and throughput]({PICTURE.name})"
    PAGE.write_text(between(PAGE.read_text(), f"{picture}\n\n{markdown(found)}"))
    save(found, PICTURE)
    print(f"Refreshed {PAGE.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}.")
    return 0
