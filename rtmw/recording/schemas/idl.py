"""A schema as OMG IDL text: what a recording says of its types to readers that know nothing of rtmw.

The text describes the bytes. Where cyclonedds lays out a type otherwise than the annotations of its class would make
others expect, the text has what is on the wire; what no IDL says is refused, and the recording then has our own
description instead. Definitions come before their use, and names that IDL keeps for itself are escaped as it demands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from rtmw.errors import UnsupportedType
from rtmw.types.schema import (
    Array,
    Bitmask,
    Case,
    Definition,
    Enumeration,
    Field,
    Map,
    Maybe,
    Named,
    Node,
    Octets,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Typedef,
    Union,
    code_of,
    strip,
)

WORDS: Final = {
    "int8": "int8",
    "int16": "short",
    "int32": "long",
    "int64": "long long",
    "uint8": "uint8",
    "octet": "octet",
    "uint16": "unsigned short",
    "uint32": "unsigned long",
    "uint64": "unsigned long long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "char": "char",
    "wchar": "wchar",
}
"""Primitives as every IDL compiler knows them, also those older than `int32`."""

KEYWORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        abstract alias any attribute bitfield bitmask bitset boolean case char component connector const consumes
        context custom default double emits enum eventtype exception factory false final finder fixed float getraises
        home import in inout int16 int32 int64 int8 interface local long manages map mirrorport module multiple native
        object octet oneway out port porttype primarykey private provides public publishes raises readonly sequence
        setraises short string struct supports switch true truncatable typedef typeid typename typeprefix uint16 uint32
        uint64 uint8 union unsigned uses valuebase valuetype void wchar wstring
        """,
    )
)
"""Words that name nothing else, in whatever case they are written."""

_BOUND_OF_SIZE: Final = {1: 8, 2: 16, 4: None}


def to_idl(schema: Schema) -> str:
    """The IDL text of a schema. Raises UnsupportedType for what no IDL describes, and says what that is."""
    return _Writer(schema).text()


def escaped(name: str) -> str:
    """An identifier as IDL spells it."""
    return f"_{name}" if name.lower() in KEYWORDS else name


def in_full(name: str) -> str:
    """The name of a type as IDL spells it. Foxglove's parser looks for this one: it keeps the underscores."""
    return "::".join(map(escaped, name.split("::")))


def unescaped(name: str) -> str:
    """The name of a type without the underscores of `in_full`; one that has none stays as it is."""
    return "::".join(word[1:] if escaped(word[1:]) == word else word for word in name.split("::"))


def without_optional(schema: Schema) -> Schema:
    """The schema with a union in the place of each optional member, for readers that do not know `@optional`.

    In XCDR2 both are the same bytes: whether there is a value, and the value. Raises UnsupportedType elsewhere.
    """
    types = dict(schema.types)
    for owner, part in schema.types.items():
        if not isinstance(part, Struct) or not any(isinstance(member.node, Maybe) for member in part.fields):
            continue
        if schema.xcdr != 2 or part.extensibility == "mutable":
            raise UnsupportedType(f"{owner} has optional members in XCDR1, or is mutable: no reader without @optional")
        absent = _new(types, f"{owner}_absent", Struct(()))
        fields: list[Field] = []
        for member in part.fields:
            node = member.node
            if isinstance(node, Maybe):
                cases = Case("value", (True,), node.element), Case("absent", (), absent)
                node = _new(types, f"{owner}_{member.name}", Union(Primitive("boolean"), cases, False))
            fields.append(replace(member, node=node))
        types[owner] = replace(part, fields=tuple(fields))
    return replace(schema, types=types)


def _new(types: dict[str, Definition], name: str, part: Definition) -> Named:
    while name in types:
        name += "_"
    types[name] = part
    return Named(name)


