"""A page of HTML in one file: headings, figures, tables and pictures, without anything from elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS: Final = {"s": "s", "ms": "ms", "us": "µs", "min": "min", "hz": "Hz"}
_STYLE: Final = """
:root { --ink: #1d2733; --quiet: #6b7785; --line: #e3e7eb; --tint: #f6f8f9; --accent: #2a6f97 }
* { box-sizing: border-box }
body { margin: 0; color: var(--ink); background: var(--tint); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 80px }
h1 { margin: 0; font-size: 26px; letter-spacing: -0.01em }
h2 { margin: 44px 0 4px; font-size: 18px }
p { margin: 4px 0 12px; color: var(--quiet); max-width: 78ch }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 24px 0 }
.card { flex: 1 1 140px; background: white; border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px }
.card b { display: block; font-size: 22px; font-variant-numeric: tabular-nums }
.card span { color: var(--quiet); font-size: 13px }
.box { background: white; border: 1px solid var(--line); border-radius: 8px; overflow-x: auto; margin: 12px 0 }
.box svg { display: block; width: 100%; height: auto; padding: 8px }
table { border-collapse: collapse; width: 100%; font-size: 13.5px }
th { text-align: left; font-weight: 600; color: var(--quiet); white-space: nowrap }
thead { border-bottom: 1px solid var(--line) }
th, td { padding: 7px 12px }
tbody tr:nth-child(even) { background: var(--tint) }
td { white-space: nowrap }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
footer { margin-top: 56px; color: var(--quiet); font-size: 13px }
"""


class Page:
    """Collects what is shown, in order."""

    def __init__(self, title: str, subtitle: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(subtitle)}</p>"]

    def cards(self, figures: Iterable[tuple[str, str]]) -> None:
        """Large figures, each with what it counts."""
        cards = (
            f'<div class="card"><b>{escape(value)}</b><span>{escape(what)}</span></div>' for value, what in figures
        )
        self._parts.append(f'<div class="cards">{"".join(cards)}</div>')

    def heading(self, text: str, about: str = "") -> None:
        self._parts.append(f"<h2>{escape(text)}</h2>" + (f"<p>{escape(about)}</p>" if about else ""))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Columns of numbers are aligned to the right."""
        is_number = [any(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]
        kinds = [' class="number"' if number else "" for number in is_number]
        head = "".join(f"<th{kind}>{escape(heading(name))}</th>" for name, kind in zip(columns, kinds, strict=True))
        body = "".join(f"<tr>{_cells(row, kinds)}</tr>" for row in rows)
        self._parts.append(f'<div class="box"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')

    def picture(self, figure: Figure) -> None:
        self._parts.append(f'<div class="box">{svg(figure)}</div>')

    def html(self, footer: str) -> str:
        """The whole page."""
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        head += f"<title>{escape(self._title)}</title>"
        body = "\n".join(self._parts)
        return (
            f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body><main>\n{body}\n'
            f"<footer>{escape(footer)}</footer>\n</main></body></html>\n"
        )


def _cells(row: Sequence[Any], kinds: Sequence[str]) -> str:
    return "".join(f"<td{kind}>{escape(shown(cell))}</td>" for cell, kind in zip(row, kinds, strict=True))


def svg(figure: Figure) -> str:
    """A figure as an element of HTML, with text that can be selected."""
    matplotlib: Any = import_module("matplotlib")
    drawn: Any = figure
    memory = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        drawn.savefig(memory, format="svg", transparent=True, metadata={"Date": None})
    text = memory.getvalue()
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", text[text.index("<svg") :], count=2)


def heading(name: str) -> str:
    """The name of a column as a heading: `gap_p99_ms` is "gap p99, ms"."""
    stem, _, unit = name.rpartition("_")
    if stem and unit in UNITS:
        return f"{stem.replace('_', ' ')}, {UNITS[unit]}"
    return UNITS.get(name, name.replace("_", " "))


def shown(cell: Any) -> str:
    """A value for people: four digits of a fraction, no time zone, a dash for nothing."""
    if cell is None:
        return "–"
    if isinstance(cell, datetime):
        return f"{cell.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(cell, timedelta):
        return str(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    if float(cell).is_integer() or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.4g}"
