"""Conditions on floats in DuckDB's plan. DuckDB's NaN is larger than all numbers, and Arrow's is unlike all of them:
so DuckDB hands no condition on floats on to a table. Chunks whose ranges are known have no NaN, and may be skipped all
the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtmw.recording.frames.expressions import all_of

_SCAN: Final = "ARROW_SCAN"
_AND: Final = " AND "
_NUMBER: Final = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_COMPARED: Final = re.compile(rf"\((\w+) (>|>=|<|<=|=) {_NUMBER}\)")
_BETWEEN: Final = re.compile(rf"\((\w+) BETWEEN {_NUMBER} AND {_NUMBER}\)")
_WIDTHS: Final = {pa.float32(): np.float32, pa.float64(): np.float64}


def hint_of(plan: str, schema: pa.Schema) -> Any:
    """The conditions of a plan (of EXPLAIN, in JSON) on floats of the one table that it reads, which has this schema.

    An expression of pyarrow.compute; None: the plan has no such condition, or reads several tables.
    """
    conditions = [*_filters(json.loads(plan))]
    if len(conditions) != 1:
        return None
    return all_of(expression for part in _parts(conditions[0]) for expression in _expressions(part, schema))


def _filters(nodes: Any, above: str = "") -> Iterator[str]:
    """The condition on the rows of each scan, directly above it; "" where there is none."""
    for node in nodes:
        if node["name"].strip().endswith(_SCAN):
            yield above
        told = node.get("extra_info", {}).get("Expression", "") if node["name"].strip() == "FILTER" else ""
        yield from _filters(node.get("children", ()), told if isinstance(told, str) else "")


def _parts(condition: str) -> list[str]:
    """Conditions that hold all at once, each in its parentheses; none where it is not made of such."""
    inside = condition[1:-1] if condition.startswith("((") else condition
    parts: list[str] = []
    depth, begin, quote = 0, 0, ""
    for at, letter in enumerate(inside):
        if quote or letter in "'\"":
            quote = "" if letter == quote else quote or letter
            continue
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ")":
            parts.append(inside[begin : at + 1])
            begin = at + 1
        elif depth == 0 and begin < at + 1 <= begin + len(_AND) and not _AND.startswith(inside[begin : at + 1]):
            return []
        if depth == 0 and inside[begin : at + 1] == _AND:
            begin = at + 1
    return parts if begin == len(inside) else []


def _expressions(part: str, schema: pa.Schema) -> Iterator[Any]:
    compared, between = _COMPARED.fullmatch(part), _BETWEEN.fullmatch(part)
    if compared:
        yield from _bounds(schema, compared[1], compared[2], compared[3])
    elif between:
        yield from _bounds(schema, between[1], ">", between[2])
        yield from _bounds(schema, between[1], "<", between[3])


def _bounds(schema: pa.Schema, name: str, sign: str, text: str) -> Iterator[Any]:
    """One step wider than what is written, which may have been rounded."""
    kind = schema.field(name).type if name in schema.names else None
    width: Any = _WIDTHS.get(kind)
    if width is None:
        return
    with np.errstate(over="ignore"):
        number = width(text)
        below, above = np.nextafter(number, width("-inf")), np.nextafter(number, width("inf"))
    if sign in (">", ">=", "="):
        yield pc.field(name) >= pa.scalar(float(below), kind)
    if sign in ("<", "<=", "="):
        yield pc.field(name) <= pa.scalar(float(above), kind)
