"""A page of HTML in one file: verdict, figures, tables and plots, without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rtmw.recording.report.plot import Plot, drawn
from rtmw.recording.report.style import STYLE
from rtmw.recording.report.verdict import Check, Level, worst
from rtmw.visible import markup

if TYPE_CHECKING:
    from collections.abc import Collection

BEGIN: Final = "<!doctype html>\n"
"""Of each page, so that one is known."""
UNITS: Final = {"s": "s", "ms": "ms", "us": "µs", "min": "min", "hz": "Hz", "bytes": "bytes", "bps": "bytes/s"}


class Page:
    """Collects what is shown, in order."""

    def __init__(self, title: str, subtitle: str) -> None:
        self._title = title
        self._top = [f"<h1>{markup(title)}</h1>", f"<p>{markup(subtitle)}</p>"]
        self._parts: list[str] = []
        self._sections: list[str] = []

    def verdict(self, checks: Sequence[Check]) -> None:
        """In one word, then what did not pass, with its reason; what passed is folded up."""
        found = worst(checks)
        bad = [check for check in checks if check.level > Level.PASS]
        good = [check for check in checks if check.level == Level.PASS]
        told = f"{len(bad)} of {len(checks)} checks did not pass" if bad else f"all {len(checks)} checks passed"
        folded = f"<details><summary>{len(good)} passed</summary><ul>{_items(good)}</ul></details>" if good else ""
        self._top.append(
            f'<section class="verdict {found}"><strong>{str(found).upper()}</strong> <span>{told}</span>'
            f"<ul>{_items(bad)}</ul>{folded}</section>"
        )

    def cards(self, figures: Iterable[tuple[str, str]]) -> None:
        """Large figures, each with what it counts."""
        cards = (
            f'<div class="card"><b>{markup(value)}</b><span>{markup(what)}</span></div>' for value, what in figures
        )
        self._parts.append(f'<div class="cards">{"".join(cards)}</div>')

    def heading(self, text: str, about: str = "") -> None:
        """Begins a section, which the list of contents leads to."""
        self._sections.append(text)
        told = f"<p>{markup(about)}</p>" if about else ""
        self._parts.append(f'<h2 id="s{len(self._sections)}">{markup(text)}</h2>{told}')

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Columns of numbers are aligned to the right."""
        kinds = [_kind([row[at] for row in rows]) for at in range(len(columns))]
        heads = [heading(name) for name in columns]
        head = "".join(f"<th{kind}>{markup(name)}</th>" for name, kind in zip(heads, kinds, strict=True))
        body = "".join(f"<tr>{_cells(row, kinds, heads)}</tr>" for row in rows)
        self._parts.append(f'<div class="box"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')

    def plot(self, plot: Plot) -> None:
        self._parts.append(f'<div class="box">{drawn(plot)}</div>')

    def plots(self, plots: Iterable[Plot]) -> None:
        """Small ones, side by side where there is room."""
        self._parts.append(
            f'<div class="plots">{"".join(f"""<div class="box">{drawn(one)}</div>""" for one in plots)}</div>'
        )

    def html(self, footer: str) -> str:
        """The whole page."""
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        head += f"<title>{markup(self._title)}</title>"
        links = "".join(f'<a href="#s{at}">{markup(name)}</a>' for at, name in enumerate(self._sections, 1))
        contents = f'<nav aria-label="Contents">{links}</nav>' if links else ""
        body = "\n".join([*self._top, contents, *self._parts])
        return (
            f'{BEGIN}<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body><main>\n{body}\n'
            f"<footer>{markup(footer)}</footer>\n</main></body></html>\n"
        )


def _items(checks: Iterable[Check]) -> str:
    return "".join(
        f'<li class="{check.level}"><b>{markup(check.name)}</b><span>{markup(check.reason)}</span></li>'
        for check in checks
    )


def _kind(cells: Collection[Any]) -> str:
    if any(isinstance(cell, datetime) for cell in cells):
        return ' class="time"'
    return ' class="number"' if any(isinstance(cell, int | float) for cell in cells) else ""


def _cells(row: Sequence[Any], kinds: Sequence[str], heads: Sequence[str]) -> str:
    return "".join(
        f'<td{kind} data-of="{markup(head)}"><span>{markup(shown(cell))}</span></td>'
        for cell, kind, head in zip(row, kinds, heads, strict=True)
    )


def heading(name: str) -> str:
    """The name of a column as a heading: `gap_p99_ms` is "gap p99, ms"."""
    stem, _, unit = name.rpartition("_")
    if stem and unit in UNITS:
        return f"{stem.replace('_', ' ')}, {UNITS[unit]}"
    return UNITS.get(name, name.replace("_", " "))


def moment(ns: int) -> datetime:
    """Nanoseconds since 1970 as a time that a table shows; exact to a microsecond."""
    return datetime.fromtimestamp(ns // 10**9, UTC) + timedelta(microseconds=ns % 10**9 // 1000)


def shown(cell: Any) -> str:
    """A value for people: four digits of a fraction, times with milliseconds and no zone, a dash for nothing."""
    if cell is None:
        return "–"
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    if isinstance(cell, timedelta):
        return str(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    if float(cell).is_integer() or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.4g}"
