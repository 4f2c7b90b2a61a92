"""The picture of the log's figures: how many appends a second each system answers, by writers."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from bench.cases import FDATASYNC, RTMW, RTMW_C
from bench.log_peers import PEERS
from bench.plots import STYLE
from bench.results import Results

QUESTION = "log_append"
OURS, OTHERS = ("#c2185b", "#e88bb0"), ("#1565c0", "#2e7d32", "#ef6c00", "#6a1b9a", "#5d4037", "#00838f")
COLOURS = dict(zip((RTMW, RTMW_C, *PEERS, FDATASYNC), (*OURS, *OTHERS, "#616161"), strict=True))
WIDTH = 0.1
"""Of a bar, where a case is 1 wide."""


def save(results: Results, path: Path) -> None:
    """Nothing, if the run has not asked for them."""
    cases = results.cases(QUESTION)
    if not cases:
        return
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(13, 4.5), layout="constrained")
        for at, system in enumerate(COLOURS):
            bars = {
                case: median(values)
                for case in range(len(cases))
                if (values := results.get(QUESTION, cases[case], system).values)
            }
            places = [case + (at - len(COLOURS) / 2) * WIDTH for case in bars]
            axes.bar(places, list(bars.values()), WIDTH * 0.9, color=COLOURS[system], label=system)
        axes.set(yscale="log", ylabel="appends of 200 B a second, each synced before its answer")
        axes.set_xticks(range(len(cases)), cases)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.legend(ncols=len(COLOURS), loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False, fontsize=8)
        machine = results.about["machine"].split(",")[0]
        axes.set_title(f"rtmw.Log beside databases, {results.about['date']}, {machine}")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)
