"""A page of HTML in one file: verdict, figures, tables and plots, without anything from elsewhere.

Plots are lines over time as SVG, which stretch with the page; the text beside them does not.

The page is light or dark, as the reader's system is set, from 320 px on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rtmw.recording.report.figures import NS, STEPS
from rtmw.recording.report.verdict import Check, Level, worst
from rtmw.text.units import duration, size
from rtmw.text.visible import markup

if TYPE_CHECKING:
    from collections.abc import Collection


WIDTH, HEIGHT = 1000.0, 200.0
"""Width and height of the picture in its own coordinates, which the page stretches."""
MOST_TICKS: Final = 5
HUES: Final = 8
"""Colours that the style has."""
_DAYS: Final = (*(step for step in STEPS if step >= 1), 1209600, 2592000, 7776000, 31536000)


@dataclass(frozen=True)
class Line:
    """A value for each point in time; None: there is none, and the line is interrupted."""

    name: str
    values: Sequence[float | None]
    hue: int = 0
    """Number of the colour."""


@dataclass(frozen=True)
class Plot:
    """Lines over the same points in time."""

    title: str
    times_ns: Sequence[int]
    lines: Sequence[Line]
    unit: str = ""
    """`s` and `bytes/s` are shown with a prefix; other units as they are."""
    partial: frozenset[int] = frozenset()
    """Points of intervals in which the recording began or ended: a circle on a dotted line."""
    until_ns: int = 0
    """The values are those of intervals, and this is where the last one ends: lines are steps. 0: values are points."""
    logarithmic: bool = False


@dataclass(frozen=True)
class _Axis:
    """Values from bottom to top."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool

    def height(self, value: float) -> float:
        """Returns the height of a value above the bottom, as a share of all."""
        low, high, at = (math.log10(v) if self.logarithmic else v for v in (self.low, self.high, max(value, self.low)))
        return (at - low) / (high - low)


def drawn(plot: Plot) -> str:
    """A figure. Without a value anywhere it says so."""
    values = [value for line in plot.lines for value in line.values if value is not None]
    caption = f"<figcaption>{markup(plot.title)}</figcaption>" if plot.title else ""
    if not values:
        return f"<figure>{caption}<p>There is nothing to show.</p></figure>"
    axis = _logarithmic(values) if plot.logarithmic else _linear(values, 1024 if plot.unit == "bytes/s" else 1000)
    grid = "".join(f"M0 {_y(axis, tick)}H{WIDTH:g}" for tick in axis.ticks)
    paths = "".join(path for line in plot.lines for path in _paths(plot, axis, line))
    labels = "".join(
        f'<span class="y" style="top:{100 - 100 * axis.height(tick):.2f}%">{markup(_amount(tick, plot.unit))}</span>'
        for tick in axis.ticks
    )
    return (
        f'<figure>{caption}{_legend(plot)}<div class="plot">'
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="{markup(plot.title or "plot")}"><path class="grid" d="{grid}"/>{paths}</svg>'
        f"{labels}{''.join(_times(plot))}</div></figure>"
    )


def _legend(plot: Plot) -> str:
    if len(plot.lines) < 2:
        return ""
    names = "".join(f'<span><i class="s{line.hue % HUES}"></i>{markup(line.name)}</span>' for line in plot.lines)
    return f'<div class="legend">{names}</div>'


def _paths(plot: Plot, axis: _Axis, line: Line) -> Iterator[str]:
    heights = [None if value is None else _y(axis, value) for value in line.values]
    found = _steps(plot, heights) if plot.until_ns else _points(plot, heights)
    title = f"<title>{markup(line.name)}</title>"
    for kind, path in found.items():
        if path:
            colour = "" if kind == "hole" else f" s{line.hue % HUES}"
            yield f'<path class="{kind}{colour}" d="{path}">{title}</path>'


def _points(plot: Plot, heights: Sequence[str | None]) -> dict[str, str]:
    """Lines from point to point; a point without a neighbour is a dot."""
    points = [None if y is None else f"{_x(plot, time)} {y}" for time, y in zip(plot.times_ns, heights, strict=True)]
    line, dots = "", ""
    for before, point, behind in zip([None, *points], points, [*points[1:], None], strict=False):
        if point is not None and before is not None:
            line += f"L{point}"
        elif point is not None:
            line += f"M{point}"
            dots += "" if behind is not None else f"M{point}h0"
    return {"line": line, "dots": dots}


