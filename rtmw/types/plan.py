"""Questions about a schema that the encoder and the decoder ask alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rtmw.types.schema import (
    DEEPEST,
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
    children,
    code_of,
    nodes_of,
    references,
    strip,
)

INLINE_LENGTH: Final = 32
"""Arrays up to this length are packed together with their neighbours."""

_INLINE_LEAVES: Final = 600


@dataclass(frozen=True)
class Plan:
    """A schema, the classes of its definitions, and which of them get functions of their own."""

    schema: Schema
    classes: dict[str, Any]
    functions: frozenset[str]
    """Structs that contain themselves, or that would make the generated code too long; all others are inlined."""

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

    def flat(self, node: Node) -> bool:
        """Whether a value of `node` is one run without lengths, so that a row of them is regular."""
        node = strip(node)
        if number_of(node, self) is not None:
            return True
        if isinstance(node, Array):
            short = is_octet(node.element) or (0 < node.length <= INLINE_LENGTH and not self.sized(node))
            return short and number_of(node.element, self) is not None
        part = self.definition(node)
        if not isinstance(part, Struct) or not isinstance(node, Named) or node.name in self.functions:
            return False
        return not self.delimited(part) and all(self.flat(member.node) for member in part.fields)

    def function(self, verb: str, name: str) -> str:
        """What the generated function of a definition is called."""
        return f"{verb}_{sorted(self.functions).index(name)}"

    def branches(self, part: Union) -> dict[Any, int]:
        """The number of the branch of each label."""
        discriminator = strip(part.discriminator)
        cls = self.classes[discriminator.name] if isinstance(discriminator, Named) else None
        members = {member.value: member for member in cls} if cls else {}
        return {members.get(label, label): at for at, case in enumerate(part.cases) for label in case.labels}


def make_plan(schema: Schema, classes: dict[str, Any]) -> Plan:
    structs = {name for name, part in schema.types.items() if isinstance(part, Struct | Union)}
    own = {name for name in structs if name in _reach(schema, name)}
    deep = _loops(schema, Named(schema.name), {}) > DEEPEST
    if deep or _leaves(schema, schema.name, frozenset()) > _INLINE_LEAVES:
        own |= structs - {schema.name}
    return Plan(schema, classes, frozenset(own))


def uncovered(schema: Schema) -> str | None:
    """What the compiled codec leaves to cyclonedds' own; None when it covers all."""
    for name, part in schema.types.items():
        if isinstance(part, Struct | Union) and part.extensibility == "mutable":
            return f"{name} is mutable"
        for node in nodes_of(part):
            if isinstance(node, Map):
                return f"{name} has a map"
            if isinstance(node, Maybe) and schema.xcdr == 1:
                return f"{name} has an optional member in XCDR1"
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


def _reach(schema: Schema, name: str) -> set[str]:
    """The definitions that a definition leads to."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        for target in references(schema.types[ahead.pop()]):
            if target not in found:
                found.add(target)
                ahead.append(target)
    return found


def _loops(schema: Schema, node: Node, known: dict[str, int]) -> int:
    """How many loops lie within each other when everything is inlined."""
    if isinstance(node, Named):
        if node.name not in known:
            known[node.name] = 0
            members = children(schema.types[node.name])
            known[node.name] = max((_loops(schema, member, known) for member in members), default=0)
        return known[node.name]
    inner = max((_loops(schema, child, known) for child in children(node)), default=0)
    return inner + isinstance(node, Sequence | Array)


def _leaves(schema: Schema, name: str, within: frozenset[str]) -> int:
    """How many members the type has when everything is inlined, counted up to a little beyond the limit."""
    total = 0
    for node in nodes_of(schema.types[name]):
        total += 1
        if isinstance(node, Named) and node.name not in within and total <= _INLINE_LEAVES:
            total += _leaves(schema, node.name, within | {name})
    return total
