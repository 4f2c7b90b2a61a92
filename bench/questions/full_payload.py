"""What does a body cost that is written in full and read in full? Half a round trip of 1 MiB, both sides polling.

The sender copies it out of a bytes object; the receiver copies it into a buffer of its own, or is given a copy where
the system gives nothing else. `C memcpy` is two copies by one process, into shared memory and out; `C handover` is the
same half round trip in C, between two processes: what one processor wrote has to come to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import baseline
from bench.cases import HANDOVER, MEMCPY, RTMW, Case, Figures
from bench.numbers import spread
from bench.peers import ALL
from bench.pingpong import far, near
from bench.stage import Part, Stage

__all__ = ["TITLE", "UNIT", "cases", "far", "measure", "near"]

TITLE = "Half round trip, written in full and read in full"
UNIT = "µs"
SIZE = 1 << 20
ROUNDS = 600


def cases(quick: bool) -> Sequence[Case]:
    options = {"size": SIZE, "seconds": 0.3 if quick else 0.4, "batch": 10, "whole": True}
    peers = ("iceoryx2",) if quick else ALL[1:]
    return [Case("1 MiB", (RTMW, MEMCPY, HANDOVER, *peers), options)]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if system in (MEMCPY, HANDOVER):
        times = [value / 1000 for value in baseline.run(system.removeprefix("C "), SIZE, ROUNDS, *stage.processors)]
        return {system: Figures(spread(times)["p50"], spread(times))}
    parts = [Part(name, case.options, cpu) for name, cpu in zip(("near", "far"), stage.processors, strict=True)]
    result = stage.play("full_payload", system, parts)[0]
    return {system: Figures(result["p50"], result)}
