"""Three pictures in one SVG: latency over size, publish calls over idle subscribers, and throughput.

On a card of its own colour, so that it reads the same on a light page and on a dark one.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from bench.cases import SPIN
from bench.peers import ALL
from bench.questions.round_trip import SIZES
from bench.results import Results

COLOURS = {
    "rtmw": "#c2185b",
    "iceoryx2": "#1565c0",
    "eclipse-zenoh": "#2e7d32",
    "pyzmq": "#ef6c00",
    "cyclonedds": "#6a1b9a",
    "pynng": "#5d4037",
    SPIN: "#616161",
}
STYLE: Any = {
    "figure.facecolor": "#fbfbf8",
    "axes.facecolor": "#fbfbf8",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "rtmw",
}


def save(results: Results, path: Path) -> None:
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, 3, figsize=(13, 5), layout="constrained")
        latency(results, panels[0])
        fan_out(results, panels[1])
        throughput(results, panels[2])
        handles = [Line2D([], [], marker="o", color=COLOURS[system], label=system) for system in ALL]
        figure.legend(handles=handles, ncols=len(handles), loc="outside lower center", frameon=False)
        figure.suptitle(f"rtmw beside its peers, {results.about['date']}, {results.about['machine'].split(',')[0]}")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def plain(axes: Any) -> None:
    """Numbers as people write them, not as powers of ten."""
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if value < 1 else f"{value:,.0f}")


def latency(results: Results, axes: Any) -> None:
    """Medians as lines, copied whole and loaned dashed, and the p99 of what is copied as dots."""
    for system in ALL:
        for how, share, style in (("copied", "p50", "o-"), ("loaned", "p50", "^--"), ("copied", "p99", "_")):
            found = {
                size: value
                for name, size in SIZES.items()
                if (value := results.get("round_trip", f"{name}, {how}", system).percentile(share)) is not None
            }
            axes.plot(list(found), list(found.values()), style, color=COLOURS[system], markersize=5, linewidth=1.3)
    if not any(len(line.get_xdata()) for line in axes.lines):
        axes.set_axis_off()  # it was not asked for
        return
    axes.set(xscale="log", yscale="log", xlabel="bytes of the message", ylabel="half round trip, polling, µs")
    axes.set_xticks(list(SIZES.values()), list(SIZES))
    plain(axes)
    axes.set_title("Latency: median copied (○) and loaned (△), p99 copied (–)")


def fan_out(results: Results, axes: Any) -> None:
    """Medians over the rounds, and the range of all rounds."""
    for system in ALL:
        found: dict[int, list[float]] = {}
        for case in results.cases("fan_out"):
            values = results.get("fan_out", case, system).values
            if values:
                found[int(case.split()[0])] = values
        counts, colour = list(found), COLOURS[system]
        axes.plot(counts, [median(values) for values in found.values()], "o-", color=colour, markersize=5)
        lows, highs = [min(values) for values in found.values()], [max(values) for values in found.values()]
        axes.fill_between(counts, lows, highs, color=colour, alpha=0.12)
    if not results.cases("fan_out"):
        axes.set_axis_off()
        return
    axes.set(xscale="log", yscale="log", xlabel="idle subscribers", ylabel="one publish call of 64 B, µs")
    axes.set_xticks([1, 8, 64], ["1", "8", "64"])
    plain(axes)
    axes.set_title("Fan-out: what a call costs the publisher")


def throughput(results: Results, axes: Any) -> None:
    bars: list[tuple[str, float, str]] = []
    for case in results.cases("one_way"):
        for system in results.systems("one_way"):
            series = results.get("one_way", case, system)
            if series.values:
                name = system if case == "one call a message" else f"{system}, {case}"
                remark = f" ({series.remark})" if series.remark else ""
                bars.append((name, median(series.values), remark))
    bars.sort(key=lambda bar: bar[1])
    names = [name for name, _, _ in bars]
    axes.barh(names, [value for _, value, _ in bars], color=[COLOURS[name.split(",")[0]] for name in names])
    for at, (_, value, remark) in enumerate(bars):
        axes.text(value, at, f" {value:.2f}{remark}", va="center", fontsize=8)
    axes.margins(x=0.25)
    axes.set(xlabel="million messages of 64 B a second that arrived")
    axes.set_title("Throughput, one way")
