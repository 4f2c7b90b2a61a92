"""Questions about a schema that compiling it and explaining its errors ask alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rtmw.types.checks import shown_name
from rtmw.types.schema import (
    Array,
    Bitmask,
    Definition,
    Enumeration,
    Map,
    Maybe,
    Named,
    Node,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Union,
    code_of,
    nodes_of,
    strip,
)


@dataclass(frozen=True)
class Plan:
    """A schema, and the classes of its definitions."""

    schema: Schema
    classes: dict[str, Any]
    strict_enums: bool = False
    """Whether a number that no enumerator has is refused. Plain classes do; IdlStructs take it, as cyclonedds does."""

    @property
    def max_align(self) -> int:
        return 8 if self.schema.xcdr == 1 else 4

    def definition(self, node: Node) -> Definition | None:
        node = strip(node)
        return self.schema.types[node.name] if isinstance(node, Named) else None

    def delimited(self, part: Struct | Union) -> bool:
        return self.schema.xcdr == 2 and part.extensibility == "appendable"

    def sized(self, node: Sequence | Array) -> bool:
        """Whether cyclonedds puts a size in front: in XCDR2, unless the elements are numbers or characters.

        An array directly within an array shares the outer one's; its caller sees to that.
        """
        if self.schema.xcdr == 1:
            return False
        if isinstance(node, Sequence):
            return not (node.plain and isinstance(strip(node.element), Primitive))
        inner = strip(node.element)
        while isinstance(inner, Array):
            inner = strip(inner.element)
        return not isinstance(inner, Primitive)

    def branches(self, part: Union) -> dict[Any, int]:
        """The number of the branch of each label."""
        discriminator = strip(part.discriminator)
        cls = self.classes[discriminator.name] if isinstance(discriminator, Named) else None
        members = {member.value: member for member in cls} if cls else {}
        return {members.get(label, label): at for at, case in enumerate(part.cases) for label in case.labels}


def uncovered(schema: Schema) -> str | None:
    """The feature that the compiled codec leaves to cyclonedds' own; None when it covers all."""
    for name, part in schema.types.items():
        if isinstance(part, Struct | Union) and part.extensibility == "mutable":
            return f"{shown_name(name)} is mutable"
        for node in nodes_of(part):
            if isinstance(node, Map):
                return f"{shown_name(name)} has a map"
            if isinstance(node, Maybe) and schema.xcdr == 1:
                return f"{shown_name(name)} has an optional member in XCDR1"
    return None


def is_octet(node: Node) -> bool:
    node = strip(node)
    return isinstance(node, Primitive) and node.name in ("uint8", "octet")


def conversion(node: Node, plan: Plan) -> str:
    """How a number on the wire becomes a Python value: `number`, `boolean`, `char`, `enum` or `bitmask`."""
    part = plan.definition(node)
    if isinstance(part, Enumeration):
        return "enum"
    if isinstance(part, Bitmask):
        return "bitmask"
    node = strip(node)
    assert isinstance(node, Primitive)
    return node.name if node.name in ("boolean", "char") else "number"


def number_of(node: Node, plan: Plan) -> tuple[str, int] | None:
    return code_of(node, plan.schema)
