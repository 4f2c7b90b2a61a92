"""`rtmw topic list|info|queue|clear|hz|bw|delay`: what the region says about topics, and what it keeps of them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rtmw import observe
from rtmw.cli.common import attach, find_topic, look_at
from rtmw.cli.parsing import Commands, add_windows, runs
from rtmw.cli.terminal import Cell, Display, Table, counted, duration, live, say, show, show_json, size, windows
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.latency import PERCENTILES
from rtmw.observe import TopicActivity
from rtmw.qos import Reliability

DROPS = ("missed", "expired", "thinned", "unmatched")
"""The causes of a drop, as `SubscriberView` names them."""
IDENTITY = ("pid", "process", "type_name", "reliability")
PUBLISHER_COLUMNS = (
    *IDENTITY,
    "priority",
    "depth",
    "history",
    "lifetime_ns",
    "max_blocking",
    "published",
    "bytes",
    "timed_out",
    "exhausted",
    "held_by_history",
)
SUBSCRIBER_COLUMNS = (
    *IDENTITY,
    "depth",
    "history",
    "min_interval_ns",
    "deadline_ns",
    "lease_ns",
    "received",
    "bytes",
    "behind",
    *DROPS,
    "other_types",
    "deadlines_missed",
    "lapses",
)


COMMANDS: Final[Commands] = {
    "list": ("topic:add_list", "list the topics of the domain"),
    "info": ("topic:add_info", "show a topic's endpoints, their QoS and drops, and pairs that do not match"),
    "queue": ("topic:add_queue", "show what lies in a topic's queues"),
    "clear": (
        "topic:add_clear",
        "forget what a topic keeps for late subscribers; who is there takes what it has not read",
    ),
    "hz": ("topic:add_hz", "show the messages a second of topics, from their counters, without subscribing"),
    "bw": ("topic:add_bw", "show the bytes a second of topics, from their counters, without subscribing"),
    "delay": ("topic:add_delay", "show how long a topic's messages take from publish to take"),
    "echo": ("echo:add_arguments", "print the messages of topics as they come"),
    "pub": ("publish:add_arguments", "publish messages by hand"),
}


def add_list(parser: argparse.ArgumentParser) -> None:
    runs(parser, list_topics)
    parser.add_argument("--names", action="store_true", help="only their names, one a line")


def add_info(parser: argparse.ArgumentParser) -> None:
    runs(parser, info)
    parser.add_argument("topic")


def add_queue(parser: argparse.ArgumentParser) -> None:
    runs(parser, queue)
    parser.add_argument("topic")


def add_clear(parser: argparse.ArgumentParser) -> None:
    runs(parser, clear)
    parser.add_argument("topic")


def list_topics(arguments: argparse.Namespace) -> int:
    """Print the topics of a domain."""
    with look_at(arguments.domain) as domain:
        views = observe.topics(domain)
    if arguments.json:
        show_json([_summary(view) for view in views])
        return 0
    if arguments.names:
        for view in views:
            say(view.name)
        return 0
    rows = [(view.name, ", ".join(view.types), *list(_summary(view).values())[2:]) for view in views]
    columns = ("topic", "types", "publishers", "subscribers", "published", "bytes", "queued", "dropped")
    show(Table(f"Domain {arguments.domain}: {counted(len(views), 'topic')}", columns, rows))
    return 0


def _summary(view: observe.TopicView) -> dict[str, Any]:
    return {
        "topic": view.name,
        "types": view.types,
        "publishers": len(view.publishers),
        "subscribers": len(view.subscribers),
        "published": view.published,
        "bytes": view.bytes,
        "queued": sum(view.queued),
        "dropped": sum(dropped(subscriber) for subscriber in view.subscribers),
    }


def dropped(view: observe.SubscriberView) -> int:
    """Messages that a subscriber wanted and did not get. With `min_interval` it asked to be spared those between."""
    return sum(getattr(view, cause) for cause in DROPS if cause != "thinned")


def info(arguments: argparse.Namespace) -> int:
    """Print a topic's endpoints with their QoS and counters, and the pairs that do not match."""
    with look_at(arguments.domain) as domain:
        view = find_topic(domain, arguments.domain, arguments.topic)
    found = mismatches(view)
    if arguments.json:
        show_json({**to_plain(view), "mismatches": found})
        return 0
    queued = " ".join(f"{band}:{number}" for band, number in enumerate(view.queued) if number) or "nothing"
    say(f"Topic {view.name}: {counted(view.published, 'message')}, {size(view.bytes)}; queued by priority: {queued}")
    show(publishers_table(view))
    show(subscribers_table(view))
    for line in found:
        say(f"Not matched: {line}")
    return 0


