"""Results as pictures: a few rows, fetched to this program, on matplotlib figures that nobody has to close."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from rtmw.text.visible import label as shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

COLOURS: Final = ("#2a6f97", "#d1495b", "#66a182", "#edae49", "#8d6a9f", "#5c677d", "#00798c", "#b5838d")
WIDTH, HEIGHT = 9.0, 3.2


def lines(
    result: DataFrame,
    x: str,
    y: str,
    *,
    by: str = "topic",
    title: str = "",
    unit: str = "",
    from_zero: bool = True,
    hollow: str | None = None,
    apart: float | None = None,
) -> Figure:
    """A line for each value of the column `by`; `unit` is what the other axis says, else the column's name.

    `from_zero`: the axis begins there, if nothing is below. `hollow`: a boolean column; where it is true, the point is
    a circle on a dotted line: of an interval that is not whole. `apart`: points that are further from each other than
    so many seconds are not connected.
    """
    dates: Any = import_module("matplotlib.dates")
    figure, axes = _axes(title, unit or y)
    groups: dict[Any, tuple[list[Any], list[Any], list[bool]]] = {}
    for row in result.select(by, x, y, *((hollow,) if hollow else ())).collect():
        xs, ys, hollows = groups.setdefault(row[0], ([], [], []))
        at = row[1].astimezone(UTC) if isinstance(row[1], datetime) else row[1]
        if apart is not None and xs and _distance(xs[-1], at) > apart:
            xs.append(at)  # a point without a value, which ends the line
            ys.append(None)
            hollows.append(False)
        xs.append(at)
        ys.append(row[2])
        hollows.append(bool(hollow and row[3]))
    for (name, (xs, ys, hollows)), colour in zip(groups.items(), cycle(COLOURS), strict=False):
        mark = "o" if len(xs) < 3 and not any(hollows) else None
        whole = [None if is_hollow else value for value, is_hollow in zip(ys, hollows, strict=True)]
        axes.plot(xs, whole, label=shown(str(name)), color=colour, linewidth=1.4, marker=mark)
        _dotted(axes, xs, ys, hollows, colour)
    if len(groups) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    numbers = [value for _, ys, _ in groups.values() for value in ys if value is not None]
    if from_zero and numbers and min(numbers) >= 0:
        axes.set_ylim(bottom=0)
    if any(isinstance(value, datetime) for xs, _, _ in groups.values() for value in xs):
        locator = dates.AutoDateLocator(tz=UTC)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC))
    return figure


def _distance(first: Any, second: Any) -> float:
    between = second - first
    return between.total_seconds() if isinstance(between, timedelta) else float(between)


def _dotted(axes: Any, xs: list[Any], ys: list[Any], hollows: list[bool], colour: str) -> None:
    """Circles where intervals are not whole, and dotted lines to the points beside them."""
    for at, is_hollow in enumerate(hollows):
        if is_hollow:
            near = slice(max(at - 1, 0), at + 2)
            axes.plot(xs[near], ys[near], color=colour, linewidth=1.0, linestyle=":")
            axes.plot([xs[at]], [ys[at]], color=colour, marker="o", markerfacecolor="none", markersize=5)


def bars(result: DataFrame, label: str, value: str, *, title: str = "", unit: str = "") -> Figure:
    """A bar for each row, in the order of the rows."""
    rows = result.select(label, value).collect()
    figure, axes = _axes(title, "")
    names, values = [shown(str(row[0])) for row in rows], [row[1] or 0 for row in rows]
    axes.barh(names, values, color=COLOURS[0], height=0.6)
    axes.invert_yaxis()
    axes.set_xlabel(unit or value)
    figure.set_size_inches(WIDTH, max(1.6, 0.7 + 0.32 * len(rows)))
    return figure


def _axes(title: str, unit: str) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes: Any = figure.add_subplot()
    axes.set_title(shown(title), loc="left", fontsize=11)
    axes.set_ylabel(unit)
    axes.grid(axis="both", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes
