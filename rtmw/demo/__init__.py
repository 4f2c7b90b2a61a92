"""`rtmw demo`: this machine's real telemetry between processes, with every kind of QoS, checked to the last message.

Four processes publish and seven subscribe on one host; two subscribe on another, to which a node on either side carries
the topics. Both hosts are domains of this machine, removed at the end, however it ends; the nodes meet over loopback.
This process only looks on through the counters in the regions. The subscribers are up before the first message and
drain their queues after the last, so that for each of them, here and there, exactly:

    published = received + missed + expired + thinned + unmatched
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType

from rtmw import observe
from rtmw.demo import screen, summary
from rtmw.demo.crew import Crew
from rtmw.demo.nodes import node
from rtmw.demo.roles import FAR, PUBLISHERS, SUBSCRIBERS
from rtmw.domain import Domain
from rtmw.errors import DomainError, DomainNotFound, LimitReached

NUMBERS = range(50, 100)
"""Domains that a demonstration may take."""
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Asked to end, or its terminal was closed."""


def run(seconds: float) -> int:
    """Show it for so long; 0 if all numbers agree, else 1."""
    before = {ending: signal.signal(ending, _exit) for ending in ENDINGS}
    try:
        processes = len(PUBLISHERS) + len(SUBSCRIBERS) + len(FAR)
        print(f"Starting {processes} processes on two hosts, and a node on each ...", flush=True)
        with new_host() as here, new_host() as there, node(there.id, here.id), node(here.id, here.id), Crew() as crew:
            crew.start(FAR, there.id)
            crew.start(SUBSCRIBERS, here.id)
            crew.start(PUBLISHERS, here.id)
            screen.watch(here, there, crew, seconds)
            publishers = crew.finish(PUBLISHERS)
            subscribers = crew.finish([*SUBSCRIBERS, *FAR])
            return summary.show(publishers, subscribers, [observe.examine(here), observe.examine(there)])
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)


@contextmanager
def new_host() -> Generator[Domain]:
    """A domain that stands for a host; it is removed with the block."""
    number = free_domain()
    try:
        with Domain(number, pool="16M") as domain:
            yield domain
    finally:
        with suppress(DomainNotFound):
            Domain.unlink(number)


def free_domain() -> int:
    """The number of a domain that nobody has created."""
    for number in NUMBERS:
        try:
            Domain(number, create=False).close()
        except DomainNotFound:
            return number
        except DomainError:  # of another version, or damaged
            continue
    raise LimitReached(f"Domains {NUMBERS[0]} to {NUMBERS[-1]} all exist; `rtmw clean` removes those nobody is in.")


def _exit(number: int, frame: FrameType | None) -> None:
    """End in order: what `finally` promises is done."""
    sys.exit(128 + number)
