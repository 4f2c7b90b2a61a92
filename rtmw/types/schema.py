"""The structure of an IDL type, free of classes: what a description holds and what the codec is compiled from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from rtmw.types.checks import shown_name


@dataclass(frozen=True)
class Primitive:
    """A number, a boolean or a character, by its name in IDL."""

    name: str


@dataclass(frozen=True)
class Text:
    """`string`, with a bound in characters if it has one."""

    bound: int | None = None


@dataclass(frozen=True)
class Octets:
    """The Python type `bytes`: on the wire a sequence of octets."""


@dataclass(frozen=True)
class Sequence:
    """Any number of elements, up to `bound`. `plain` is False for `list[T]`, which cyclonedds lays out element-wise."""

    element: Node
    bound: int | None = None
    plain: bool = True
    as_array: bool = field(default=False, compare=False)
    """True: the member of the class is a numpy array. It changes nothing on the wire, and no description has it."""


@dataclass(frozen=True)
class Array:
    """Exactly `length` elements."""

    element: Node
    length: int


@dataclass(frozen=True)
class Maybe:
    """An optional member."""

    element: Node


@dataclass(frozen=True)
class Typedef:
    """Another name for a type; changes nothing on the wire."""

    name: str
    element: Node


@dataclass(frozen=True)
class Map:
    """A dict; travels, but is outside of DDS."""

    key: Node
    value: Node


@dataclass(frozen=True)
class Named:
    """A reference to a definition."""

    name: str


Node = Primitive | Text | Octets | Sequence | Array | Maybe | Typedef | Map | Named


@dataclass(frozen=True)
class Field:
    """A member of a struct, with its annotations (`key`, `id`, ...)."""

    name: str
    node: Node
    annotations: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Struct:
    fields: tuple[Field, ...]
    annotations: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def extensibility(self) -> str:
        return str(self.annotations.get("extensibility", "final"))


@dataclass(frozen=True)
class Case:
    """A branch of a union; no labels for the default."""

    name: str
    labels: tuple[Any, ...]
    node: Node


@dataclass(frozen=True)
class Union:
    discriminator: Node
    cases: tuple[Case, ...]
    implicit: Any
    """The discriminator that is sent when only the default branch was named."""
    annotations: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def extensibility(self) -> str:
        return str(self.annotations.get("extensibility", "final"))


@dataclass(frozen=True)
class Enumeration:
    members: tuple[tuple[str, int], ...]
    bit_bound: int | None = None


@dataclass(frozen=True)
class Bitmask:
    bits: tuple[tuple[str, int], ...]
    """Names and positions."""
    bit_bound: int = 32


Definition = Struct | Union | Enumeration | Bitmask


@dataclass(frozen=True)
class Schema:
    """A struct with all that it refers to, and the CDR version in which it travels."""

    name: str
    xcdr: int
    types: dict[str, Definition]

    @property
    def shown_name(self) -> str:
        """Its name in messages to people."""
        return shown_name(self.name)

    @property
    def top(self) -> Struct:
        top = self.types[self.name]
        assert isinstance(top, Struct)
        return top

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The fewest bytes that a value of each definition takes, computed once a schema; see `minimum_size`."""
        known: dict[str, int] = {}
        for name in _walk(self, self.types, _within).order:
            part = self.types[name]
            held = [m.node for m in part.fields] if isinstance(part, Struct) else [*children(part)][:1]
            known[name] = min(sum(_least(node, self, known) for node in held), LARGEST)
        return known


DEEPEST: Final = 12
"""Levels of sequences, arrays and the like in one member; what nests deeper was not written by a person."""
NESTED: Final = 64
"""Definitions within each other, through whatever kind of member."""
LARGEST: Final = (1 << 32) - 1
"""Where sizes stop growing: no payload is that large."""

CODES: Final = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint8": ("B", 1),
    "octet": ("B", 1),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "uint64": ("Q", 8),
    "float": ("f", 4),
    "double": ("d", 8),
    "boolean": ("?", 1),
    "char": ("b", 1),
    "wchar": ("h", 2),
}
"""Primitive by name: its `struct` code, and its size, which is also its alignment."""


def children(node: Node | Definition) -> Iterator[Node]:
    """The nodes of which a node or definition is directly made."""
    match node:
        case Sequence() | Array() | Maybe() | Typedef():
            yield node.element
        case Map():
            yield node.key
            yield node.value
        case Struct():
            yield from (member.node for member in node.fields)
        case Union():
            yield node.discriminator
            yield from (case.node for case in node.cases)
        case _:
            return


