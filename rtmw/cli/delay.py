"""`rtmw topic delay`: how long messages take from publish to take, at each subscriber, from its histogram."""

from __future__ import annotations

import argparse

from rtmw import observe
from rtmw.cli.common import find_topic, look_at
from rtmw.cli.show import Cell, Table, duration, live, show_json
from rtmw.cli.values import to_plain
from rtmw.cli.windows import windows
from rtmw.clock import CLOCK
from rtmw.latency import PERCENTILES
from rtmw.observe import TopicActivity

COLUMNS = ("subscriber", "pid", "messages", *(f"p{percent:g}" for percent in PERCENTILES), "max")


def delay(arguments: argparse.Namespace) -> int:
    """Print the percentiles of all messages that were taken in each window."""
    meter = observe.Meter()
    with look_at(arguments.domain) as domain, live() as display:
        meter.read([find_topic(domain, arguments.domain, arguments.topic)], CLOCK.monotonic())
        for _ in windows(arguments.window, arguments.count):
            (topic,) = meter.read([find_topic(domain, arguments.domain, arguments.topic)], CLOCK.monotonic())
            if arguments.json:
                show_json(_record(topic))
            else:
                display.update(delay_table(topic))
    return 0


def _record(topic: TopicActivity) -> dict[str, object]:
    subscribers = [
        {"pid": one.pid, "process": one.process, "identity": one.identity, **to_plain(one.latency)}
        for one in topic.subscribers
    ]
    return {"topic": topic.topic, "window_s": topic.seconds, "subscribers": subscribers}


def delay_table(topic: TopicActivity) -> Table:
    """A row a subscriber."""
    rows: list[list[Cell]] = []
    for subscriber in topic.subscribers:
        latency = subscriber.latency
        times = [duration(latency.percentile(percent)) for percent in (*PERCENTILES, 100.0)]
        rows.append([observe.program(subscriber.process), subscriber.pid, latency.count, *times])
    return Table(f"{topic.topic}: from publish to take, last {topic.seconds:.3g} s", COLUMNS, rows)
