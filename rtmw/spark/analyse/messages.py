"""Analyses of the messages of any topic: rates and silences, deadlines, latencies, values at even times or side by
side.

Times are nanoseconds in Spark's columns, as SQL on whole numbers, so that no result depends on the order of rows. From
when to when topics were recorded is their span: what is silent at either end of it is silent, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rtmw.recording import contents as recorded
from rtmw.recording.places import place

if TYPE_CHECKING:
    import pyarrow as pa


NS: Final = 1_000_000_000
LOGGED: Final = "log_time_ns"
PUBLISHED: Final = "publish_time_ns"


def nanoseconds(seconds: float) -> int:
    """Raises ValueError for what is no length of time."""
    found = round(seconds * NS)
    if found <= 0:
        raise ValueError(f"{seconds!r} s is no length of time")
    return found


def timestamp(ns: str) -> str:
    """The time of nanoseconds since 1970, cut to microseconds, which is what Spark's times have."""
    return f"timestamp_micros(({ns}) div 1000)"


def interval(ns: str, every: float) -> str:
    """Where the interval of so many seconds begins that a time falls into; intervals are counted from 1970."""
    length = nanoseconds(every)
    return f"(({ns}) - pmod({ns}, {length}L))"


def quantile(column: str, share: float, unit_ns: float = 1.0) -> str:
    """The nearest-rank quantile of a group: the smallest value that the share of all values does not exceed."""
    return f"percentile_disc({share}) WITHIN GROUP (ORDER BY {column}) / {unit_ns!r}D"


Moment = datetime | int | None
"""A time, UTC if it does not say; or nanoseconds since 1970. None: that of the first, or last, message of any topic."""


@dataclass(frozen=True)
class Span:
    """From when to when was recorded, and which topics were there, or were asked for by name, from the beginning."""

    since: Moment = None
    until: Moment = None
    known: Sequence[str] = ()

    def topics(self, messages: DataFrame, time: str) -> DataFrame:
        """A row a topic, `first_ns` and `last_ns` of its messages: null for one that is known and has none."""
        found = messages.groupBy("topic").agg(F.min(time).alias("first_ns"), F.max(time).alias("last_ns"))
        if not self.known:
            return found
        known = messages.sparkSession.createDataFrame([(name,) for name in self.known], "topic string")
        return found.join(known.distinct(), "topic", "full")

    def bounded(self, topics: DataFrame) -> DataFrame:
        """The rows of `topics`, with `since_ns` and `until_ns` of the recording."""
        since, until = _or(self.since, F.min("first_ns")), _or(self.until, F.max("last_ns"))
        return topics.crossJoin(topics.agg(since.alias("since_ns"), until.alias("until_ns")))

    def open_gaps(self, messages: DataFrame, time: str) -> DataFrame:
        """`topic`, `begin_ns`, `end_ns` and `place`: behind the last message, and of known topics before the first.

        `place`: `end`, `begin`, or `all` for a topic without a message.
        """
        bounded = self.bounded(self.topics(messages, time))
        behind = bounded.where("until_ns > last_ns").selectExpr(
            "topic", "last_ns AS begin_ns", "until_ns AS end_ns", "'end' AS place"
        )
        before = bounded.where(F.col("topic").isin([*self.known])).selectExpr(
            "topic",
            "since_ns AS begin_ns",
            "coalesce(first_ns, until_ns) AS end_ns",
            "CASE WHEN first_ns IS NULL THEN 'all' ELSE 'begin' END AS place",
        )
        return behind.unionAll(before.where("end_ns > begin_ns"))


def _or(moment: Moment, otherwise: Column) -> Column:
    if moment is None:
        return otherwise
    known: Any = recorded.nanoseconds(moment) if isinstance(moment, datetime) else moment
    return F.lit(known).cast("bigint")


MS = 1e6


def with_gaps(messages: DataFrame, time: str = PUBLISHED) -> DataFrame:
    """The messages with `gap_ns`: time since the one before on the topic; null for the first."""
    before = Window.partitionBy("topic").orderBy(time)
    return messages.withColumn("gap_ns", F.col(time) - F.lag(time).over(before))


