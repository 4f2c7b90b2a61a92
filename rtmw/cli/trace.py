"""`rtmw trace`: what is published, taken and dropped on some topics, by whom and when, as it happens."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import datetime

from rtmw import observe
from rtmw.cli.common import find_topic
from rtmw.cli.parsing import count, runs, seconds
from rtmw.cli.terminal import duration, say, show_json, size, warn
from rtmw.clock import CLOCK
from rtmw.domain import Domain, domain_for_tool
from rtmw.observe import Trace, TraceEvent

AT_PUBLISHER = ("published", "timed_out", "exhausted")
PAUSE_S = 0.02
"""Between two looks at the ring; a traced bus fills it in some ten times that."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, trace)
    parser.add_argument("topics", nargs="+", metavar="topic")
    parser.add_argument("--count", type=count, help="events to print (default: until Ctrl-C)")
    parser.add_argument(
        "--for", type=seconds, dest="seconds", metavar="SECONDS", help="how long (default: until Ctrl-C)"
    )


def trace(arguments: argparse.Namespace) -> int:
    """Print events until the count, the time or Ctrl-C; then tracing ends, as it does when this process dies."""
    names = list(dict.fromkeys(arguments.topics))
    with domain_for_tool(arguments.domain) as domain:
        for name in names:
            find_topic(domain, arguments.domain, name)
        with Trace(domain, names) as tracing:
            try:
                for number, event in enumerate(_events(domain, tracing, arguments.seconds), 1):
                    if arguments.json:
                        show_json(event)
                    else:
                        say(line(event, topic=len(names) > 1), flush=True)
                    if number == arguments.count:
                        break
            finally:
                _say_lost(tracing.lost)
    return 0


def _events(domain: Domain, tracing: Trace, seconds: float | None) -> Iterator[TraceEvent]:
    end = None if seconds is None else CLOCK.monotonic() + seconds
    while True:
        ending = end is not None and CLOCK.monotonic() >= end
        yield from tracing.read()
        domain.region.sweep_from_last_slot()
        if ending:
            return
        time.sleep(PAUSE_S)


def line(event: TraceEvent, topic: bool = True) -> str:
    """An event for people; without its topic where there is only one."""
    seconds, ns = divmod(event.at_ns, 10**9)
    stamp = f"{datetime.fromtimestamp(seconds):%H:%M:%S}.{ns // 1000:06}"
    parts = [
        stamp,
        f"{event.what.replace('_', ' '):11}",
        *([event.topic] if topic else []),
        _which(event),
        f"priority {event.priority}",
        *([size(event.size)] if event.size is not None else []),
        f"{'by' if event.what in AT_PUBLISHER else 'at'} {observe.program(event.process)} ({event.pid})",
        *([f"after {duration(event.latency)}"] if event.latency is not None else []),
    ]
    return "  ".join(parts)


def _which(event: TraceEvent) -> str:
    if event.sequence is None:
        return "-"
    if event.count == 1:
        return f"#{event.sequence}"
    return f"#{event.sequence - event.count + 1} to #{event.sequence}"


def _say_lost(lost: int) -> None:
    if lost:
        warn(f"rtmw: {lost} events came faster than they could be printed and were lost.")
