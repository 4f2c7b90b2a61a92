"""How much longer does a loaned message of 4 MiB take than one of 64 bytes? Measured in turn, by two processes.

As `round_trip`, polling, but both sizes go to and fro between the same processes, a batch of each in turn. What differs
from one process to the next, which lines of the cache and which pages it was given, is then the same for both. The
figure is the median over groups of four batches: 64 B, 4 MiB, 4 MiB, 64 B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from bench.cases import RTMW, Case, Figures
from bench.pingpong import Line, close_line, follow, greet, met, next_batch, open_line, ping_poll, pong_poll
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Half round trip of 4 MiB loaned, polling, over one of 64 B"
UNIT = "×"
LARGE = 4 << 20
BATCH = 50


def cases(quick: bool) -> Sequence[Case]:
    groups = 40 if quick else 100
    return [
        Case("64 B, loaned", (RTMW, "iceoryx2"), {"groups": groups, "loans": True}),
        Case("64 B, copied", (RTMW, "iceoryx2"), {"groups": groups, "loans": False}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options, cpu) for name, cpu in zip(("near", "far"), stage.processors, strict=True)]
    return {system: Figures(median(stage.play("sizes", system, parts)[0]))}


def open_both(role: Role, near: bool) -> tuple[Line, Line]:
    """A line for messages of 64 bytes, and one for those of 4 MiB."""
    small, large = (
        open_line(replace(role, name=f"{role.name}of{size}", options={"size": size, "loans": loans}), near)
        for size, loans in ((64, role.options["loans"]), (LARGE, True))
    )
    return small, large


def in_turn(role: Role, small: Line, large: Line) -> Iterator[Line]:
    """The lines of all batches; the first group of each is the warm-up."""
    for _ in range(role.options["groups"] + 1):
        yield from (small, large, large, small)


def near(role: Role) -> list[float]:
    """The ratio of each group."""
    lines = open_both(role, near=True)
    for line in lines:
        greet(line)
    times: list[float] = []
    for line in in_turn(role, *lines):
        next_batch(line)
        times.append(median(ping_poll(line.send, line.body(0), line.back.take, line.read, BATCH)))
    for line in lines:
        close_line(line)
    role.tell("over")
    groups = zip(*(times[4 + place :: 4] for place in range(4)), strict=True)
    return [(second + third) / (first + fourth) for first, second, third, fourth in groups]


def far(role: Role) -> None:
    lines = open_both(role, near=False)
    for line in lines:
        met(line)
    for line in in_turn(role, *lines):
        follow(line)
        pong_poll(line.send, line.body(0), line.back.take, line.read, BATCH)
    for line in lines:
        follow(line)
    role.hear()  # what is still on its way would be lost if this process ended
