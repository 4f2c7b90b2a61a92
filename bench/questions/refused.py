"""How much more processor time does a refused publish of 32 MiB take than a refused one of 4 KB? Measured in turn.

The pool is full of messages that RELIABLE subscribers of 200 topics have not read, so nothing may give way. One
process publishes both sizes in turn on a topic of its own, and never waits. The figure is the median over pairs of
calls, so both calls of a ratio come from the same process, processor and millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median

from bench.cases import RTMW, Case, Figures
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A refused publish of 32 MiB, over a refused one of 4 KB"
UNIT = "×"
LARGE, SMALL, KEPT = 32 << 20, 4096, 16 << 10
TOPICS, CALLS, WARM = 200, 200, 20


def cases(quick: bool) -> Sequence[Case]:
    return [Case("processor time", (RTMW,), {"calls": CALLS // 2 if quick else CALLS})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    ratios = stage.play("refused", system, [Part("refuser", case.options)])[0]
    return {system: Figures(median(ratios))}


def refuser(role: Role) -> list[float]:
    """A ratio a pair of calls."""
    import rtmw

    reliable = rtmw.Reliability.RELIABLE
    with ExitStack() as stack:
        domain = stack.enter_context(rtmw.Domain(role.domain))
        names = [f"{role.name}kept{number}" for number in range(TOPICS)]
        for name in names:
            stack.enter_context(rtmw.Subscriber(name, domain=domain, reliability=reliable, depth=1 << 20))
        keepers = [
            stack.enter_context(rtmw.Publisher(name, domain=domain, reliability=reliable, max_blocking=0))
            for name in names
        ]
        while any([keeper.publish(bytes(KEPT)) for keeper in keepers]):
            pass
        publisher = stack.enter_context(rtmw.Publisher(f"{role.name}refused", domain=domain, max_blocking=0))
        large, small, publish = bytes(LARGE), bytes(SMALL), publisher.publish
        return [_spent(publish, large) / _spent(publish, small) for _ in range(WARM + role.options["calls"])][WARM:]


def _spent(publish: Callable[[bytes], bool], message: bytes) -> int:
    """Nanoseconds of this thread in a call that is refused."""
    began = time.thread_time_ns()
    accepted = publish(message)
    spent = time.thread_time_ns() - began
    if accepted:
        raise RuntimeError(f"a message of {len(message)} bytes found room, which nobody has")
    return spent
