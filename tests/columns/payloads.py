"""What the reference decoder makes of a message, as Arrow gives rows back; and messages side by side."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from rtmw.columns.program import label_name
from rtmw.types.classes import describe
from rtmw.types.schema import (
    Array,
    Bitmask,
    Enumeration,
    Maybe,
    Named,
    Node,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Union,
    strip,
)


def side_by_side(payloads: list[bytes], gap: int = 3) -> tuple[bytes, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Payloads in one piece of memory, with bytes between them that belong to none."""
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    positions = gap + np.concatenate(([0], np.cumsum(sizes + gap)[:-1])).astype(np.int64)
    return b"\xa5" * gap + b"".join(payload + b"\xa5" * gap for payload in payloads), positions, sizes


def expected_row(cls: Any, value: Any) -> dict[str, Any]:
    """The row of a value of an IdlStruct class."""
    schema = describe(cls)[0]
    row: dict[str, Any] = _plain(schema, Named(schema.name), value)
    return row


def _plain(schema: Schema, node: Node, value: Any) -> Any:
    node = strip(node)
    match node:
        case Maybe():
            return None if value is None else _plain(schema, node.element, value)
        case Sequence() | Array():
            element = strip(node.element)
            if isinstance(element, Primitive) and element.name in ("uint8", "octet"):
                return bytes(value)
            return [_plain(schema, element, item) for item in value]
        case Named():
            return _named(schema, node, value)
        case _:
            return value


def _named(schema: Schema, node: Named, value: Any) -> Any:
    part = schema.types[node.name]
    match part:
        case Enumeration():
            return value.name if isinstance(value, Enum) else str(value)
        case Bitmask():
            return {name: getattr(value, name) for name, _ in part.bits}
        case Struct():
            return {member.name: _plain(schema, member.node, getattr(value, member.name)) for member in part.fields}
        case Union():
            return _union(schema, part, value)


def _union(schema: Schema, part: Union, value: Any) -> dict[str, Any]:
    label, content = value.get()
    label = part.implicit if label is None else label
    number = label.value if isinstance(label, Enum) else label
    taken = [case for case in part.cases if number in case.labels] or [case for case in part.cases if not case.labels]
    row: dict[str, Any] = {label_name(part): _label(schema, part, number)}
    for case in part.cases:
        row[case.name] = _plain(schema, case.node, content) if taken and case is taken[0] else None
    return row


def _label(schema: Schema, part: Union, number: Any) -> Any:
    node = strip(part.discriminator)
    if not isinstance(node, Named):
        return number
    enumeration = schema.types[node.name]
    assert isinstance(enumeration, Enumeration)
    return next(name for name, value in enumeration.members if value == number)