def clear(arguments: argparse.Namespace) -> int:
    """Forget what a topic keeps for late subscribers."""
    with attach(arguments.domain) as domain:
        find_topic(domain, arguments.domain, arguments.topic)
        messages = domain.region.clear(arguments.topic)
    if arguments.json:
        show_json({"topic": arguments.topic, "cleared": messages})
    else:
        say(f"{arguments.topic}: late subscribers get none of the {counted(messages, 'message')} that were kept.")
    return 0


def publishers_table(view: observe.TopicView) -> Table:
    """A row a publisher."""
    return _endpoints("publisher", view.publishers, PUBLISHER_COLUMNS)


def subscribers_table(view: observe.TopicView) -> Table:
    """A row a subscriber, a column a cause of drops."""
    table = _endpoints("subscriber", view.subscribers, SUBSCRIBER_COLUMNS)
    times = [[duration(one.latency.percentile(percent)) for percent in (50, 99, 100)] for one in view.subscribers]
    rows = [[*row, *percentiles] for row, percentiles in zip(table.rows, times, strict=True)]
    return Table(table.title, [*table.columns, "p50", "p99", "max"], rows)


def _endpoints(noun: str, endpoints: Sequence[Any], columns: Sequence[str]) -> Table:
    rows = [[_cell(column, to_plain(getattr(endpoint, column))) for column in columns] for endpoint in endpoints]
    headings = [column.removesuffix("_ns").replace("_", " ") for column in columns]
    return Table(counted(len(rows), noun), headings, rows)


def _cell(column: str, value: Any) -> Any:
    """Times with their unit; nothing for a time that is not set."""
    if column == "max_blocking":
        return "no limit" if value == math.inf else "0 s" if value == 0 else duration(value)
    return (duration(value / 1e9) if value else None) if column.endswith("_ns") else value


def mismatches(view: observe.TopicView) -> list[str]:
    """Why pairs of a publisher and a subscriber do not meet, a sentence a pair."""
    return [
        f"{pair} {reason}"
        for publisher in view.publishers
        for subscriber in view.subscribers
        for pair in [f"publisher {_who(publisher)} and subscriber {_who(subscriber)}:"]
        if (reason := _reason(publisher, subscriber))
    ]


def _who(view: observe.PublisherView | observe.SubscriberView) -> str:
    return f"{observe.program(view.process)} ({view.pid})"


def _reason(publisher: observe.PublisherView, subscriber: observe.SubscriberView) -> str:
    if subscriber.type_name not in ("*", publisher.type_name):
        return f"the types differ, {publisher.type_name} is published and {subscriber.type_name} is wanted."
    if subscriber.reliability is Reliability.RELIABLE and publisher.reliability is not Reliability.RELIABLE:
        return f"RELIABLE is wanted and only {publisher.reliability.name} is offered."
    return ""


def queue(arguments: argparse.Namespace) -> int:
    """Print what lies in a topic's queues."""
    with look_at(arguments.domain) as domain:
        find_topic(domain, arguments.domain, arguments.topic)
        messages = observe.queue(domain, arguments.topic)
    if arguments.json:
        show_json(messages)
        return 0
    columns = (
        "priority",
        "sequence",
        "bytes",
        "type",
        "publisher",
        "age s",
        "expires in s",
        "held by",
        "unsent",
        "begins",
    )
    now_ns = CLOCK.wall_ns()
    title = f"{arguments.topic}: {counted(len(messages), 'message')}"
    show(Table(title, columns, [_queue_row(m, now_ns) for m in messages]))
    return 0


def _queue_row(message: observe.QueuedMessage, now_ns: int) -> tuple[str | int | float | None, ...]:
    expires = None if message.expires_ns is None else (message.expires_ns - now_ns) / 1e9
    return (
        message.priority,
        message.sequence,
        message.size,
        message.type_name,
        message.publisher,
        (now_ns - message.source_time_ns) / 1e9,
        expires,
        ", ".join(str(pid) for pid in message.holders) or None,
        "yes" if message.to_be_sent else "no",
        "".join(chr(byte) if 32 <= byte < 127 else "." for byte in message.preview[:24]),
    )


# ---- hz, bw and delay: from counters of the region; nothing is subscribed, so nobody is disturbed ----


def add_hz(parser: argparse.ArgumentParser) -> None:
    runs(parser, hz)
    _add_topics(parser)


