"""What do a publish and a take cost within one process? 64 bytes, taken as soon as they are published.

The loop is that of `round_trip`, with both sides in one process: what a polled half round trip costs where nothing has
to come from another processor. With one `C spin`, the way of one word, that is what a half round trip could take.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bench.cases import RTMW, Case, Figures
from bench.numbers import spread
from bench.peers import STAMP, Channel, peer
from bench.pingpong import Get, Read, Send, clock
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A publish and a take within one process"
UNIT = "µs"
BATCH = 50


def cases(quick: bool) -> Sequence[Case]:
    return [Case("64 B, copied", (RTMW, "iceoryx2"), {"size": 64, "seconds": 0.3 if quick else 0.4})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    (result,) = stage.play("within", system, [Part("both", case.options, stage.processors[0])])
    return {system: Figures(result["p50"], result)}


def pass_on(send: Send, body: Any, take: Get, read: Read, count: int) -> list[float]:
    """Two publications and two takes a look at the clock, as in a round trip; µs of one of each."""
    times: list[float] = []
    last = clock()
    for _ in range(count):
        send(body)
        while (message := take()) is None:
            pass
        read(message)
        send(body)
        while (message := take()) is None:
            pass
        read(message)
        now = clock()
        times.append((now - last) / 2000)
        last = now
    return times


def both(role: Role) -> dict[str, float]:
    """Percentiles, in µs."""
    size = role.options["size"]
    channel = Channel(role.name, size, role.place, role.domain, listens=True)
    system = peer(role.peer)
    sender, receiver = system.sender(channel), system.receiver(channel)
    role.pin()
    body = STAMP.pack(0) + bytes(size - STAMP.size)
    arguments = (sender.send, body, receiver.take, receiver.read, BATCH)
    pass_on(*arguments)  # warm-up
    times: list[float] = []
    end = time.monotonic() + role.options["seconds"]
    while not times or time.monotonic() < end:
        times += pass_on(*arguments)
    return spread(times)
