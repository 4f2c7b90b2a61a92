"""How many messages a second go from host to host? As in one_way, nothing lost; rtmw crosses two nodes and UDP.

The hosts are two rtmw domains of this machine with a node each, so four processes share two processors: program, node,
node, program. cyclonedds goes by UDP and `zenoh, TCP` by TCP over loopback, from program to program. `zenoh, shared
memory` goes over a Unix socket with zenoh's shared memory on, as it does within one host: no way between hosts, but the
fastest that zenoh has here.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.cases import RTMW, Case, Figures
from bench.peers import ZENOH_SHM, ZENOH_TCP
from bench.questions.one_way import sink, source
from bench.stage import Part, Stage, Way

__all__ = ["TITLE", "UNIT", "cases", "measure", "sink", "source"]

TITLE = "64 B from host to host"
UNIT = "M messages/s"


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.5 if quick else 1.0, "many": False}
    return [Case("nothing lost", (RTMW, "cyclonedds", ZENOH_TCP, ZENOH_SHM), options)]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options) for name in ("source", "sink")]
    sent, (seen, rates) = stage.play("between_rate", system, parts, way=Way.between(system))
    lost = sent - seen
    note = f"{100 * lost / sent:.1f} % lost" if lost else ""
    return {system: Figures(median(rates) if rates else 0.0, note=note)}