def rates(messages: DataFrame, *, time: str = PUBLISHED) -> DataFrame:
    """One row a topic, by name: how many messages, how fast, how evenly.

    `topic`, `messages`, `first` and `last` (timestamps), `seconds` between them, `hz` (intervals a second; null for one
    message); of the gaps from message to message `gap_p50_ms`, `gap_p99_ms`, `gap_max_ms`; `jitter_p99_ms`: how far
    gaps are from their median. `time`: the column that counts, `publish_time_ns` or `log_time_ns`.
    """
    gaps = with_gaps(messages, time)
    medians = gaps.groupBy("topic").agg(F.expr(f"{quantile('gap_ns', 0.5)} AS median_ns"))
    both = gaps.join(medians, "topic").withColumn("jitter_ns", F.expr("abs(gap_ns - median_ns)"))
    found = both.groupBy("topic").agg(
        F.count("*").alias("messages"),
        F.min(time).alias("first_ns"),
        F.max(time).alias("last_ns"),
        F.expr(f"{quantile('gap_ns', 0.5, MS)} AS gap_p50_ms"),
        F.expr(f"{quantile('gap_ns', 0.99, MS)} AS gap_p99_ms"),
        F.expr(f"max(gap_ns) / {MS!r}D AS gap_max_ms"),
        F.expr(f"{quantile('jitter_ns', 0.99, MS)} AS jitter_p99_ms"),
    )
    return found.selectExpr(
        "topic",
        "messages",
        f"{timestamp('first_ns')} AS first",
        f"{timestamp('last_ns')} AS last",
        f"(last_ns - first_ns) / {NS}D AS seconds",
        f"CASE WHEN last_ns > first_ns THEN (messages - 1) / ((last_ns - first_ns) / {NS}D) END AS hz",
        "gap_p50_ms",
        "gap_p99_ms",
        "gap_max_ms",
        "jitter_p99_ms",
    ).orderBy("topic")


def rates_over_time(
    messages: DataFrame, every: float = 1.0, *, time: str = PUBLISHED, since: Moment = None, until: Moment = None
) -> DataFrame:
    """One row a topic and interval: `topic`, `time` (its beginning), `messages`, `hz`, `partial`.

    Intervals in which nothing came have 0. `partial`: the recording began or ended within the interval, so `hz` is less
    than it was. `since`, `until`: when that was; None: the first and last message of any topic. Many intervals are many
    rows: a day in milliseconds has 86 million for each topic.
    """
    length = nanoseconds(every)
    at = F.expr(interval(time, every)).alias("at_ns")
    counted = messages.groupBy("topic", at).agg(F.count("*").alias("messages"))
    span = Span(since, until)
    bounded = span.bounded(span.topics(messages, time))
    steps = f"explode(sequence({interval('since_ns', every)}, {interval('until_ns', every)}, {length}L)) AS at_ns"
    even = bounded.selectExpr("topic", "since_ns", "until_ns", steps)
    columns = (
        "topic",
        f"{timestamp('at_ns')} AS time",
        "coalesce(messages, 0L) AS messages",
        f"coalesce(messages, 0L) / {float(every)!r}D AS hz",
        f"at_ns < since_ns OR at_ns + {length}L > until_ns AS partial",
    )
    return even.join(counted, ["topic", "at_ns"], "left").selectExpr(*columns).orderBy("topic", "time")


def silences(
    messages: DataFrame,
    longer: float,
    *,
    time: str = PUBLISHED,
    since: Moment = None,
    until: Moment = None,
    known: Sequence[str] = (),
) -> DataFrame:
    """One row for each time that nothing came on a topic for so many seconds or more, the longest first.

    `topic`, `begin` and `end` (timestamps), `seconds`, `place`: `between` two messages, at the `end` behind the last
    message, or at the `begin` before the first one, or `all` the time. The last two are told of the topics in `known`:
    those that were there when the recording began, or should have been. `since`, `until`: when the recording began and
    ended; None: the first and last message of any topic.
    """
    gaps = with_gaps(messages, time).selectExpr(
        "topic", f"{time} - gap_ns AS begin_ns", f"{time} AS end_ns", "'between' AS place"
    )
    every = gaps.unionAll(Span(since, until, known).open_gaps(messages, time))
    return (
        every.where(f"end_ns - begin_ns >= {nanoseconds(longer)}L")
        .selectExpr(
            "topic",
            f"{timestamp('begin_ns')} AS begin",
            f"{timestamp('end_ns')} AS end",
            f"(end_ns - begin_ns) / {NS}D AS seconds",
            "place",
        )
        .orderBy(F.desc("seconds"), "topic", "begin")
    )


