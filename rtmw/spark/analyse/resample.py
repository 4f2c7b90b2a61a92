"""Values at even times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rtmw.spark.analyse.times import PUBLISHED, interval, nanoseconds, timestamp

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
