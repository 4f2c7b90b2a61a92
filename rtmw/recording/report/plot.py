"""Lines over time as HTML and SVG. The lines stretch with the page, and the text beside them does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from rtmw.recording.report.grid import NS, STEPS
from rtmw.units import duration, size
from rtmw.visible import markup

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
