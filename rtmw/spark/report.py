"""`rtmw report`: what a recording says of itself, on one page that needs nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

import rtmw.spark
from rtmw.recording import Recording
from rtmw.recording.paths import find_recordings
from rtmw.spark.page import Page, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_TOPICS, MOST_ROWS, POINTS = 8, 12, 120
"""In a plot; in a table of events; of a line."""
STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 86400)
"""Seconds of an interval that people find even."""


class Ends(TypedDict):
    """When the recorders began and ended, where they say so, and the topics that they knew from the beginning."""

    since: int | None
    until: int | None
    known: list[str]


@dataclass(frozen=True)
class Contents:
    """What the indexes of the recordings say, before anything is read."""

    paths: tuple[Path, ...]
    types: dict[str, str]
    """Name of the type, by topic."""
    messages: int
    start_ns: int
    end_ns: int
    ends: Ends

    @property
    def seconds(self) -> float:
        return max(self.end_ns - self.start_ns, 0) / 1e9

    def topics_of(self, type: str) -> list[str]:
        return sorted(topic for topic, name in self.types.items() if name == type)


def report(
    source: str | Sequence[str],
    output: str | Path,
    *,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    every: float | None = None,
    deadline: float | None = None,
) -> Path:
    """Write one HTML page about recordings, with tables and plots; its path.

    `source`: files, folders, patterns. `every`: seconds of an interval of the plots, None: about a hundred in all.
    `deadline`: also how often topics were silent for longer than so many seconds. `spark`: a session, or
    what begins one when all that can be told without it is in order; None for `session()`.

    Errors: FileNotFoundError, RecordingDamaged, NotInstalled, and those of Spark.
    """
    path = Path(output)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}")
    contents = _contents(find_recordings(source))
    begun = rtmw.spark.session(name="rtmw report") if spark is None else spark
    session = begun() if callable(begun) else begun
    begin = time.monotonic()
    page = Page("Report", _subtitle(contents))
    page.cards(_figures(contents))
    if contents.messages:
        messages = (
            _read(session, contents).select("topic", "log_time", "expires", "publish_time_ns", "log_time_ns").cache()
        )
        _traffic(page, messages, every or even(contents.seconds / POINTS), deadline, contents.ends)
        _fields(page, session, contents)
        messages.unpersist()
    took = time.monotonic() - begin
    path.write_text(page.html(f"Made by rtmw report in {took:.1f} s, from {', '.join(map(str, contents.paths))}"))
    return path


def even(seconds: float) -> float:
    """The interval that people find even, of at least so many seconds."""
    return next((float(step) for step in STEPS if step >= seconds), float(STEPS[-1]))


def _contents(paths: Sequence[Path]) -> Contents:
    types: dict[str, str] = {}
    known: dict[str, None] = {}
    began: list[int] = []
    ended: list[int] = []
    messages, start_ns, end_ns = 0, 2**63 - 1, 0
    for path in paths:
        with Recording(path) as recording:
            messages += recording.message_count
            if recording.message_count:
                start_ns, end_ns = min(start_ns, recording.start_ns), max(end_ns, recording.end_ns)
            for channel in recording.channels.values():
                kind = recording.message_type(channel)
                types[channel.topic] = kind.name if kind is not None else channel.message_encoding
            for _, about in (found for found in recording.metadata if found[0] == "rtmw.recorder"):
                known |= dict.fromkeys(json.loads(about.get("known", "[]")))
                began.append(int(about.get("started_ns", start_ns)))
                ended.append(int(about.get("ended_ns", end_ns)))
    until = max(ended) if len(ended) == len(paths) else None
    ends = Ends(since=min(began, default=None), until=until, known=[*known])
    return Contents(tuple(paths), types, messages, start_ns, end_ns, ends)


def _subtitle(contents: Contents) -> str:
    names = [path.name for path in contents.paths]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    ends = [datetime.fromtimestamp(ns / 1e9, UTC) for ns in (contents.start_ns, contents.end_ns)]
    period = f", from {shown(ends[0])} to {shown(ends[1])} UTC" if contents.messages else ""
    return ", ".join(names[:3]) + more + period


def _figures(contents: Contents) -> list[tuple[str, str]]:
    size = sum(path.stat().st_size for path in contents.paths)
    return [
        (f"{contents.messages:,}", "messages"),
        (f"{len(contents.types):,}", "topics"),
        (f"{shown(round(contents.seconds, 3))} s", "from the first message to the last"),
        (f"{size / (1 << 20):,.2f} MiB", f"in {len(contents.paths)} file{'s' if len(contents.paths) > 1 else ''}"),
    ]


def _read(session: SparkSession, contents: Contents, topics: Sequence[str] = ()) -> DataFrame:
    if not topics:
        return rtmw.spark.read(contents.paths, spark=session, typed=False, incomplete="read")
    return rtmw.spark.read(contents.paths, spark=session, topic=topics, incomplete="read")


def _show(page: Page, result: DataFrame, most: int | None = None) -> list[Any]:
    rows: list[Any] = (result if most is None else result.limit(most)).collect()
    if rows:
        page.table(result.columns, [tuple(row) for row in rows])
    return rows


def _traffic(page: Page, messages: DataFrame, every: float, deadline: float | None, ends: Ends) -> None:
    from rtmw.spark import analyse

    page.heading("Topics", "Rates, the gaps from message to message, and how far gaps are from their median (jitter).")
    rates = _show(page, analyse.rates(messages).drop("first", "last"))
    busiest = [row.topic for row in sorted(rates, key=lambda row: -row.messages)[:MOST_TOPICS]]
    few = messages.where(messages.topic.isin(busiest))
    about = f"The {len(busiest)} busiest topics, in intervals of {every:g} s." if len(rates) > len(busiest) else ""
    over_time = analyse.rates_over_time(few, every, since=ends["since"], until=ends["until"])
    page.heading("Messages a second", f"{about} Circles: intervals in which the recording began or ended.".strip())
    page.picture(analyse.lines(over_time, "time", "hz", unit="messages/s", hollow="partial"))
    page.heading("Latency", "Microseconds from publishing until the recorder had the message.")
    _show(page, analyse.latency(messages))
    slow = analyse.latency_over_time(few, every)
    page.picture(analyse.lines(slow, "time", "p99_us", title="99 % are faster than", unit="µs", apart=1.5 * every))
    if deadline is not None:
        about = "until the recording's end. Topics that were there from the beginning count from there."
        page.heading("Deadline", f"A message is expected {deadline:g} s after the one before, {about}")
        _show(page, analyse.deadline_misses(messages, deadline, **ends))
        page.heading(
            "The longest silences", "Between two messages, or at an end of the recording: behind the last one."
        )
        _show(page, analyse.silences(messages, deadline, **ends), MOST_ROWS)
    if not messages.where("expires IS NOT NULL").isEmpty():
        page.heading("Lifetimes", "Messages that have one, and those whose was over before they were recorded.")
        _show(page, analyse.lifetime_misses(messages))


def _fields(page: Page, session: SparkSession, contents: Contents) -> None:
    """What is known about the fields of these types."""
    from rtmw.spark.analyse import airport, lines, river

    def topics(type: str) -> DataFrame | None:
        found = contents.topics_of(type)
        return _read(session, contents, found) if found else None

    if (readings := topics("river::Reading")) is not None:
        page.heading("Water quality, by the hour", "Means of what each station measured, without bad readings.")
        means = river.hourly_means(readings).selectExpr("*", "concat(station, ' ', parameter) AS series")
        page.picture(lines(means, "hour", "mean", by="series", unit="mean", from_zero=False))
        _show(page, means.drop("series"), 4 * MOST_ROWS)
    if (raised := topics("river::Alarm")) is not None:
        page.heading("Alarms of the river", "From the first message until the value was back inside of its limit.")
        _show(page, river.alarms(raised), 4 * MOST_ROWS)
    if (movements := topics("airport::Movement")) is not None:
        page.heading("Delays", "Minutes; late is a quarter of an hour or more.")
        _show(page, airport.delays(movements), 4 * MOST_ROWS)
        hours = airport.delays_by_hour(movements).selectExpr("*", "concat(airport, ' ', direction) AS series")
        page.picture(lines(hours, "hour", "mean_min", by="series", title="Mean delay by hour (UTC)", unit="minutes"))
