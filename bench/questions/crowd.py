"""How much more does a publish call of 64 bytes cost beside 64 idle subscribers than beside one? Measured in turn.

As `fan_out`, but one process publishes on two topics in turn, a batch on each: one has 64 subscribers, the other has
one and lies in a domain of its own. So both figures of a ratio come from the same process, processor and millisecond.
The figure is the median over groups of eight batches: 64, one, one, 64, a pause, one, 64, 64, one, a pause. The first
batch after a pause takes longer; so each of the two topics has it as often as the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from bench.cases import RTMW, Case, Figures
from bench.domain import domain
from bench.peers import Channel, peer
from bench.questions.fan_out import BATCH, BODY, PAUSE, SIZE, clock, idle
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A publish call of 64 B beside idle subscribers, over one beside a single one"
UNIT = "×"


def cases(quick: bool) -> Sequence[Case]:
    return [Case("64 idle", (RTMW, "iceoryx2"), {"groups": 25 if quick else 50, "readers": 64})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    groups = stage.play("crowd", system, [Part("source", case.options), Part("crowd", case.options)])[0]
    return {system: Figures(median(groups))}


def channels(role: Role, apart: int, listens: bool) -> tuple[Channel, Channel]:
    """With many readers, and with one in the domain `apart`."""
    many, one = (
        Channel(f"{role.name}beside{readers}", SIZE, role.place, number, listens, readers=readers + 1)
        for readers, number in ((role.options["readers"], role.domain), (1, apart))
    )
    return many, one


def batch(publish: Callable[[Any], object]) -> int:
    """Nanoseconds."""
    start = clock()
    for _ in range(BATCH):
        publish(BODY)
    return clock() - start


def in_turn(first: Callable[[Any], object], second: Callable[[Any], object]) -> tuple[int, int]:
    """Nanoseconds of two batches of each; then a pause."""
    times = [batch(publish) for publish in (first, second, second, first)]
    time.sleep(PAUSE)
    return times[0] + times[3], times[1] + times[2]


def group(many: Callable[[Any], object], one: Callable[[Any], object]) -> float:
    """The ratio of one group."""
    many_first, one_second = in_turn(many, one)
    one_first, many_second = in_turn(one, many)
    return (many_first + many_second) / (one_first + one_second)


def source(role: Role) -> list[float]:
    with domain() as apart:
        return ratios(role, apart)


def ratios(role: Role, apart: int) -> list[float]:
    """One of each group."""
    many, one = (peer(role.peer).sender(channel).send for channel in channels(role, apart, listens=True))
    role.tell(str(apart))
    while role.hear() != "found":
        many(BODY)
        one(BODY)
        role.tell("hello")
    found = [group(many, one) for _ in range(role.options["groups"])]
    role.tell("over")
    return found[len(found) // 10 :]


def crowd(role: Role) -> None:
    many, one = channels(role, int(role.hear()), listens=False)
    idle(role, [many] * role.options["readers"] + [one])