def deadline_misses(
    messages: DataFrame,
    deadline: float | Mapping[str, float],
    *,
    time: str = PUBLISHED,
    since: Moment = None,
    until: Moment = None,
    known: Sequence[str] = (),
) -> DataFrame:
    """One row a topic: how often a message came later than so many seconds after the one before, or not at all.

    `deadline` is for all topics, or by topic; topics without one are left out. `topic`, `messages`, `deadline_s`,
    `misses`, `longest_s` without a message, `over_s`: all the time by which deadlines were overrun. The time behind the
    last message counts, until the recording's end, and of the topics in `known`, which were there when it began, the
    time before the first. `since`, `until`: when that was; None: the first and last message of any topic.
    """
    gaps = with_gaps(messages, time).selectExpr("topic", "gap_ns", "1L AS message")
    ends = Span(since, until, known).open_gaps(messages, time).selectExpr("topic", "end_ns - begin_ns", "0L")
    limited = gaps.unionAll(ends).withColumn("deadline_ns", _deadlines(deadline)).where("deadline_ns IS NOT NULL")
    found = limited.withColumn("over_ns", F.expr("greatest(gap_ns - deadline_ns, 0L)")).groupBy("topic", "deadline_ns")
    return (
        found.agg(
            F.sum("message").alias("messages"),
            F.expr("count_if(over_ns > 0) AS misses"),
            F.expr(f"max(gap_ns) / {NS}D AS longest_s"),
            F.expr(f"coalesce(sum(over_ns), 0L) / {NS}D AS over_s"),
        )
        .selectExpr("topic", "messages", f"deadline_ns / {NS}D AS deadline_s", "misses", "longest_s", "over_s")
        .orderBy("topic")
    )


def _deadlines(deadline: float | Mapping[str, float]) -> Column:
    if not isinstance(deadline, Mapping):
        return F.lit(nanoseconds(deadline))
    pairs = [F.lit(part) for topic, seconds in deadline.items() for part in (topic, nanoseconds(seconds))]
    return F.create_map(*pairs)[F.col("topic")]


def lifetime_misses(messages: DataFrame) -> DataFrame:
    """One row a topic with messages that have a lifetime: `topic`, `messages` (of those), `late`, `share`, `worst_ms`,
    `expired`.

    Late ones were over before the recorder had them; to a microsecond. `worst_ms` is null if none was. `expired`: how
    many more were over before the recorder came to them, so that they are in no recording. The recordings that the
    column `file` names say how many, for all of their time; null: there is no such column. `share`: late and expired
    ones of all.
    """
    over = F.expr("unix_micros(log_time) - unix_micros(expires)")
    has_files = "file" in messages.columns
    found = messages.withColumn("over_us", over).groupBy("topic")
    counted = found.agg(
        F.count("over_us").alias("messages"),
        F.expr("count_if(over_us > 0) AS late"),
        F.expr(f"max(CASE WHEN over_us > 0 THEN over_us END) / {MS / 1e3!r}D AS worst_ms"),
        F.expr(f"{'collect_set(file)' if has_files else 'array()'} AS files"),
    )
    if has_files:
        schema = "topic string, messages long, late long, worst_ms double, files array<string>, expired long"
        counted = counted.repartition(1).mapInArrow(_with_expired, schema)
    else:
        counted = counted.withColumn("expired", F.lit(None).cast("long"))
    missed, sent = "late + coalesce(expired, 0L)", "messages + coalesce(expired, 0L)"
    share = f"({missed}) / ({sent}) AS share"
    return (
        counted.where(f"{sent} > 0")
        .selectExpr("topic", "messages", "late", share, "worst_ms", "expired")
        .orderBy("topic")
    )


