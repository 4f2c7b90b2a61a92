"""How long messages took from publishing to the recorder."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rtmw.spark.analyse.times import LOGGED, PUBLISHED, interval, quantile, timestamp

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
