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
STYLE = {
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
        figure, panels = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
        latency(results, panels[0])
        fan_out(results, panels[1])
        throughput(results, panels[2])
        figure.suptitle(f"rtmw beside its peers, {results.about['date']}, {results.about['machine'].split(',')[0]}")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def plain(axes: Any) -> None:
    """Numbers as people write them, not as powers of ten."""
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if value < 1 else f"{value:,.0f}")


def legend(axes: Any) -> None:
    if axes.lines:  # else there is nothing to explain, and matplotlib warns
        axes.legend(fontsize=8)


def latency(results: Results, axes: Any) -> None:
    """Median as a line, from there to p99 as a band."""
    for system in ALL:
        sizes: list[int] = []
        middles: list[float] = []
        tails: list[float] = []
        for name, size in SIZES.items():
            series = results.get("round_trip", f"{name}, copied", system)
            middle, tail = series.percentile("p50"), series.percentile("p99") or series.percentile("p90")
            if middle is not None:
                sizes.append(size)
                middles.append(middle)
                tails.append(tail or middle)
        if sizes:
            axes.plot(sizes, middles, marker="o", label=system, color=COLOURS[system])
            axes.fill_between(sizes, middles, tails, color=COLOURS[system], alpha=0.08)
    axes.set(xscale="log", yscale="log", xlabel="bytes, copied in", ylabel="half round trip, polling, µs")
    axes.set_xticks(list(SIZES.values()), list(SIZES))
    plain(axes)
    axes.set_title("Latency: median, band to p99")
    legend(axes)


def fan_out(results: Results, axes: Any) -> None:
    for system in ALL:
        found: dict[int, list[float]] = {}
        for case in results.cases("fan_out"):
            values = results.get("fan_out", case, system).values
            if values:
                found[int(case.split()[0])] = values
        if found:
            axes.plot(list(found), [median(v) for v in found.values()], marker="o", label=system, color=COLOURS[system])
            axes.fill_between(
                list(found),
                [min(v) for v in found.values()],
                [max(v) for v in found.values()],
                color=COLOURS[system],
                alpha=0.12,
            )
    axes.set(xscale="log", yscale="log", xlabel="idle subscribers", ylabel="one publish call of 64 B, µs")
    axes.set_xticks([1, 8, 64], ["1", "8", "64"])
    plain(axes)
    axes.set_title("Fan-out: what a call costs the publisher")
    legend(axes)


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
