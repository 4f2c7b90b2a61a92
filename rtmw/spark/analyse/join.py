"""Topics side by side, by time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rtmw.spark.analyse.times import PUBLISHED, nanoseconds


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
