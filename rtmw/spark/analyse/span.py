"""From when to when topics were recorded: what is silent at either end is silent, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rtmw.recording import times as recorded

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
