"""How long does a message take to a program that polls? Half a round trip, both sides spinning on `take`.

`copied`: the body comes out of a bytes object of the sender's. `loaned`: a stamp is written into a loaned message of
that size. The receiver reads the stamp.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import baseline
from bench.cases import RTMW, SPIN, Case, Figures
from bench.numbers import spread
from bench.peers import ALL, LOANING
from bench.pingpong import far, near
from bench.stage import Part, Stage

__all__ = ["TITLE", "UNIT", "cases", "far", "measure", "near"]

TITLE = "Half round trip, polling"
UNIT = "µs"
SIZES = {"64 B": 64, "4 KiB": 4096, "64 KiB": 65536, "1 MiB": 1 << 20, "4 MiB": 4 << 20}
ROUNDS = 200_000
"""Of the C baseline."""


def cases(quick: bool) -> Sequence[Case]:
    seconds = 0.3 if quick else 0.4
    found: list[Case] = []
    for name, size in SIZES.items():
        options = {"size": size, "seconds": seconds, "batch": 50 if size <= 65536 else 10}
        if size == 64:
            found.append(Case(f"{name}, copied", (RTMW, SPIN, *ALL[1:]), options))
        elif not quick or size >= 1 << 20:
            found.append(Case(f"{name}, copied", (RTMW, "iceoryx2") if quick else ALL, options))
        if size == 64 or size == 4 << 20 or not quick:
            found.append(Case(f"{name}, loaned", LOANING, {**options, "loans": True}))
    return found


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if system == SPIN:
        times = [value / 1000 for value in baseline.run("spin", ROUNDS, *stage.processors)]
        return {system: Figures(spread(times)["p50"], spread(times))}
    parts = [Part(name, case.options, cpu) for name, cpu in zip(("near", "far"), stage.processors, strict=True)]
    result = stage.play("round_trip", system, parts)[0]
    return {system: Figures(result["p50"], result)}
