"""The conditions of a query that the index can answer: those on topics and on the time of logging."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from rtmw.recording.frames import scan
from rtmw.recording.times import nanoseconds

TIMES: Final = {"log_time": 1000, "log_time_ns": 1}
"""Columns of the time of logging, and the nanoseconds of their unit."""

_TEXTS: Final[dict[type, Callable[[str, Any], bool]]] = {
    EqualTo: lambda topic, value: topic == value,
    EqualNullSafe: lambda topic, value: topic == value,
    In: lambda topic, value: topic in value,
    StringStartsWith: lambda topic, value: topic.startswith(value),
    StringEndsWith: lambda topic, value: topic.endswith(value),
    StringContains: lambda topic, value: value in topic,
}


@dataclass(frozen=True)
class Selection(scan.TimeRange):
    """Rows that are wanted: start_ns <= log time < end_ns, and all conditions on topics hold."""

    topics: tuple[Filter, ...] = ()

    def wants(self, topic: str) -> bool:
        return all(_holds(condition, topic) for condition in self.topics)

    def narrowed(self, start_ns: int | None, end_ns: int | None) -> Selection:
        starts = [bound for bound in (self.start_ns, start_ns) if bound is not None]
        ends = [bound for bound in (self.end_ns, end_ns) if bound is not None]
        return replace(self, start_ns=max(starts, default=None), end_ns=min(ends, default=None))


def pushed(filters: Iterable[Filter], selection: Selection, always: frozenset[str]) -> tuple[Selection, list[Filter]]:
    """A selection with what else the index answers, exactly, and the conditions that are left for Spark.

    `always`: columns without nulls.
    """
    left: list[Filter] = []
    for condition in filters:
        narrower = _narrowed(selection, condition, always)
        if narrower is None:
            left.append(condition)
        else:
            selection = narrower
    return selection, left


def _narrowed(selection: Selection, condition: Filter, always: frozenset[str]) -> Selection | None:
    """None: the index cannot answer it."""
    column = column_of(condition)
    if isinstance(condition, IsNotNull) and column in always:
        return selection
    if isinstance(condition, IsNotNull) and column in TIMES:
        return selection.narrowed(0, None)  # a message without a time lies in no time at all
    if column == "topic" and _is_about_text(condition):
        return replace(selection, topics=(*selection.topics, condition))
    if column in TIMES:
        bounds = _bounds(condition, TIMES[column])
        return None if bounds is None else selection.narrowed(*bounds)
    return None


def column_of(condition: Filter) -> str | None:
    """The name of the column that a condition is about; None for a member of a struct."""
    while isinstance(condition, Not):
        condition = condition.child
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return path[0].lower() if len(path) == 1 else None


def _is_about_text(condition: Filter) -> bool:
    if isinstance(condition, Not):
        return _is_about_text(condition.child)
    value = getattr(condition, "value", None)
    values: tuple[Any, ...] = tuple(value) if isinstance(condition, In) and value is not None else (value,)
    return type(condition) in _TEXTS and all(isinstance(part, str) for part in values)


def _holds(condition: Filter, topic: str) -> bool:
    if isinstance(condition, Not):
        return not _holds(condition.child, topic)
    return _TEXTS[type(condition)](topic, getattr(condition, "value", None))


def _bounds(condition: Filter, unit: int) -> tuple[int | None, int | None] | None:
    """start_ns <= log time < end_ns, so that the column's value, which is cut to its unit, meets the condition."""
    count = _count(getattr(condition, "value", None))
    if count is None:
        return None
    here, behind = count * unit, (count + 1) * unit
    match condition:
        case EqualTo() | EqualNullSafe():
            return here, behind
        case GreaterThan():
            return behind, None
        case GreaterThanOrEqual():
            return here, None
        case LessThan():
            return None, here
        case LessThanOrEqual():
            return None, behind
        case _:
            return None


def _count(value: Any) -> int | None:
    """A time in the unit of its column: microseconds for a datetime."""
    if isinstance(value, datetime):
        return nanoseconds(value) // 1000
    return value if type(value) is int else None
