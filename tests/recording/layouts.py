"""Schemas without what does not show on the wire, so that two of them can be compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rtmw.types.description import from_document
from rtmw.types.message_type import read_document
from rtmw.types.schema import (
    Array,
    Bitmask,
    Case,
    Definition,
    Enumeration,
    Maybe,
    Node,
    Octets,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Typedef,
    Union,
)


def layout(schema: Schema) -> Schema:
    """Without typedefs, with sequences for what Python calls a list or bytes, and with short names."""
    return Schema(schema.name, schema.xcdr, {name: _part(name, part, schema) for name, part in schema.types.items()})


def described(description: bytes) -> Schema:
    return from_document(read_document(description))


def _part(name: str, part: Definition, schema: Schema) -> Definition:
    match part:
        case Struct():
            fields = tuple(replace(member, node=_node(member.node)) for member in part.fields)
            return Struct(fields, _annotations(part.annotations))
        case Union():
            cases = tuple(Case(case.name, case.labels, _node(case.node)) for case in part.cases)
            return Union(_node(part.discriminator), cases, part.implicit, _annotations(part.annotations))
        case Enumeration():
            return Enumeration(_short(name, part.members), None if schema.xcdr == 1 else part.bit_bound or 32)
        case Bitmask():
            return Bitmask(_short(name, part.bits), part.bit_bound)


def _short(owner: str, members: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Names without what tells them from others of their module."""
    return tuple((name.removeprefix(f"{owner.rpartition('::')[2]}_"), number) for name, number in members)


def _annotations(annotations: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in annotations.items() if (name, value) != ("autoid", "sequential")}


def _node(node: Node) -> Node:
    match node:
        case Typedef():
            return _node(node.element)
        case Octets():
            return Sequence(Primitive("octet"))
        case Sequence():
            return Sequence(_node(node.element), node.bound)
        case Array() | Maybe():
            return replace(node, element=_node(node.element))
        case _:
            return node