def add_bw(parser: argparse.ArgumentParser) -> None:
    runs(parser, bw)
    _add_topics(parser)


def _add_topics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="topic", help="default: all")
    add_windows(parser)


def add_delay(parser: argparse.ArgumentParser) -> None:
    runs(parser, delay)
    parser.add_argument("topic")
    add_windows(parser)


@dataclass(frozen=True)
class Rate:
    """The rates of a topic in the last window, and the extremes over all windows so far."""

    topic: str
    window_s: float
    hz: float
    bytes_per_s: float
    hz_min: float
    hz_max: float
    bytes_per_s_min: float
    bytes_per_s_max: float
    windows: int

    @property
    def mean_size(self) -> float:
        """Bytes a message, over the last window; 0 without messages."""
        return self.bytes_per_s / self.hz if self.hz else 0.0


@dataclass
class Meter:
    """Turns counter readings into rates. The first reading of a topic only starts its first window."""

    _counters: dict[str, tuple[float, int, int]] = field(default_factory=dict[str, tuple[float, int, int]])
    _rates: dict[str, Rate] = field(default_factory=dict[str, Rate])

    def read(self, views: Sequence[observe.TopicView], now_s: float) -> list[Rate]:
        """Rates since the reading before, of the topics that it had too; `now_s` is monotonic."""
        found: list[Rate] = []
        for view in views:
            before = self._counters.get(view.name)
            self._counters[view.name] = (now_s, view.published, view.bytes)
            if before is not None:
                found.append(self._rate(view, before, now_s))
        return found

    def _rate(self, view: observe.TopicView, before: tuple[float, int, int], now_s: float) -> Rate:
        window_s = now_s - before[0]
        hz, volume = (view.published - before[1]) / window_s, (view.bytes - before[2]) / window_s
        last = self._rates.get(view.name) or Rate(view.name, window_s, hz, volume, hz, hz, volume, volume, 0)
        rate = replace(
            last,
            window_s=window_s,
            hz=hz,
            bytes_per_s=volume,
            hz_min=min(last.hz_min, hz),
            hz_max=max(last.hz_max, hz),
            bytes_per_s_min=min(last.bytes_per_s_min, volume),
            bytes_per_s_max=max(last.bytes_per_s_max, volume),
            windows=last.windows + 1,
        )
        self._rates[view.name] = rate
        return rate


def hz(arguments: argparse.Namespace) -> int:
    """Print messages a second."""
    return _measure(arguments, hz_table)


def bw(arguments: argparse.Namespace) -> int:
    """Print bytes a second."""
    return _measure(arguments, bw_table)


def hz_table(rates: Sequence[Rate]) -> Table:
    """Messages a second, with the extremes over the windows."""
    rows = [(r.topic, r.hz, r.hz_min, r.hz_max, r.windows) for r in rates]
    return Table("", ("topic", "messages/s", "min", "max", "windows"), rows)


def bw_table(rates: Sequence[Rate]) -> Table:
    """Bytes a second, with the extremes over the windows."""
    rows = [
        (r.topic, *(f"{size(n)}/s" for n in (r.bytes_per_s, r.bytes_per_s_min, r.bytes_per_s_max)), size(r.mean_size))
        for r in rates
    ]
    return Table("", ("topic", "bytes/s", "min", "max", "mean message"), rows)


def _measure(arguments: argparse.Namespace, table: Callable[[Sequence[Rate]], Table]) -> int:
    meter = Meter()
    with look_at(arguments.domain) as domain, live() as display:
        for name in arguments.topics:
            find_topic(domain, arguments.domain, name)
        meter.read(_views(domain, arguments.topics), CLOCK.monotonic())
        for _ in windows(arguments.window, arguments.count):
            _output(meter.read(_views(domain, arguments.topics), CLOCK.monotonic()), arguments.json, display, table)
    return 0


def _views(domain: Domain, names: Sequence[str]) -> list[observe.TopicView]:
    return [view for view in observe.topics(domain) if not names or view.name in names]


def _output(rates: Sequence[Rate], as_json: bool, display: Display, table: Callable[[Sequence[Rate]], Table]) -> None:
    if as_json:
        for rate in rates:
            show_json(rate)
    else:
        display.update(table(rates))


# ---- delay ----

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
    notes = () if rows else ("Nobody subscribes to it on this host, so no message is taken.",)
    return Table(f"{topic.topic}: from publish to take, last {topic.seconds:.3g} s", COLUMNS, rows, notes)
