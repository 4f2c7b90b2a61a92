"""`rtmw top`: what happens on the topics of a domain, live, from counters; nobody is subscribed to or disturbed."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from rtmw import observe
from rtmw.cli.common import look_at
from rtmw.cli.parsing import add_windows, runs
from rtmw.cli.terminal import (
    Cell,
    Table,
    column_widths,
    counted,
    duration,
    live,
    on_terminal,
    say,
    show_json,
    size,
    windows,
)
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.observe import TopicActivity
from rtmw.observe.books import PAGE_BYTES

SORT: dict[str, Callable[[TopicActivity], Any]] = {
    "topic": lambda topic: topic.topic,
    "rate": lambda topic: -topic.messages_per_s,
    "bytes": lambda topic: -topic.bytes_per_s,
    "queued": lambda topic: -topic.queued,
    "drops": lambda topic: -sum(count for cause, count in topic.dropped.items() if cause != "thinned"),
    "latency": lambda topic: -(topic.latency.percentile(99) or 0.0),
    "behind": lambda topic: -(topic.behind.behind if topic.behind else 0),
}
"""The sort keys that `--sort` can name; the largest first."""
COLUMNS = ("topic", "msg/s", "bytes/s", "queued", "pubs", "subs", "p50", "p99", "max", "drops", "behind")
FRAME_LINES = 6
"""Lines of a terminal that have no topic: title, heading, and space for the prompt."""
_SAME_S = 0.1
"""Counters of a core that were told at times so near are the same ones."""
DISPENSABLE = ("pubs", "subs", "bytes/s", "queued", "max", "p50", "behind", "drops")
"""Columns that a narrow terminal goes without, the first of them first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, top)
    parser.add_argument("--sort", choices=SORT, default="topic", help="the largest first (default: by topic)")
    parser.add_argument("--once", action="store_true", help="show one window, and end")
    parser.add_argument("--events", action="store_true", help="instead, print who comes, leaves and dies")
    add_windows(parser)


def top(arguments: argparse.Namespace) -> int:
    """Show the activity of all topics, a window at a time."""
    if arguments.events:
        return _events(arguments)
    meter, transfers = observe.Meter(), TransferWords()
    with look_at(arguments.domain) as domain, live() as display:
        meter.read(observe.topics(domain), CLOCK.monotonic())
        transfers.read(observe.transfers(domain), CLOCK.monotonic())
        for _ in windows(arguments.window, 1 if arguments.once else arguments.count):
            found = sorted(meter.read(observe.topics(domain), CLOCK.monotonic()), key=SORT[arguments.sort])
            if arguments.json:
                show_json([record(topic) for topic in found])
            else:
                table = top_table(arguments.domain, found, _lines())
                words = transfers.read(observe.transfers(domain), CLOCK.monotonic())
                title = table.title + pool_words(observe.examine(domain)) + words
                display.update(fitted(replace(table, title=title)))
    return 0


def _events(arguments: argparse.Namespace) -> int:
    """Print who comes, leaves and dies, until Ctrl-C or so many events."""
    with look_at(arguments.domain) as domain, observe.events(domain) as found:
        for event in islice(found, arguments.count):
            if arguments.json:
                show_json(to_plain(event))
            else:
                say(f"{datetime.now().isoformat(sep=' ', timespec='milliseconds')}  {event}", flush=True)
    return 0


def pool_words(books: observe.Books) -> str:
    """The words of `top` about the memory for payloads; what is only kept for reuse is not used."""
    used, kept, pages = (size(number * PAGE_BYTES) for number in (books.pages_used, books.pages_kept, books.pages))
    return f"; pool {used} of {pages} used" + (f", {kept} kept for reuse" if books.pages_kept else "")


class TransferWords:
    """The words of `top` about transfers, where a core runs in the domain."""

    def __init__(self) -> None:
        self._last: tuple[observe.TransferActivity, float] | None = None
        self._rate: float | None = None

    def read(self, found: observe.TransferActivity | None, now: float) -> str:
        """Returns the words behind the title; empty: there is no core. Rates are those between the last two messages
        of the core."""
        if found is None:
            self._last = self._rate = None
            return ""
        last, told = self._last, now - found.silent
        if last is None or found.pid != last[0].pid:
            self._last, self._rate = (found, told), None
        elif told - last[1] > _SAME_S:
            consumed = found.counters.consumed - last[0].counters.consumed
            self._last, self._rate = (found, told), consumed / (told - last[1])
        one = found.counters
        words = f"; {one.parked} transfers parked"
        words += f", {self._rate:.0f} consumed/s" if self._rate is not None else ""
        words += f", {counted(one.transactions, 'open transaction')}" if one.transactions else ""
        return words + (f", {counted(one.dead, 'dead letter')}" if one.dead else "")


def _lines() -> int | None:
    """Rows for which a terminal has room; None where nothing is cut."""
    return max(1, shutil.get_terminal_size().lines - FRAME_LINES) if on_terminal() else None


def fitted(table: Table) -> Table:
    """Returns the table without the columns that a terminal has no room for."""
    for column in DISPENSABLE if on_terminal() else ():
        if column_widths(table, shutil.get_terminal_size().columns) is not None:
            break
        table = table.without(column)
    return table


def top_table(domain: int, topics: Sequence[TopicActivity], most: int | None = None) -> Table:
    """A row a topic, at most so many."""
    rate, volume = sum(topic.messages_per_s for topic in topics), sum(topic.bytes_per_s for topic in topics)
    title = f"Domain {domain}: {counted(len(topics), 'topic')}, {rate:.0f} messages/s, {size(volume)}/s"
    shown = topics if most is None or len(topics) <= most else topics[: max(1, most - 1)]
    rows: list[Sequence[Cell]] = [_row(topic) for topic in shown]
    if len(shown) < len(topics):
        rows.append([f"... {len(topics) - len(shown)} more", *[None] * (len(COLUMNS) - 1)])
    return Table(title, COLUMNS, rows)


def _row(topic: TopicActivity) -> Sequence[Cell]:
    percentiles = [duration(topic.latency.percentile(percent)) for percent in (50, 99, 100)]
    behind = topic.behind
    return (
        topic.topic,
        topic.messages_per_s,
        f"{size(topic.bytes_per_s)}/s",
        topic.queued,
        topic.publishers,
        len(topic.subscribers),
        *percentiles,
        drops(topic.dropped),
        f"{observe.program(behind.process)} ({behind.pid}): {behind.behind}" if behind else None,
    )


def drops(dropped: Mapping[str, int]) -> str | None:
    """Causes with their numbers, the most frequent first; None without drops."""
    shown = (
        f"{count} {cause.replace('_', ' ')}" for cause, count in sorted(dropped.items(), key=lambda item: -item[1])
    )
    return ", ".join(shown) or None


def record(topic: TopicActivity) -> dict[str, Any]:
    """Returns the activity of a topic in the form that programs read, with times in seconds."""
    behind = topic.behind
    return {**to_plain(topic), "behind": {"pid": behind.pid, "messages": behind.behind} if behind else None}
