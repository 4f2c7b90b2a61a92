"""How long does a call wait for each level of a letter of 200 bytes that another program takes and consumes?

One letter after the other: from the call of `send(wait=…)` until it returns. With NONE, which waits for no answer, the
next letter is sent when the one before is accepted. With SENT, the other program is at a second node, over TCP on
loopback: it says when a letter has reached the receiver's host.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import rtmw
from bench import disk
from bench.cases import RTMW, Case, Figures
from bench.letters import SIZE, serving, serving_two
from bench.numbers import percentile, spread
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Waiting for a level of a letter of 200 B"
UNIT = "µs"
ROUNDS = 5
LEVELS = ("NONE", "ACCEPTED", "SENT", "DELIVERED", "CONSUMED")
BETWEEN = "SENT"
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
    with served(role) as (to, there), rtmw.Sender("bench", domain=role.domain) as out:
        role.tell(str(there))
        role.hear()
        for _ in range(WARM):
            out.send(to, body, delivery=delivery, wait=max(level, rtmw.Level.ACCEPTED))
        end = clock() + int(role.options["seconds"] * 1e9)
        while (begin := clock()) < end:
            sent = out.send(to, body, delivery=delivery, wait=level)
            times.append((clock() - begin) / 1000)
            sent.wait(max(level, rtmw.Level.ACCEPTED))
        out.send(to, END, delivery=delivery, wait=rtmw.Level.CONSUMED)
        role.hear()
    return times


@contextmanager
def served(role: Role) -> Generator[tuple[str, int]]:
    """To whom letters go, and the domain of the receiver."""
    folder = Path(role.options["folder"])
    if role.options["level"] == BETWEEN:
        with serving_two(role.domain, folder) as two:
            yield "bench@there", two.there
    else:
        with serving(role.domain, folder):
            yield "bench", role.domain


def receiver(role: Role) -> int:
    """How many letters it has consumed."""
    count = 0
    with rtmw.Inbox("bench", domain=int(role.hear())) as inbox:
        role.tell("ready")
        for letter in inbox:
            with letter:
                count += 1
            if letter.body == END:
                break
    role.tell("done")
    return count
