"""How long does a message take from host to host over an Ethernet cable? As between_trip, hosts as in cable_rate."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cases import RTMW, Case, Figures
from bench.peers import ZENOH_TCP
from bench.pingpong import far, near
from bench.stage import Part, Stage, Way

__all__ = ["TITLE", "UNIT", "cases", "far", "measure", "near"]

TITLE = "Half round trip from host to host over a cable"
UNIT = "µs"
SYSTEMS = (RTMW, ZENOH_TCP)


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.5 if quick else 1.0, "waits": True, "spin": None}
    return [
        Case("64 B", SYSTEMS, {**options, "size": 64, "batch": 20}),
        Case("64 KiB", SYSTEMS, {**options, "size": 1 << 16, "batch": 20, "whole": True}),
        Case("1 MiB", SYSTEMS, {**options, "size": 1 << 20, "batch": 5, "whole": True}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options) for name in ("near", "far")]
    result = stage.play("cable_trip", system, parts, way=Way.between(system, has_cable=True))[0]
    return {system: Figures(result["p50"], result)}
