"""Flights: the messages of `airport::Movement`, or of types like it. Delays are minutes; early is negative."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rtmw.spark.analyse.messages import quantile


def _figures(late: float) -> list[Column]:
    """Columns with the figures of flights; those of delays count only flights that took place."""
    return [
        F.count("*").alias("flights"),
        F.expr("count_if(cancelled) AS cancelled"),
        F.expr(f"count_if(delay >= {float(late)!r}D) AS late"),
        F.expr(f"count_if(delay >= {float(late)!r}D) / nullif(count(delay), 0) AS late_share"),
        F.avg("delay").alias("mean_min"),
        F.expr(f"{quantile('delay', 0.5)} AS p50_min"),
        F.expr(f"{quantile('delay', 0.9)} AS p90_min"),
        F.max("delay").alias("max_min"),
    ]


def _flown(movements: DataFrame) -> DataFrame:
    return movements.withColumn("delay", F.expr("CASE WHEN NOT cancelled THEN double(delay_minutes) END"))


def delays(movements: DataFrame, *, late: float = 15.0) -> DataFrame:
    """One row an airport, direction and carrier, the most flights first.

    `airport`, `direction`, `carrier`, `flights`, `cancelled`, `late` (by so many minutes or more), `late_share` of
    those that flew, `mean_min`, `p50_min`, `p90_min`, `max_min`.
    """
    key = ("airport", "direction", "carrier")
    return _flown(movements).groupBy(*key).agg(*_figures(late)).orderBy(F.desc("flights"), *key)


def delays_by_hour(movements: DataFrame, *, late: float = 15.0) -> DataFrame:
    """The figures of `delays` by `airport`, `direction` and `hour` (0 to 23, UTC) that flights are scheduled for."""
    key = ("airport", "direction", "hour")
    hours = _flown(movements).withColumn("hour", F.expr("int(pmod(scheduled_s, 86400L) div 3600)"))
    return hours.groupBy(*key).agg(*_figures(late)).orderBy(*key)
