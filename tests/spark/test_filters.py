"""What of a query's conditions the index answers; no Spark session is needed for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from rtmw.spark.partitions import Selection, pushed

LOGGED = ("log_time",)
NS = ("log_time_ns",)
TOPIC = ("topic",)
SECOND = 1_000_000_000
TEN = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=10)
TOPICS = ["pump/1/speed", "pump/2/speed", "river"]

TIMES: list[tuple[Filter, int | None, int | None]] = [
    (GreaterThanOrEqual(LOGGED, TEN), 10 * SECOND, None),
    (GreaterThan(LOGGED, TEN), 10 * SECOND + 1000, None),
    (LessThan(LOGGED, TEN), None, 10 * SECOND),
    (LessThanOrEqual(LOGGED, TEN), None, 10 * SECOND + 1000),
    (EqualTo(LOGGED, TEN), 10 * SECOND, 10 * SECOND + 1000),
    (EqualTo(LOGGED, TEN.replace(tzinfo=None)), 10 * SECOND, 10 * SECOND + 1000),
    (EqualNullSafe(NS, 7), 7, 8),
    (GreaterThan(NS, 7), 8, None),
    (LessThanOrEqual(NS, -7), None, -6),
]


@pytest.mark.parametrize(("condition", "start", "end"), TIMES, ids=[str(case[0]) for case in TIMES])
def test_a_condition_on_the_time_of_logging_becomes_a_range(
    condition: Filter, start: int | None, end: int | None
) -> None:
    assert pushed([condition], Selection(), frozenset()) == (Selection(start, end), [])


@pytest.mark.parametrize("unit", [1, 1000])
@pytest.mark.parametrize("kind", [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
def test_a_range_has_the_nanoseconds_whose_column_meets_the_condition(kind: Any, unit: int) -> None:
    compare = {
        EqualTo: int.__eq__,
        GreaterThan: int.__gt__,
        GreaterThanOrEqual: int.__ge__,
        LessThan: int.__lt__,
        LessThanOrEqual: int.__le__,
    }[kind]
    bound = TEN if unit == 1000 else 10 * SECOND
    selection, _ = pushed([kind(LOGGED if unit == 1000 else NS, bound)], Selection(), frozenset())
    for stamp in range(10 * SECOND - 2500, 10 * SECOND + 2500, 250):
        inside = (selection.start_ns is None or stamp >= selection.start_ns) and (
            selection.end_ns is None or stamp < selection.end_ns
        )
        assert inside == compare(stamp // unit, 10 * SECOND // unit)


TEXTS: list[tuple[Filter, list[str]]] = [
    (EqualTo(TOPIC, "river"), ["river"]),
    (EqualNullSafe(TOPIC, "river"), ["river"]),
    (In(TOPIC, ("river", "pump/1/speed", "x")), ["pump/1/speed", "river"]),
    (StringStartsWith(TOPIC, "pump"), TOPICS[:2]),
    (StringEndsWith(TOPIC, "speed"), TOPICS[:2]),
    (StringContains(TOPIC, "2"), ["pump/2/speed"]),
    (Not(EqualTo(TOPIC, "river")), TOPICS[:2]),
    (Not(Not(EqualTo(TOPIC, "river"))), ["river"]),
    (Not(In(TOPIC, ("river",))), TOPICS[:2]),
]


@pytest.mark.parametrize(("condition", "topics"), TEXTS, ids=[str(case[0]) for case in TEXTS])
def test_a_condition_on_the_topic_is_answered_by_the_channels(condition: Filter, topics: list[str]) -> None:
    selection, left = pushed([condition], Selection(), frozenset())
    assert left == []
    assert [topic for topic in TOPICS if selection.wants(topic)] == topics


LEFT: list[Filter] = [
    EqualTo(("rpm",), 3),
    Not(EqualTo(LOGGED, TEN)),
    IsNull(TOPIC),
    EqualTo(LOGGED, None),
    EqualTo(TOPIC, None),
    In(TOPIC, ("river", None)),
    GreaterThan(("speed", "log_time"), TEN),
    GreaterThan(TOPIC, "a"),
    IsNotNull(("rpm",)),
]


@pytest.mark.parametrize("condition", LEFT, ids=str)
def test_everything_else_is_left_for_spark(condition: Filter) -> None:
    assert pushed([condition], Selection(1), frozenset({"topic"})) == (Selection(1), [condition])


def test_conditions_narrow_each_other() -> None:
    conditions: list[Filter] = [
        IsNotNull(TOPIC),
        GreaterThan(NS, 5),
        LessThan(NS, 100),
        GreaterThanOrEqual(NS, 3),
        LessThan(NS, 90),
    ]
    assert pushed(conditions, Selection(0, 1000), frozenset({"topic"})) == (Selection(6, 90), [])
