"""How much goes from host to host over an Ethernet cable? Flat out for a fixed time, nothing lost, in one size.

The hosts are two network namespaces with a veth pair of MTU 1500 between them. TCP hands veth segments of up to 64 KiB,
which nobody divides; IP divides datagrams that are larger than the MTU. rtmw crosses two nodes and UDP (program, node,
node, program); zenoh goes from program to program, peer to peer over TCP. The bare sockets show what of that is the
kernel's: their note is the processor time of both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.cases import RTMW, Case, Figures
from bench.peers import ZENOH_TCP
from bench.questions.between_bulk import sink, source
from bench.sockets import TCP_SOCKET, UDP_SOCKET, socket_sink, socket_source
from bench.stage import Part, Stage, Way

__all__ = ["TITLE", "UNIT", "cases", "measure", "sink", "socket_sink", "socket_source", "source"]

TITLE = "From host to host over a cable"
UNIT = "MiB/s"
BARE = "64 KiB, bare"
SIZES = {"64 B": 64, "1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20}


def cases(quick: bool) -> Sequence[Case]:
    seconds = 0.7 if quick else 1.5
    hosts = [Case(name, (RTMW, ZENOH_TCP), {"size": size, "seconds": seconds}) for name, size in SIZES.items()]
    return [*hosts, Case(BARE, (UDP_SOCKET, TCP_SOCKET), {"seconds": seconds})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if case.name == BARE:
        return _bare(stage, system, case)
    parts = [Part(name, case.options) for name in ("source", "sink")]
    way = Way.between(system, has_cable=True)
    sent, (seen, rate) = stage.play("cable_rate", system, parts, way=way)
    return {system: Figures(rate, note=f"{sent - seen} of {sent} lost" if sent > seen else "")}


def _bare(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options) for name in ("socket_source", "socket_sink")]
    sending_ns, (rate, taking_ns) = stage.play("cable_rate", system, parts, way=Way(has_cable=True))
    return {system: Figures(rate, note=f"{sending_ns:.2f} + {taking_ns:.2f} ns a byte")}