def _steps(plot: Plot, heights: Sequence[str | None]) -> dict[str, str]:
    """A level for each interval, so that an outage has upright ends; intervals that are not whole are dotted."""
    bounds = [*map(partial(_x, plot), plot.times_ns), _x(plot, plot.until_ns)]
    line, dotted, rings = "", "", ""
    for at, y in enumerate(heights):
        if y is None:
            continue
        if at in plot.partial:
            dotted += f"M{bounds[at]} {y}H{bounds[at + 1]}"
            rings += f"M{(float(bounds[at]) + float(bounds[at + 1])) / 2:.1f} {y}h0"
        follows = at > 0 and at not in plot.partial and at - 1 not in plot.partial and heights[at - 1] is not None
        line += (
            f"V{y}H{bounds[at + 1]}" if follows else f"M{bounds[at]} {y}H{bounds[at + 1]}" * (at not in plot.partial)
        )
    return {"line": line, "dotted": dotted, "ring": rings, "hole": rings}


def _x(plot: Plot, time_ns: int) -> str:
    first, last = _span(plot)
    return f"{WIDTH * ((time_ns - first) / (last - first) if last > first else 0.5):.1f}"


def _span(plot: Plot) -> tuple[int, int]:
    return plot.times_ns[0], plot.until_ns or plot.times_ns[-1]


def _y(axis: _Axis, value: float) -> str:
    return f"{HEIGHT * (1 - axis.height(value)):.1f}"


def _linear(values: Sequence[float], thousand: int) -> _Axis:
    """Returns an axis from zero, or from below where there are negative values, in steps that are even in their
    unit."""
    low, high = min(0.0, *values), max(0.0, *values)
    span = high - low or 1.0
    unit = float(thousand) ** max(math.floor(math.log(span / 2, thousand)), -4)
    power = unit * 10.0 ** math.floor(math.log10(span / unit / 4))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if span / (factor * power) <= 4)
    first, last = math.floor(low / step), math.ceil((low + span) / step)
    ticks = tuple(number * step for number in range(first, last + 1))
    return _Axis(ticks[0], ticks[-1], ticks, False)


def _logarithmic(values: Sequence[float]) -> _Axis:
    """Powers of ten; what is not above zero lies at the bottom."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    step = math.ceil((high - low) / 5)
    ticks = tuple(10.0**power for power in range(low, high + 1, step))
    return _Axis(10.0**low, 10.0**high, ticks, True)


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return duration(value) or ""
    if unit == "bytes/s":
        return f"{size(value)}/s" if value else "0"
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:g}{prefix}"
    return f"{value:g}"


def _times(plot: Plot) -> Iterator[str]:
    """A few even times, with so many digits as tell them apart."""
    first, last = _span(plot)
    if last <= first:
        yield f'<span class="x" style="left:50%">{_moment(first, 0.001)}</span>'
        return
    step = next((s for s in (*STEPS[:9], *_DAYS) if (last - first) / NS / s <= MOST_TICKS), _DAYS[-1])
    step_ns = round(step * NS)
    begin = -(-first // step_ns)
    for number in range(begin, last // step_ns + 1):
        left = 100 * (number * step_ns - first) / (last - first)
        even = " even" if (number - begin) % 2 else ""
        yield f'<span class="x{even}" style="left:{left:.2f}%">{_moment(number * step_ns, step)}</span>'


def _moment(ns: int, step: float) -> str:
    at = datetime.fromtimestamp(ns // NS, UTC)
    if step >= 86400:
        return f"{at:%m-%d}"
    if step >= 60:
        return f"{at:%m-%d}" if (at.hour, at.minute) == (0, 0) else f"{at:%H:%M}"
    return f"{at:%H:%M:%S}" if step >= 1 else f"{at:%M:%S}.{ns % NS // 10**6:03d}"


_LIGHT: Final = """
  color-scheme: light; --ink: #1d2733; --quiet: #5b6673; --line: #dfe4e9; --ground: #f5f7f8; --card: #ffffff;
  --link: #1f5f86; --pass: #1d7a46; --warn: #8f5b00; --fail: #b3261e;
  --pass-tint: #e6f4ec; --warn-tint: #fdf2dc; --fail-tint: #fbe9e7;
  --c0: #2a6f97; --c1: #d1495b; --c2: #3f8f5f; --c3: #b97f0a; --c4: #8d6a9f; --c5: #5c677d; --c6: #00838f;
  --c7: #a0603c;
"""
_DARK: Final = """
  color-scheme: dark; --ink: #e4e9ee; --quiet: #9aa7b4; --line: #2d3742; --ground: #12171d; --card: #1a2129;
  --link: #7cc0ea; --pass: #5fd08e; --warn: #f0b64a; --fail: #ff8a80;
  --pass-tint: #14291e; --warn-tint: #2e2413; --fail-tint: #341b1b;
  --c0: #6cb4e0; --c1: #f0808e; --c2: #74c694; --c3: #e8b44c; --c4: #c3a0d8; --c5: #a3aec2; --c6: #4dc6d2;
  --c7: #d99a74;
"""
STYLE: Final = (
    f":root {{ {_LIGHT} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n"
    + """
