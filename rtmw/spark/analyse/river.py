"""Water quality: the messages of `river::Reading`, `river::Parameter` and `river::Alarm`, or of types like them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rtmw.spark.analyse.messages import NS, interval, timestamp

MEASURED = "measured_ns"
KEY = ("station", "parameter")


def hourly_means(readings: DataFrame, *, but: Sequence[str] = ("BAD",)) -> DataFrame:
    """One row a station, parameter and hour (UTC) of measuring, without readings of these qualities.

    `station`, `parameter`, `hour`, `readings`, `mean`, `low`, `high`: in the unit of the parameter.
    """
    hour = F.expr(interval(MEASURED, 3600.0)).alias("at_ns")
    found = readings.where(~F.col("quality").isin(*but)).groupBy(*KEY, hour)
    values = found.agg(
        F.count("*").alias("readings"),
        F.avg("value").alias("mean"),
        F.min("value").alias("low"),
        F.max("value").alias("high"),
    )
    columns = (*KEY, f"{timestamp('at_ns')} AS hour", "readings", "mean", "low", "high")
    return values.selectExpr(*columns).orderBy(*KEY, "hour")


def exceedances(readings: DataFrame, parameters: DataFrame) -> DataFrame:
    """One row a station and parameter that was ever outside of the limits that `river::Parameter` sets.

    `station`, `parameter`, `readings` (that can be trusted: not BAD), `outside`, `share`, `lowest`, `highest`.
    """
    newest = parameters.groupBy("code").agg(F.expr("max_by(struct(low, high), publish_time_ns) AS limits"))
    limits = newest.selectExpr("code AS parameter", "limits.low AS low", "limits.high AS high")
    rows = (
        readings.where("quality <> 'BAD'")
        .join(limits, "parameter")
        .withColumn("out", F.expr("value < low OR value > high"))
    )
    found = rows.groupBy(*KEY).agg(
        F.count("*").alias("readings"),
        F.expr("count_if(out) AS outside"),
        F.expr("count_if(out) / count(*) AS share"),
        F.min("value").alias("lowest"),
        F.max("value").alias("highest"),
    )
    return found.where("outside > 0").orderBy(*KEY)


def alarms(messages: DataFrame) -> DataFrame:
    """One row for each time that a limit was passed, from the first alarm until the value is back inside.

    `station`, `parameter`, `begin`, `end` and `seconds` (null: it still is), `messages` of alarm, `worst`: the value
    furthest from the limit, `limit`, `text` of the first message.
    """
    order = Window.partitionBy(*KEY).orderBy(MEASURED)
    starts = F.expr("CASE WHEN raised AND NOT coalesce(before, false) THEN 1 ELSE 0 END")
    rows = messages.withColumn("before", F.lag("raised").over(order)).withColumn("number", F.sum(starts).over(order))
    found = rows.where("number > 0").groupBy(*KEY, "number")
    episodes = found.agg(
        F.min(MEASURED).alias("begin_ns"),
        F.expr(f"min(CASE WHEN NOT raised THEN {MEASURED} END) AS end_ns"),
        F.expr("count_if(raised) AS messages"),
        F.expr("max_by(value, CASE WHEN raised THEN abs(value - limit) END) AS worst"),
        F.expr(f"min_by(limit, {MEASURED}) AS limit"),
        F.expr(f"min_by(text, {MEASURED}) AS text"),
    )
    return episodes.selectExpr(
        *KEY,
        f"{timestamp('begin_ns')} AS begin",
        f"{timestamp('end_ns')} AS end",
        f"(end_ns - begin_ns) / {NS}D AS seconds",
        "messages",
        "worst",
        "limit",
        "text",
    ).orderBy("begin", *KEY)
