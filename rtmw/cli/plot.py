"""`rtmw plot`: members of messages over time, as a picture, or as lines of braille dots in the terminal."""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import runs
from rtmw.cli.recording import section_of, working
from rtmw.cli.sources import add_section, add_strict, over_readable
from rtmw.cli.terminal import say
from rtmw.errors import UnsupportedType, needed
from rtmw.recording.places import place, written_whole
from rtmw.recording.recording import Recording
from rtmw.text.visible import label, visible

if TYPE_CHECKING:
    from rtmw.recording.tools.series import Series


ROWS: Final = 12
"""Rows of a chart in the terminal."""
COLUMNS: Final = 2000
"""Columns of a picture, each with the least and the largest of its values."""
LONGEST_NAME: Final = 24
"""Letters of a name on an axis."""
FORMS: Final = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, plot, domain=False, json=False)
    parser.set_defaults(topics=None)
    parser.add_argument(
        "members", nargs="+", metavar="TOPIC.member", help="as pump/speed.rpm, imu.rates.x or arm.angles[2]"
    )
    parser.add_argument("path", metavar="PATH", help="a recording, a folder or a pattern")
    parser.add_argument("-o", "--output", metavar="FILE", help="a picture: .png, .svg or .pdf; default: the terminal")
    add_section(parser)
    add_strict(parser)


def plot(arguments: argparse.Namespace) -> int:
    target = None if arguments.output is None else place(arguments.output)
    if target is not None and target.suffix not in FORMS:
        raise CommandError(f"{target} is no picture that can be written: its name must end in {', '.join(FORMS)}")
    needed("pyarrow", "PyArrow", "plot", "rtmw plot")
    with working("plotted") as (found, _):
        every, status = over_readable(
            found([arguments.path]), arguments.strict, lambda paths: _series(paths, arguments)
        )
        if target is None:
            _show(every)
        else:
            with written_whole(target, replace=True) as temporary:
                _draw(every, temporary, target.suffix)
            say(target)
    return status


def _series(paths: Sequence[Path], arguments: argparse.Namespace) -> list[Series]:
    from rtmw.recording.frames.scan import TimeRange
    from rtmw.recording.tools.series import series

    section = section_of(arguments)
    with ExitStack() as opened:
        recordings = [opened.enter_context(Recording(path)) for path in paths]
        selection = TimeRange(*section.span(*recordings))
        section.refuse_beside(*recordings)
        try:
            return [series(recordings, wanted, selection) for wanted in arguments.members]
        except (ValueError, UnsupportedType) as error:
            raise CommandError(str(error)) from None


def _show(every: Sequence[Series]) -> None:
    """One chart for each, as wide as the terminal."""
    width = shutil.get_terminal_size((100, 24)).columns
    for one in every:
        say(f"{one.name}, {len(one.values):,} values")
        if not len(one.values):
            continue
        thin = one.thinned(2 * width)
        ends = _moment(int(one.times_ns[0])), _moment(int(one.times_ns[-1]))
        xs = ((thin.times_ns - thin.times_ns[0]) / 1e9).tolist()
        say(*chart(xs, thin.values.tolist(), (width, ROWS), ends, _names(one)))


def _names(one: Series) -> list[str]:
    """The texts of a series, cut to what an axis has room for."""
    return [visible(name)[:LONGEST_NAME] for name in one.names]


def _moment(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def _draw(every: Sequence[Series], target: Path, suffix: str) -> None:
    needed("matplotlib", "Matplotlib", "plot", "rtmw plot -o")
    dates: Any = import_module("matplotlib.dates")
    figure: Any = import_module("matplotlib.figure").Figure(figsize=(10, 1 + 2.2 * len(every)), layout="constrained")
    panels = figure.subplots(len(every), 1, sharex=True, squeeze=False)
    for one, (axes,) in zip(every, panels, strict=True):
        thin = one.thinned(COLUMNS)
        steps = "steps-post" if one.names else "default"
        axes.plot(thin.times_ns.astype("datetime64[ns]"), thin.values, linewidth=1.0, color="#2a6f97", drawstyle=steps)
        if one.names:
            axes.set_yticks(range(len(one.names)), _names(one), parse_math=False)
        axes.set_title(label(one.name), loc="left", fontsize=10)
        axes.grid(color="#e5e5e5", linewidth=0.8)
    locator = dates.AutoDateLocator()
    axis = panels[-1][0].xaxis
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.ConciseDateFormatter(locator))
    figure.savefig(target, format=suffix.removeprefix("."), dpi=120)


_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a braille character, by row and column."""
_BLANK: Final = 0x2800


class Canvas:
    """A picture made of this many characters in width and height. x and y go from 0 to 1, from the left and from
    below."""

    def __init__(self, width: int, height: int) -> None:
        self._wide, self._high = 2 * width, 4 * height
        self._cells = [[_BLANK] * width for _ in range(height)]

    def line(self, points: Sequence[tuple[float, float] | None]) -> None:
        """Draws a line from point to point; None interrupts it."""
        before: tuple[int, int] | None = None
        for point in points:
            here = None if point is None else self._place(*point)
            if here is not None:
                self._stroke(before or here, here)
            before = here

    def _place(self, x: float, y: float) -> tuple[int, int]:
        return round(x * (self._wide - 1)), round((1 - y) * (self._high - 1))

    def _stroke(self, begin: tuple[int, int], end: tuple[int, int]) -> None:
        steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]), 1)
        for step in range(steps + 1):
            column = round(begin[0] + (end[0] - begin[0]) * step / steps)
            row = round(begin[1] + (end[1] - begin[1]) * step / steps)
            self._cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]

    def lines(self) -> list[str]:
        return ["".join(map(chr, row)) for row in self._cells]


def chart(
    xs: Sequence[float],
    ys: Sequence[float],
    size: tuple[int, int],
    ends: tuple[str, str],
    names: Sequence[str] = (),
) -> list[str]:
    """A picture of so many characters, width and height, with the range of values on its left and `ends` below.

    Points that are no number interrupt the line. `names`: of the values 0, 1, …, which stand on the left then.
    """
    finite = [y for y in ys if math.isfinite(y)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    first, last = (xs[0], xs[-1]) if len(xs) else (0.0, 1.0)
    height = max(size[1] - 1, 2)
    sides = _sides((low, high), height, names)
    margin = max(map(len, sides))
    width = max(size[0] - margin - 1, 8)
    canvas = Canvas(width, height)
    canvas.line(
        [
            (_share(x, first, last), _share(y, low, high)) if math.isfinite(y) else None
            for x, y in zip(xs, ys, strict=True)
        ]
    )
    rows = [f"{side:>{margin}} {row}".rstrip("⠀ ") for side, row in zip(sides, canvas.lines(), strict=True)]
    gap = max(width - len(ends[0]) - len(ends[1]), 1)
    return [*rows, " " * (margin + 1) + ends[0] + " " * gap + ends[1]]


def _sides(span: tuple[float, float], height: int, names: Sequence[str]) -> list[str]:
    """What stands on the left of each row: the least and the largest value, or the names of those between them."""
    low, high = span
    sides = [""] * height
    if not names:
        sides[0], sides[-1] = f"{high:.6g}", f"{low:.6g}"
    for value in range(round(low), round(high) + 1) if names else ():
        sides[round((1 - _share(value, low, high)) * (height - 1))] = names[value]
    return sides


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5