* { box-sizing: border-box }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100% }
body { margin: 0; color: var(--ink); background: var(--ground); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 72px }
a { color: var(--link) }
h1 { margin: 0; font-size: 25px; line-height: 1.25 }
h2 { margin: 40px 0 4px; font-size: 18px; scroll-margin-top: 12px }
p { margin: 4px 0 12px; color: var(--quiet); max-width: 78ch; overflow-wrap: anywhere }
nav { display: flex; flex-wrap: wrap; gap: 6px 16px; margin: 18px 0 0; font-size: 14px }
.card, .box { background: var(--card); border: 1px solid var(--line); border-radius: 8px }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0 }
.card { padding: 10px 14px }
.card b { display: block; font-size: 21px; font-variant-numeric: tabular-nums }
.card span { color: var(--quiet); font-size: 13px }
.verdict { margin: 20px 0 0; padding: 12px 16px; border-radius: 8px }
.verdict { border-left: 6px solid var(--tone); background: var(--tint) }
.verdict strong { color: var(--tone); font-size: 21px }
.verdict ul { list-style: none; margin: 8px 0 0; padding: 0 }
.verdict li { padding: 4px 0 4px 104px; text-indent: -104px; overflow-wrap: anywhere }
.verdict li > * { text-indent: 0 }
.verdict li b { display: inline-block; width: 104px }
.verdict details { margin-top: 6px; color: var(--quiet); font-size: 14px }
.pass { --tone: var(--pass); --tint: var(--pass-tint) } .warn { --tone: var(--warn); --tint: var(--warn-tint) }
.fail { --tone: var(--fail); --tint: var(--fail-tint) } li.pass, li.warn, li.fail { --ink: inherit }
li.warn b, li.fail b, li.pass b { color: var(--tone) }
.box { overflow-x: auto; margin: 12px 0 }
table { border-collapse: collapse; width: 100%; font-size: 13.5px }
th { text-align: left; font-weight: 600; color: var(--quiet); vertical-align: bottom }
thead { border-bottom: 1px solid var(--line) }
th, td { padding: 6px 10px }
tbody tr:nth-child(even) { background: var(--ground) }
td { overflow-wrap: anywhere; min-width: 5ch }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.time { white-space: nowrap; font-variant-numeric: tabular-nums }
footer { margin-top: 48px; color: var(--quiet); font-size: 13px; overflow-wrap: anywhere }
figure { margin: 0; padding: 10px 14px 8px }
figcaption { font-size: 13px; font-weight: 600; overflow-wrap: anywhere }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12.5px; color: var(--quiet); margin: 2px 0 6px }
.legend i { display: inline-block; width: 14px; height: 3px; margin-right: 5px }
.legend i { vertical-align: middle; border-radius: 2px }
.plot { position: relative; margin: 12px 26px 20px 58px; height: 190px }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible }
.plot path { fill: none; vector-effect: non-scaling-stroke; stroke-width: 1.5px; stroke-linejoin: round }
.plot .grid { stroke: var(--line); stroke-width: 1px }
.plot .dots { stroke-linecap: round; stroke-width: 4px }
.plot .dotted { stroke-dasharray: 2 3 } .plot .ring { stroke-linecap: round; stroke-width: 8px }
.plot .hole { stroke: var(--card); stroke-linecap: round; stroke-width: 5px }
.plot span { position: absolute; font-size: 11.5px; line-height: 1; color: var(--quiet); white-space: nowrap }
.plot .y { right: calc(100% + 6px); transform: translateY(-50%) }
.plot .x { top: calc(100% + 6px); transform: translateX(-50%) }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 0 12px }
.plots .plot { height: 140px }
"""
    + "".join(
        f".s{number} {{ stroke: var(--c{number}) }} i.s{number} {{ background: var(--c{number}) }}\n"
        for number in range(8)
    )
    + """
@media (max-width: 640px) {
  main { padding: 20px 12px 56px }
  h1 { font-size: 21px }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px } .card b { font-size: 18px }
  .verdict li { padding-left: 0; text-indent: 0 } .verdict li b { display: block; width: auto }
  thead { display: none }
  table, tbody { display: block }
  tr { display: block; padding: 8px 12px }
  td, td.number { display: flex; justify-content: space-between; gap: 16px }
  td, td.number { padding: 1px 0; text-align: right; min-width: 0 }
  td::before { content: attr(data-of); color: var(--quiet); text-align: left; flex: 0 0 auto }
  td:first-child { font-weight: 600; text-align: left } td:first-child::before { content: none }
  .plot .x.even { display: none }
}
@media print { main { max-width: none } .box, .verdict { break-inside: avoid } }
"""
)
"""The style sheet of all pages."""


BEGIN: Final = "<!doctype html>\n"
"""The first line of each page; a file is recognized by it."""
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
