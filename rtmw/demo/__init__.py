"""`rtmw demo`: this machine's real telemetry between processes, with every kind of QoS, checked to the last message.

Four processes publish, seven subscribe; this one only looks on through the counters in the region. It all happens in a
domain of its own, which is removed at the end, however it ends. The subscribers are up before the first message and
drain their queues after the last, so that for each of them, exactly:

    published = received + missed + expired + thinned + unmatched
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from types import FrameType

from rtmw import observe
from rtmw.demo import screen, summary
from rtmw.demo.crew import Crew
from rtmw.demo.roles import PUBLISHERS, SUBSCRIBERS
from rtmw.domain import Domain
from rtmw.errors import DomainNotFound, LimitReached

NUMBERS = range(50, 100)
"""Domains that a demonstration may take."""
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Asked to end, or its terminal was closed."""


def run(seconds: float) -> int:
    """Show it for so long; 0 if all numbers agree, else 1."""
    before = {ending: signal.signal(ending, _exit) for ending in ENDINGS}
    number = free_domain()
    try:
        print(f"Starting {len(PUBLISHERS) + len(SUBSCRIBERS)} processes ...", flush=True)
        with Domain(number, pool="16M") as domain, Crew(number) as crew:
            crew.start(SUBSCRIBERS)
            crew.start(PUBLISHERS)
            screen.watch(domain, crew, seconds)
            publishers = crew.finish(PUBLISHERS)
            subscribers = crew.finish(SUBSCRIBERS)
            return summary.show(publishers, subscribers, observe.examine(domain))
    finally:
        with suppress(DomainNotFound):
            Domain.unlink(number)
        for ending, handler in before.items():
            signal.signal(ending, handler)


def free_domain() -> int:
    """The number of a domain that nobody has created."""
    for number in NUMBERS:
        try:
            Domain(number, create=False).close()
        except DomainNotFound:
            return number
    raise LimitReached(f"Domains {NUMBERS[0]} to {NUMBERS[-1]} all exist; `rtmw clean` removes those nobody is in.")


def _exit(number: int, frame: FrameType | None) -> None:
    """End in order: what `finally` promises is done."""
    sys.exit(128 + number)
