"""Conditions of a query, translated from Catalyst into an expression of pyarrow.compute for the ranges of chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rtmw.recording.frames.pruning import all_of, any_of

_SIGNS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "EqualTo": lambda left, right: left == right,
    "GreaterThan": lambda left, right: left > right,
    "GreaterThanOrEqual": lambda left, right: left >= right,
    "LessThan": lambda left, right: left < right,
    "LessThanOrEqual": lambda left, right: left <= right,
}
"""How the comparisons of Spark are made in PyArrow, by the names of their classes."""

Fields = dict[str, pa.Field]
"""The fields of columns, by name."""


def implied(condition: Any, fields: Fields) -> Any:
    """An expression that is true of all rows for which a condition of the JVM is true; None: none is known."""
    match name_of(condition):
        case "And":
            known = [implied(part, fields) for part in parts_of(condition)]
            return all_of(one for one in known if one is not None)
        case "Or":
            return _understood(any_of, [implied(part, fields) for part in parts_of(condition)])
        case _:
            return exact(condition, fields)


def exact(condition: Any, fields: Fields) -> Any:
    """Returns the condition as an expression of PyArrow; None: a part of it is not understood. It may be negated, so
    all of it has to be understood.

    The two agree on rows without nulls and NaN, and chunks are skipped by ranges only, which such rows do not have.
    """
    name, parts = name_of(condition), [*parts_of(condition)]
    match name:
        case "And" | "Or":
            return _understood(all_of if name == "And" else any_of, [exact(part, fields) for part in parts])
        case "Not":
            inner = exact(parts[0], fields)
            return None if inner is None else ~inner
        case "In":
            return _understood(any_of, [_compared("EqualTo", parts[0], one, fields) for one in parts[1:]])
        case "StartsWith":
            text = _scalar(parts[1], fields.get(_column(parts[0])))
            return None if text is None else pc.starts_with(pc.field(_column(parts[0])), pattern=text.as_py())
        case _ if name in _SIGNS:
            return _compared(name, parts[0], parts[1], fields)
        case _:
            return None


def _understood(join: Callable[[list[Any]], Any], found: list[Any]) -> Any:
    """Joined; None: one of them is not understood."""
    return None if any(one is None for one in found) else join(found)


def _compared(name: str, left: Any, right: Any, fields: Fields) -> Any:
    on_left = _column(left)
    column = on_left or _column(right)
    value = _scalar(right if on_left else left, fields.get(column))
    if value is None:
        return None
    return _SIGNS[name](pc.field(column), value) if on_left else _SIGNS[name](pc.scalar(value), pc.field(column))


def name_of(node: Any) -> str:
    """Returns the name of the class of a node of the JVM, in one call to it."""
    return str(node.nodeName())


def parts_of(node: Any) -> Iterator[Any]:
    children = node.children()
    return (children.apply(at) for at in range(children.length()))


def _column(node: Any) -> str:
    return str(node.name()) if name_of(node) == "AttributeReference" else ""


def _scalar(node: Any, field: pa.Field | None) -> Any:
    """A constant of the type of a column; None: it is none, or null, or a NaN."""
    if field is None or name_of(node) != "Literal" or node.value() is None:
        return None
    kind, value = str(node.dataType().typeName()), node.value()
    match kind:
        case "byte" | "short" | "integer" | "long" if pa.types.is_integer(field.type):
            return pa.scalar(int(value), field.type)
        case "float" | "double" if pa.types.is_floating(field.type) and not math.isnan(value):
            return pa.scalar(float(value), field.type)
        case "string" if pa.types.is_string(field.type):
            return pa.scalar(str(value.toString() if hasattr(value, "toString") else value), field.type)
        case "timestamp" if pa.types.is_timestamp(field.type):
            return pa.scalar(int(value), pa.int64()).cast(field.type)  # microseconds since 1970, as the column's
        case _ if kind.startswith("decimal") and pa.types.is_decimal(field.type):
            number = Decimal(str(value.toString()))
            return pa.scalar(number, field.type) if number == number.to_integral_value() else None
        case _:
            return None
