"""How much goes from host to host in large messages? 1 MiB each, flat out for a fixed time, nothing lost.

The hosts, and the ways of the others, are those of between_rate. The rate is of what arrived, from the first message
to the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.cases import RTMW, Case, Figures
from bench.peers import ZENOH_SHM, ZENOH_TCP, peer
from bench.questions.one_way import FLOW, HELLO, awaited, body, channel, clock, greeted
from bench.role import Role
from bench.stage import Part, Stage, Way

TITLE = "1 MiB messages from host to host"
UNIT = "MiB/s"
SIZE = 1 << 20


def cases(quick: bool) -> Sequence[Case]:
    return [
        Case(
            "nothing lost", (RTMW, "cyclonedds", ZENOH_TCP, ZENOH_SHM), {"size": SIZE, "seconds": 0.7 if quick else 1.5}
        )
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options) for name in ("source", "sink")]
    sent, (seen, rate) = stage.play("between_bulk", system, parts, way=Way.between(system))
    return {system: Figures(rate, note=f"{sent - seen} of {sent} lost" if sent > seen else "")}


def source(role: Role) -> int:
    """How many were sent."""
    size = int(role.options["size"])
    send = peer(role.peer).sender(channel(role, listens=True, size=size)).send
    role.tell("open")
    while role.hear() != "found":
        send(body(HELLO, size))
        role.tell("hello")
    sent, message, end = 0, body(FLOW, size), clock() + int(role.options["seconds"] * 1e9)
    while clock() < end:
        send(message)
        sent += 1
    role.hear()  # what is still on its way would be lost if this process ended
    return sent


def sink(role: Role) -> tuple[int, float]:
    """How many arrived, and MiB/s."""
    role.hear()
    size = int(role.options["size"])
    receiver = peer(role.peer).receiver(channel(role, listens=False, size=size))
    greeted(role, receiver.take)
    role.tell("found")
    marks: list[int] = []
    while (message := awaited(receiver.take)) is not None:
        receiver.read(message)
        del message
        marks.append(clock())
    role.tell("over")
    span = marks[-1] - marks[0] if marks else 0
    return len(marks), (len(marks) - 1) * size / 2**20 / span * 1e9 if span else 0.0
