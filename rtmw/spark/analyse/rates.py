"""How often messages came, and when they did not."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rtmw.spark.analyse.span import Moment, Span
from rtmw.spark.analyse.times import NS, PUBLISHED, interval, nanoseconds, quantile, timestamp

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