def _with_expired(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds, by topic, how many messages the recorders of all files missed because their lifetime was over."""
    import pyarrow as pa

    from rtmw.recording.recordings import info

    rows = pa.Table.from_batches(batches) if (batches := [*batches]) else None
    if rows is None:
        return
    expired = Counter[str]()
    for path in sorted({path for files in rows.column("files").to_pylist() for path in files}):
        for topic in info(place(path)).topics:
            expired[topic.topic] += topic.missing.get("expired", 0)
    column = pa.array([expired[topic] for topic in rows.column("topic").to_pylist()], pa.int64())
    yield from rows.append_column("expired", column).to_batches()


US = 1e3
SHARES = (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999))


def _quantiles() -> list[Column]:
    spread = [F.expr(f"{quantile('latency_ns', share, US)} AS {name}") for name, share in SHARES]
    first, last = F.expr(f"min(latency_ns) / {US!r}D AS min_us"), F.expr(f"max(latency_ns) / {US!r}D AS max_us")
    return [F.count("*").alias("messages"), first, *spread, last]


def _with_latency(messages: DataFrame) -> DataFrame:
    return messages.withColumn("latency_ns", F.col(LOGGED) - F.col(PUBLISHED))


def latency(messages: DataFrame) -> DataFrame:
    """One row a topic: `topic`, `messages`, `min_us`, `p50_us`, `p90_us`, `p99_us`, `p999_us`, `max_us`.

    Microseconds from publishing until the recorder had the message. Negative ones are of another host, whose clock is
    ahead.
    """
    return _with_latency(messages).groupBy("topic").agg(*_quantiles()).orderBy("topic")


def latency_over_time(messages: DataFrame, every: float = 1.0) -> DataFrame:
    """The columns of `latency` for each interval of publishing, after `topic` and `time`, its beginning."""
    at = F.expr(interval(PUBLISHED, every)).alias("at_ns")
    found = _with_latency(messages).groupBy("topic", at).agg(*_quantiles())
    kept = [name for name in found.columns if name not in ("topic", "at_ns")]
    return found.selectExpr("topic", f"{timestamp('at_ns')} AS time", *kept).orderBy("topic", "time")


HOW: Final = {
    "last": "max_by({column}, {time})",
    "first": "min_by({column}, {time})",
    "mean": "avg({column})",
    "min": "min({column})",
    "max": "max({column})",
}
"""The aggregate of the values of an interval, by name."""


def resample(
    values: DataFrame,
    every: float,
    columns: Sequence[str],
    *,
    by: Sequence[str] = ("topic",),
    how: str = "last",
    hold: bool = False,
    time: str = PUBLISHED,
) -> DataFrame:
    """One row for each interval of so many seconds in which a value came: `by`, `time` (its beginning), and `columns`.

    `how`: last, first, mean, min or max. `hold`: intervals in which nothing came, too, with what was there before.
    `time`: a column of nanoseconds. Raises ValueError for another `how`.
    """
    if how not in HOW:
        raise ValueError(f"how={how!r} is none of {', '.join(HOW)}")
    kept = [F.expr(f"{HOW[how].format(column=f'`{name}`', time=time)} AS `{name}`") for name in columns]
    found = values.groupBy(*by, F.expr(interval(time, every)).alias("at_ns")).agg(*kept)
    if hold:
        found = _held(found, nanoseconds(every), columns, by)
    return found.selectExpr(*by, f"{timestamp('at_ns')} AS time", *(f"`{name}`" for name in columns)).orderBy(
        *by, "time"
    )


def _held(found: DataFrame, every_ns: int, columns: Sequence[str], by: Sequence[str]) -> DataFrame:
    """Adds a row for each interval from the first to the last one: it repeats the latest interval before it that has
    values."""
    until = F.coalesce(F.lead("at_ns").over(Window.partitionBy(*by).orderBy("at_ns")) - every_ns, F.col("at_ns"))
    steps = F.sequence("at_ns", until, F.lit(every_ns))
    return found.withColumn("steps", steps).select(*by, F.explode("steps").alias("at_ns"), *columns)


def as_of(
    left: DataFrame,
    right: DataFrame,
    columns: Sequence[str],
    *,
    by: Sequence[str] = (),
    within: float | None = None,
    time: str = PUBLISHED,
) -> DataFrame:
    """All rows and columns of `left`, and of the latest row of `right` that is not later: `columns`, and `age_s`.

    `by`: columns whose values must be equal; without them all rows go through one task. `within`: how many seconds old
    it may be. Where there is none, they are null. Of several at the same time one is taken. `columns` must not be in
    `left`, else ValueError.
    """
    both = [name for name in (*columns, "age_s") if name in left.columns]
    if both:
        raise ValueError(f"left has a column {both[0]!r} already: rename one of the two")
    latest, found_ns = F.struct(F.col(time).alias("_at"), *columns).alias("_right"), F.col("_latest._at")
    ours = left.select(*by, F.col(time).alias("_ns"), F.struct(*left.columns).alias("_left"), F.lit(1).alias("_side"))
    theirs = right.select(*by, F.col(time).alias("_ns"), latest, F.lit(0).alias("_side"))
    until_here = Window.partitionBy(*by).orderBy("_ns", "_side").rowsBetween(Window.unboundedPreceding, 0)
    merged = ours.unionByName(theirs, allowMissingColumns=True)
    rows = merged.withColumn("_latest", F.last("_right", ignorenulls=True).over(until_here)).where("_side = 1")
    if within is not None:
        rows = rows.withColumn("_latest", F.when(F.col("_ns") - found_ns <= nanoseconds(within), F.col("_latest")))
    age = ((F.col("_ns") - found_ns) / F.lit(1e9)).alias("age_s")
    return rows.select("_left.*", *(F.col(f"_latest.{name}").alias(name) for name in columns), age)
