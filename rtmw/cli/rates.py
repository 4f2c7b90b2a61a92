"""`rtmw topic hz|bw|delay`: from the counters in the region; nothing is subscribed, so nobody is disturbed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rtmw import observe
from rtmw.cli.common import find_topic, look_at
from rtmw.cli.parsing import add_windows, runs
from rtmw.cli.terminal import Cell, Display, Table, duration, live, show_json, size, windows
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.latency import PERCENTILES
from rtmw.observe import TopicActivity


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
