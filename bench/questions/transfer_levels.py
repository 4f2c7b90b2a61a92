"""How long does a call wait for each level of a letter of 200 bytes that another program takes and consumes?

One letter after the other: from the call of `send(wait=…)` until it returns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import rtmw
from bench import disk
from bench.cases import RTMW, Case, Figures
from bench.letters import SIZE, serving
from bench.numbers import percentile, spread
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Waiting for a level of a letter of 200 B"
UNIT = "µs"
ROUNDS = 5
LEVELS = ("ACCEPTED", "DELIVERED", "CONSUMED")
WARM = 20
END = b"end"


def cases(quick: bool) -> Sequence[Case]:
    seconds = 0.3 if quick else 0.5
    return [
        Case(f"{delivery}, {level}", (RTMW,), {"seconds": seconds, "delivery": delivery, "level": level})
        for delivery in ("NORMAL", "LOG")
        for level in LEVELS
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder:
        parts = [Part("sender", case.options | {"folder": str(folder)}), Part("receiver")]
        times = stage.play("transfer_levels", system, parts)[0]
    return {system: Figures(percentile(sorted(times), 0.5), spread(times))}


def sender(role: Role) -> list[float]:
    """Each wait, in µs."""
    delivery, level = rtmw.Delivery[role.options["delivery"]], rtmw.Level[role.options["level"]]
    clock, body, times = time.perf_counter_ns, bytes(SIZE), list[float]()
    with serving(role.domain, Path(role.options["folder"])), rtmw.Sender("bench", domain=role.domain) as out:
        role.tell("served")
        role.hear()
        for _ in range(WARM):
            out.send("bench", body, delivery=delivery, wait=level)
        end = clock() + int(role.options["seconds"] * 1e9)
        while (begin := clock()) < end:
            out.send("bench", body, delivery=delivery, wait=level)
            times.append((clock() - begin) / 1000)
        out.send("bench", END, delivery=delivery, wait=rtmw.Level.CONSUMED)
        role.hear()
    return times


def receiver(role: Role) -> int:
    """How many letters it has consumed."""
    role.hear()
    count = 0
    with rtmw.Inbox("bench", domain=role.domain) as inbox:
        role.tell("ready")
        for letter in inbox:
            with letter:
                count += 1
            if letter.body == END:
                break
    role.tell("done")
    return count
