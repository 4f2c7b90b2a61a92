"""How long does a message take to a program that sleeps? Half a round trip of 64 bytes, both sides in receive().

`two processors`: each process on one of its own; `one processor`: both on the same; in both cases rtmw with `spin=0`.
`default spin`: receive() as it is, unpinned, rtmw alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import baseline
from bench.cases import FUTEX, RTMW, Case, Figures
from bench.numbers import spread
from bench.peers import ALL
from bench.pingpong import far, near
from bench.stage import Part, Stage

__all__ = ["TITLE", "UNIT", "cases", "far", "measure", "near"]

TITLE = "Half round trip, asleep"
UNIT = "µs"
ROUNDS = 3000


def cases(quick: bool) -> Sequence[Case]:
    options = {"size": 64, "seconds": 0.3 if quick else 0.4, "batch": 50, "waits": True}
    one = ("iceoryx2",) if quick else ALL[1:]
    return [
        Case("two processors", (RTMW, FUTEX, *ALL[1:]), {**options, "pinned": (0, 1)}),
        Case("one processor", (RTMW, FUTEX, *one), {**options, "pinned": (0, 0)}),
        Case("default spin", (RTMW,), {**options, "spin": None}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    pinned = [stage.processors[which] for which in case.options.get("pinned", ())]
    if system == FUTEX:
        times = [value / 1000 for value in baseline.run("futex", ROUNDS, *pinned)]
        return {system: Figures(spread(times)["p50"], spread(times))}
    parts = [Part(name, case.options, cpu) for name, cpu in zip(("near", "far"), pinned or (None, None), strict=True)]
    result = stage.play("asleep", system, parts)[0]
    return {system: Figures(result["p50"], result)}
