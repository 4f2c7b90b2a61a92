"""Rows as the Spark source gives them, and plain Python that computes what an analysis should."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN = 1_700_000_000_000_000_000
COLUMNS = "topic string, log_time timestamp, expires timestamp, publish_time_ns long, log_time_ns long"

Item = TypeVar("Item")


class Sent(NamedTuple):
    topic: str
    log_time: datetime
    expires: datetime | None
    publish_time_ns: int
    log_time_ns: int


def traffic(count: int = 900) -> list[Sent]:
    """Three topics of uneven pace and latency, the last with lifetimes; in no order."""
    dice = random.Random(7)
    found: list[Sent] = []
    for topic, pace in (("a", 1_000_000), ("b", 7_000_000), ("c/d", 40_000_000)):
        now = BEGIN
        for _ in range(count // 3):
            now += dice.randrange(pace // 2, pace * 2) + (pace * 30 if dice.random() < 0.02 else 0)
            logged = now + dice.randrange(20_000, 900_000)
            expires = time_of(now + 500_000) if topic == "c/d" else None
            found.append(Sent(topic, time_of(logged), expires, now, logged))
    dice.shuffle(found)
    return found


def time_of(ns: int) -> datetime:
    """A time as Spark has it, cut to microseconds."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def frame(spark: SparkSession, rows: Iterable[Any], columns: str = COLUMNS) -> DataFrame:
    return spark.createDataFrame([tuple(row) for row in rows], columns)


def collected(result: DataFrame) -> list[tuple[Any, ...]]:
    """The rows; times with their zone, which Spark leaves out."""
    return [tuple(_aware(value) for value in row) for row in result.collect()]


def _aware(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def groups(rows: Iterable[Item], key: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    found: dict[Any, list[Item]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items()))


def rank(values: Iterable[float], share: float) -> float:
    """The nearest-rank quantile."""
    ordered = sorted(values)
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def gaps(rows: Iterable[Sent]) -> list[int]:
    times = sorted(row.publish_time_ns for row in rows)
    return [after - before for before, after in pairwise(times)]