def references(node: Node | Definition) -> Iterator[str]:
    """Names of the definitions that a node refers to directly."""
    if isinstance(node, Named):
        yield node.name
    for child in children(node):
        yield from references(child)


def strip(node: Node) -> Node:
    """The node behind its typedefs."""
    while isinstance(node, Typedef):
        node = node.element
    return node


def code_of(node: Node, schema: Schema) -> tuple[str, int] | None:
    """`struct` code and size of what travels as one number; None for everything else."""
    node = strip(node)
    if isinstance(node, Primitive):
        return CODES[node.name]
    definition = schema.types[node.name] if isinstance(node, Named) else None
    if isinstance(definition, Bitmask):
        bound = definition.bit_bound
        return ("B", 1) if bound < 9 else ("H", 2) if bound < 17 else ("I", 4) if bound < 33 else ("Q", 8)
    if isinstance(definition, Enumeration):
        if definition.bit_bound is None or schema.xcdr == 1:
            return ("I", 4)
        # cyclonedds picks by floor(log2(bound)) - 3, wrapping below 8: its bytes are the rule here
        return (("B", 1), ("H", 2), ("I", 4), ("Q", 8))[definition.bit_bound.bit_length() - 4]
    return None


def minimum_size(node: Node, schema: Schema) -> int:
    """The fewest bytes that a value takes, padding left out; a bound for counts found in data. At most LARGEST."""
    return _least(node, schema, schema.sizes)


def _least(node: Node, schema: Schema, known: dict[str, int]) -> int:
    """The fewest bytes that a value takes, at most LARGEST. `known`: the sizes of definitions; one that is missing
    counts as 0."""
    node = strip(node)
    code = code_of(node, schema)
    if code is not None:
        return code[1]
    match node:
        case Text():
            return 5
        case Octets() | Sequence() | Map():
            return 4
        case Maybe():
            return 1
        case Array():
            return min(node.length * _least(node.element, schema, known), LARGEST)
        case Named():
            return known.get(node.name, 0)
        case _:
            return 0


def nodes_of(part: Node | Definition) -> Iterator[Node]:
    """All nodes below, not following references."""
    for child in children(part):
        yield child
        yield from nodes_of(child)


def fault_of(schema: Schema) -> str | None:
    """Why no value of the schema can be encoded safely; None when all is well."""
    for name, definition in schema.types.items():
        if depth_of(definition) > DEEPEST:
            return f"{name} has sequences or arrays nested more than {DEEPEST} deep"
    if _walk(schema, schema.types, _within).loops:
        return "a struct contains itself without a sequence or optional between"
    if _walk(schema, [schema.name], references).depth > NESTED:
        return f"its definitions are nested more than {NESTED} deep"
    for name, definition in schema.types.items():
        for node in nodes_of(definition):
            if isinstance(node, Sequence) and minimum_size(node.element, schema) == 0:
                return f"{name} has a sequence of elements without content"
    return None


def depth_of(node: Node | Definition) -> int:
    """How deep sequences and the like are nested."""
    return max((depth_of(child) + 1 for child in children(node)), default=0)


class _Walk(NamedTuple):
    """Definitions in the order in which they end: each behind those that it leads to."""

    order: list[str]
    loops: bool
    """Whether a definition leads to itself."""
    depth: int
    """Definitions within each other, as they are first come to."""


def _walk(schema: Schema, starts: Iterable[str], targets: Callable[[Definition], Iterator[str]]) -> _Walk:
    """Walks from definition to definition, each once. It is no recursion: it is here that their depth is found out."""
    ended: dict[str, None] = {}
    loops, depth = False, 0
    for start in starts:
        path: dict[str, Iterator[str]] = {} if start in ended else {start: targets(schema.types[start])}
        while path:
            depth = max(depth, len(path))
            name, ahead = next(reversed(path.items()))
            target = next((one for one in ahead if one not in ended), None)
            if target is None:
                ended[name] = None
                path.popitem()
            elif target in path:
                loops = True
            else:
                path[target] = targets(schema.types[target])
    return _Walk([*ended], loops, depth)


def _within(part: Definition) -> Iterator[str]:
    """The definitions of which each value of this one holds a value; of a union, what tells its branches apart."""
    match part:
        case Struct():
            for member in part.fields:
                yield from _direct(member.node)
        case Union():
            yield from _direct(part.discriminator)
        case _:
            return


def _direct(node: Node) -> Iterator[str]:
    node = strip(node)
    if isinstance(node, Named):
        yield node.name
    elif isinstance(node, Array):
        yield from _direct(node.element)


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
