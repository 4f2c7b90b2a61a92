"""How often messages came, and when they did not."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

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


def rates_over_time(messages: DataFrame, every: float = 1.0, *, time: str = PUBLISHED) -> DataFrame:
    """One row a topic and interval in which something came: `topic`, `time` (its beginning), `messages`, `hz`."""
    found = messages.groupBy("topic", F.expr(interval(time, every)).alias("at_ns")).agg(F.count("*").alias("messages"))
    columns = ("topic", f"{timestamp('at_ns')} AS time", "messages", f"messages / {float(every)!r}D AS hz")
    return found.selectExpr(*columns).orderBy("topic", "time")


def silences(messages: DataFrame, longer: float, *, time: str = PUBLISHED) -> DataFrame:
    """One row for each time that nothing came on a topic for so many seconds or more, the longest first.

    `topic`, `begin` and `end` (timestamps of the messages before and after), `seconds`.
    """
    gaps = with_gaps(messages, time).where(F.col("gap_ns") >= nanoseconds(longer))
    return gaps.selectExpr(
        "topic",
        f"{timestamp(f'{time} - gap_ns')} AS begin",
        f"{timestamp(time)} AS end",
        f"gap_ns / {NS}D AS seconds",
    ).orderBy(F.desc("seconds"), "topic", "begin")
