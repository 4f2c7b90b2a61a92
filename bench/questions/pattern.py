"""What does a take cost over 200 topics? Messages of 64 bytes, ten on each or on one, taken until there are none.

`one Subscriber`: the same of one topic, ten a time, which is what a take costs at least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import rtmw
from bench.cases import ONE_SUBSCRIBER, RTMW, Case, Figures
from bench.numbers import spread
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A take over 200 topics"
UNIT = "µs"
TOPICS, EACH = 200, 10


def cases(quick: bool) -> Sequence[Case]:
    options, systems = {"seconds": 0.3 if quick else 1.0}, (RTMW, ONE_SUBSCRIBER)
    return [Case("64 B, ten on each", systems, options), Case("64 B, ten on one of them", systems, options | {"on": 1})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    (result,) = stage.play("pattern", system, [Part("take", case.options, stage.processors[0])])
    return {system: Figures(result["p50"], result)}


def take(role: Role) -> dict[str, float]:
    """Percentiles, in µs a message."""
    role.pin()
    is_pattern = role.peer == RTMW
    names = [f"pattern/{number}" for number in range(TOPICS if is_pattern else 1)]
    domain = rtmw.Domain(role.domain)
    publishers = [rtmw.Publisher(name, domain=domain) for name in names]
    opened = rtmw.PatternSubscriber("pattern/+", domain=domain) if is_pattern else None
    taken: Callable[[], Any] = (opened or rtmw.Subscriber(names[0], rtmw.ANY, domain=domain)).take
    times, end = list[float](), time.monotonic() + role.options["seconds"]
    while not times or time.monotonic() < end:
        for publisher in publishers[: role.options.get("on")]:
            for _ in range(EACH):
                publisher.publish(bytes(64))
        began, count = time.perf_counter_ns(), 0
        while taken() is not None:
            count += 1
        times.append((time.perf_counter_ns() - began) / 1000 / count)
    return spread(times)
