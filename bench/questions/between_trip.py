"""How long does a message take from host to host? Half a round trip between programs that sleep until it comes.

rtmw crosses two nodes and UDP (program, node, node, program); the others go from program to program, as in
between_rate. `1 MiB` is written in full and read in full.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.cases import RTMW, Case, Figures
from bench.peers import ZENOH_SHM, ZENOH_TCP
from bench.pingpong import far, near
from bench.stage import Part, Stage, Way

__all__ = ["TITLE", "UNIT", "cases", "far", "measure", "near"]

TITLE = "Half round trip from host to host"
UNIT = "µs"
SYSTEMS = (RTMW, "cyclonedds", ZENOH_TCP, ZENOH_SHM)


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.5 if quick else 1.0, "waits": True, "spin": None}
    return [
        Case("64 B", SYSTEMS, {**options, "size": 64, "batch": 20}),
        Case("1 MiB", SYSTEMS, {**options, "size": 1 << 20, "batch": 5, "whole": True}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options) for name in ("near", "far")]
    result = stage.play("between_trip", system, parts, way=Way.between(system))[0]
    return {system: Figures(result["p50"], result)}