class _Writer:
    """Collects definitions, each after those it is made of."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._forward: set[str] = set()
        self._aliases: dict[str, Node] = {}
        self._renamed = _clashing(schema)
        self._parts: list[tuple[tuple[str, ...], list[str]]] = []

    def text(self) -> str:
        self._define(self._schema.name)
        return "\n".join(_in_modules(self._parts)) + "\n"

    def _define(self, name: str) -> None:
        if name in self._begun:
            return
        self._begun.add(name)
        lines = self._definition(name, self._schema.types[name])
        self._ended.add(name)
        self._parts.append((_modules(name), lines))

    def _definition(self, name: str, part: Definition) -> list[str]:
        head = escaped(_last(name))
        match part:
            case Struct():
                members = [self._member(name, member, part) for member in part.fields]
                return [*_of_struct(part), f"struct {head} {{", *members, "};"]
            case Union():
                return self._union(name, head, part)
            case Enumeration():
                return self._enumeration(name, head, part)
            case Bitmask():
                bits = [self._numbered(name, "position", *bit) for bit in _after(part.bits)]
                return [f"@bit_bound({part.bit_bound})", f"bitmask {head} {{", *_with_commas(bits), "};"]

    def _member(self, owner: str, member: Field, struct: Struct) -> str:
        node, annotations = member.node, dict(member.annotations)
        if member.name in struct.annotations.get("keylist", ()):
            annotations["key"] = True
        words = [*_member_annotations(annotations)]
        if isinstance(node, Maybe):
            words.append("@optional")
            node = node.element
        declared = self._declare(owner, node, str(annotations.get("name", member.name)))
        if declared.startswith("::"):  # which an annotation would take for the rest of its name
            words = [word if word.endswith(")") else f"{word}(TRUE)" for word in words]
        return f"    {' '.join([*words, declared])};"

    def _union(self, owner: str, head: str, part: Union) -> list[str]:
        discriminator = self._type(owner, "discriminator", part.discriminator)
        lines = [*_of_struct(part), f"union {head} switch ({discriminator}) {{"]
        for case in part.cases:
            lines += [*self._labels(owner, part, case), f"        {self._declare(owner, case.node, case.name)};"]
        return [*lines, "};"]

    def _labels(self, owner: str, part: Union, case: Case) -> list[str]:
        if not case.labels:
            return ["    default:"]
        kind = strip(part.discriminator)
        return [f"    case {self._label(owner, kind, label)}:" for label in case.labels]

    def _label(self, owner: str, kind: Node, label: Any) -> str:
        definition = self._schema.types[kind.name] if isinstance(kind, Named) else None
        if isinstance(kind, Named) and isinstance(definition, Enumeration):
            name = next((name for name, value in definition.members if value == label), None)
            if name is None:
                raise UnsupportedType(f"IDL has no label {label!r} for a union of {kind.name}, which has no such value")
            *scope, _ = self._from(owner, kind.name).split("::")
            return "::".join([*scope, self._enumerator(kind.name, name)])
        if isinstance(label, bool):
            return "TRUE" if label else "FALSE"
        return _character(label) if isinstance(label, str) else str(label)

    def _enumeration(self, name: str, head: str, part: Enumeration) -> list[str]:
        code = code_of(Named(name), self._schema)
        assert code is not None
        if code[1] not in _BOUND_OF_SIZE:
            raise UnsupportedType(f"{name} travels in {code[1]} bytes, and an enum of IDL has at most 4")
        bound = _BOUND_OF_SIZE[code[1]]
        lines = [f"@bit_bound({bound})"] if bound else []
        members = [self._numbered(name, "value", *member) for member in _after(part.members)]
        return [*lines, f"enum {head} {{", *_with_commas(members), "};"]

    def _numbered(self, owner: str, annotation: str, member: str, value: int, following: int) -> str:
        """A name with its number, where that does not follow the one before."""
        return f"    {'' if value == following else f'@{annotation}({value}) '}{self._enumerator(owner, member)}"

    def _enumerator(self, owner: str, member: str) -> str:
        """Enumerators and bits share a scope with their type: a name that another one there has, too, gets longer."""
        return f"{_last(owner)}_{member}" if owner in self._renamed else escaped(member)

    def _declare(self, owner: str, node: Node, name: str) -> str:
        """A declarator: type, name, and the lengths of an array."""
        lengths = ""
        while isinstance(node, Array):
            if node.length == 0:
                raise UnsupportedType(f"{owner}.{name} is an array of no elements, which IDL has not")
            lengths += f"[{node.length}]"
            node = node.element
        return f"{self._type(owner, name, node)} {escaped(name)}{lengths}"

    def _type(self, owner: str, name: str, node: Node) -> str:
        match node:
            case Primitive():
                return WORDS[node.name]
            case Text(None):
                return "string"
            case Text(bound):
                return f"string<{bound}>"
            case Octets():
                return "sequence<octet>"
            case Sequence():
                return self._sequence(owner, name, node)
            case Array():
                return self._alias(owner, f"{owner}_{name}_element", node)
            case Typedef():
                return self._alias(owner, node.name, node.element)
            case Named():
                return self._reference(owner, node.name, behind_sequence=False)
            case Maybe():
                raise UnsupportedType(f"{owner}.{name} is optional within another type; IDL has optional members only")
            case Map():
                raise UnsupportedType(f"{owner}.{name} is a map, which has no place in DDS")

    def _sequence(self, owner: str, name: str, node: Sequence) -> str:
        element = node.element
        if not node.plain and self._schema.xcdr == 2 and isinstance(strip(element), Primitive):
            raise UnsupportedType(
                f"{owner}.{name} is a list of numbers in XCDR2, which cyclonedds lays out otherwise than a sequence of "
                "IDL; declare it as a sequence"
            )
        if isinstance(element, Named):
            inner = self._reference(owner, element.name, behind_sequence=True)
        else:
            inner = self._type(owner, name, element)
        gap = " " if inner.endswith(">") else ""
        return f"sequence<{inner}{gap}>" if node.bound is None else f"sequence<{inner}, {node.bound}>"

    def _reference(self, owner: str, name: str, *, behind_sequence: bool) -> str:
        self._define(name)
        if name not in self._ended and behind_sequence and name not in self._forward:
            self._forward.add(name)
            kind = "union" if isinstance(self._schema.types[name], Union) else "struct"
            self._parts.append((_modules(name), [f"{kind} {escaped(_last(name))};"]))
        return self._from(owner, name)

    def _from(self, owner: str, name: str) -> str:
        """How a definition is called from within another one, whose members hide what has their names."""
        part = self._schema.types.get(owner)
        hidden = {member.name for member in part.fields} if isinstance(part, Struct) else set[str]()
        hidden |= {case.name for case in part.cases} if isinstance(part, Union) else set[str]()
        if _modules(owner) == _modules(name) and _last(name) not in hidden:
            return escaped(_last(name))
        first = name.partition("::")[0]
        nested = any(first in other.split("::")[1:] for other in (*self._schema.types, *self._aliases))
        full = "::".join(escaped(word) for word in name.split("::"))
        return f"::{full}" if nested or first in hidden else full

    def _alias(self, owner: str, name: str, element: Node) -> str:
        """The name of a typedef; what it stands for, where the name already means something else."""
        if name in self._schema.types or self._aliases.setdefault(name, element) != element:
            if isinstance(strip(element), Array):
                raise UnsupportedType(f"{name} is the name of two different types")
            return self._type(name, "it", element)
        if name not in self._begun:
            self._begun.add(name)
            line = f"typedef {self._declare(name, element, _last(name))};"
            self._parts.append((_modules(name), [line]))
        return self._from(owner, name)


def _modules(name: str) -> tuple[str, ...]:
    return tuple(name.split("::")[:-1])


def _last(name: str) -> str:
    return name.rpartition("::")[2]


def _clashing(schema: Schema) -> set[str]:
    """Enums and bitmasks with a name inside that something else in their module has, too."""
    taken: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for name, part in schema.types.items():
        taken.setdefault((_modules(name), _last(name).lower()), set()).add("")
        for member, _ in (
            part.members if isinstance(part, Enumeration) else part.bits if isinstance(part, Bitmask) else ()
        ):
            taken.setdefault((_modules(name), member.lower()), set()).add(name)
    return {name for names in taken.values() if len(names) > 1 for name in names if name}


def _of_struct(part: Struct | Union) -> list[str]:
    annotations = [f"@{part.extensibility}"]
    if "autoid" in part.annotations:
        annotations.append(f"@autoid({str(part.annotations['autoid']).upper()})")
    if "xcdrv2" in part.annotations:
        annotations.append(f"@data_representation({'XCDR2' if part.annotations['xcdrv2'] else 'XCDR1'})")
    return [" ".join(annotations)]


def _member_annotations(annotations: dict[str, Any]) -> Iterator[str]:
    if annotations.get("key"):
        yield "@key"
    if "id" in annotations:
        yield f"@id({annotations['id']})"
    if "hash_id" in annotations:
        yield f'@hashid("{annotations["hash_id"]}")' if annotations["hash_id"] else "@hashid"
    if annotations.get("must_understand"):
        yield "@must_understand"


def _after(members: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """Each name and number, and the number that it would have if it were not written."""
    following = 0
    for name, value in members:
        yield name, value, following
        following = value + 1


def _with_commas(lines: list[str]) -> list[str]:
    return [*(f"{line}," for line in lines[:-1]), *lines[-1:]]


def _character(label: str) -> str:
    return f"'{label}'" if label.isprintable() and label not in "'\\" else f"'\\x{ord(label):02x}'"


def _in_modules(parts: Iterable[tuple[tuple[str, ...], list[str]]]) -> Iterator[str]:
    """The definitions in their modules, which are opened again as often as the order demands."""
    within: tuple[str, ...] = ()
    for modules, lines in parts:
        shared = 0
        while within[shared : shared + 1] == modules[shared : shared + 1] and shared < len(modules):
            shared += 1
        yield from ("    " * depth + "};" for depth in range(len(within) - 1, shared - 1, -1))
        yield from ("    " * depth + f"module {escaped(modules[depth])} {{" for depth in range(shared, len(modules)))
        yield from ("    " * len(modules) + line for line in lines)
        within = modules
    yield from ("    " * depth + "};" for depth in range(len(within) - 1, -1, -1))
