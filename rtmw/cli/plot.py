"""`rtmw plot`: members of messages over time, as a picture or in the terminal."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.cli.braille import chart
from rtmw.cli.common import CommandError
from rtmw.cli.recording import section_of, working
from rtmw.cli.show import say
from rtmw.cli.sources import over_readable
from rtmw.errors import UnsupportedType
from rtmw.optional import needed
from rtmw.recording.places import place
from rtmw.recording.recording import Recording
from rtmw.recording.tools.whole import written_whole
from rtmw.visible import label, visible

if TYPE_CHECKING:
    from rtmw.recording.tools.series import Series

ROWS: Final = 12
"""Rows of a chart in the terminal."""
COLUMNS: Final = 2000
"""Columns of a picture, each with the least and the largest of its values."""
LONGEST_NAME: Final = 24
"""Letters of a name on an axis."""
FORMS: Final = (".png", ".svg", ".pdf")


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
