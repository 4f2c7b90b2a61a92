"""What does a publish call of 64 bytes cost while 1, 8 or 64 subscribers exist that take nothing at the time?

The subscribers are in one other process, which sleeps. The figure is the median, over batches of 100 calls with a pause
between them, of the time of a call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.cases import Case, Figures
from bench.peers import ALL, Channel, Receiver, peer
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A publish call of 64 B beside idle subscribers"
UNIT = "µs"
SIZE = 64
BODY = bytes(SIZE)
BATCH = 100
PAUSE = 0.002
"""Seconds between batches, in which systems with threads of their own do their part."""
MEET = 15.0

clock = time.perf_counter_ns


def cases(quick: bool) -> Sequence[Case]:
    counts = (1, 8, 64)
    options = {"batches": 60 if quick else 200}
    systems = ("rtmw", "iceoryx2", "pyzmq") if quick else ALL
    return [Case(f"{count} idle", systems, {**options, "readers": count}) for count in counts]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    times = stage.play("fan_out", system, [Part("source", case.options), Part("crowd", case.options)])[0]
    return {system: Figures(median(times))}


def channel(role: Role, listens: bool) -> Channel:
    return Channel(role.name, SIZE, role.place, role.domain, listens, readers=role.options["readers"] + 1)


def source(role: Role) -> list[float]:
    """µs of a call, by batch."""
    send = peer(role.peer).sender(channel(role, listens=True))
    publish = send.send
    role.tell("open")
    while role.hear() != "found":
        publish(BODY)
        role.tell("hello")
    times: list[float] = []
    for _ in range(role.options["batches"]):
        start = clock()
        for _ in range(BATCH):
            publish(BODY)
        times.append((clock() - start) / 1000 / BATCH)
        time.sleep(PAUSE)
    role.tell("over")
    return times[len(times) // 10 :]


def crowd(role: Role) -> None:
    role.hear()
    idle(role, [channel(role, listens=False)] * role.options["readers"])


def idle(role: Role, channels: Sequence[Channel]) -> None:
    """Subscribes to each; when all have heard something, takes nothing any more until it is over."""
    subscribe = peer(role.peer).receiver
    readers: list[Receiver] = [subscribe(channel) for channel in channels]
    missing: list[Any] = readers
    end = time.monotonic() + MEET
    while missing:
        role.tell("greet")
        role.hear()
        time.sleep(0.02)
        missing = [reader for reader in missing if reader.take() is None]
        if time.monotonic() > end:
            raise RuntimeError(f"{len(missing)} of {len(readers)} subscribers heard nothing within {MEET:.0f} s")
    for reader in readers:
        while reader.take() is not None:
            pass
    role.tell("found")
    while role.hear() != "over":
        pass
