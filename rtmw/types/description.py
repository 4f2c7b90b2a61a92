"""Schema to JSON and back. What is read back is checked first, because classes and programs are made from it.

    {"kind": "cdr", "name": "river::Reading", "xcdr": 1, "extensibility": "final",
     "fields": [["station", "string"], ["values", {"sequence": "double"}], ["at", {"type": "river::Time"}]],
     "types": {"river::Time": {"kind": "struct", "extensibility": "final", "fields": [["sec", "int64"]]}}}

Primitives have their names of IDL 4; a third entry of a field holds its annotations, such as `{"key": true}`.
`checks.py` has the limits of what a description may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rtmw.errors import RegionDamaged
from rtmw.types import checks
from rtmw.types.schema import (
    CODES,
    DEEPEST,
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
    fault_of,
    nodes_of,
    references,
    strip,
)

_ENUM_RANGE: Final = -(1 << 31), (1 << 32) - 1
"""The least and the largest value of an enumerator: 32 bits, with a sign or without one."""


def to_document(schema: Schema) -> dict[str, Any]:
    """The JSON object of a schema."""
    types = {name: _definition(part, schema.xcdr) for name, part in schema.types.items() if name != schema.name}
    top = _definition(schema.top, schema.xcdr)
    return top | {"name": schema.name, "kind": "cdr", "xcdr": schema.xcdr, "types": types}


def canonical(document: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The document of a schema that was read from this one; older versions of rtmw wrote each list as `list`."""
    has_list = any(isinstance(node, Sequence) and not node.plain for p in schema.types.values() for node in nodes_of(p))
    return to_document(schema) if has_list else document


def from_document(document: dict[str, Any]) -> Schema:
    """The schema of a JSON object. Raises RegionDamaged when it is not one that `to_document` writes."""
    try:
        schema = _Reader().schema(document)
        missing = {target for part in schema.types.values() for target in references(part)} - schema.types.keys()
        fault = f"undefined types {', '.join(sorted(missing)[:8])}" if missing else None
        fault = fault or next(filter(None, (_union_fault(part, schema) for part in schema.types.values())), None)
        if fault := fault or fault_of(schema):
            raise ValueError(fault)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        name = checks.shown(document.get("name"))
        raise RegionDamaged(f"type description of {name} is not valid: {_words(error)}") from error
    return schema


def _words(error: Exception) -> str:
    return f"it has no {checks.shown(error.args[0])}" if isinstance(error, KeyError) else str(error)


def _definition(part: Definition, xcdr: int) -> dict[str, Any]:
    match part:
        case Struct():
            fields = [[m.name, _node(m.node, xcdr), *([m.annotations] if m.annotations else [])] for m in part.fields]
            return {"kind": "struct", "fields": fields, "extensibility": part.extensibility} | part.annotations
        case Union():
            cases = [[case.name, list(case.labels), _node(case.node, xcdr)] for case in part.cases]
            head = {"kind": "union", "discriminator": _node(part.discriminator, xcdr), "implicit": part.implicit}
            return head | {"cases": cases, "extensibility": part.extensibility} | part.annotations
        case Enumeration():
            return {"kind": "enum", "members": [list(member) for member in part.members], "bit_bound": part.bit_bound}
        case Bitmask():
            return {"kind": "bitmask", "bits": [list(bit) for bit in part.bits], "bit_bound": part.bit_bound}


def _node(node: Node, xcdr: int) -> Any:
    match node:
        case Primitive():
            return node.name
        case Text():
            return "string" if node.bound is None else {"string": node.bound}
        case Octets():
            return "bytes"
        case Sequence():
            bound = {} if node.bound is None else {"bound": node.bound}
            # a list of anything has the bytes of a sequence, but for numbers in XCDR2: there it has a size in front
            is_sequence = node.plain or xcdr == 1 or not isinstance(strip(node.element), Primitive)
            return {"sequence" if is_sequence else "list": _node(node.element, xcdr)} | bound
        case Array():
            return {"array": _node(node.element, xcdr), "length": node.length}
        case Maybe():
            return {"optional": _node(node.element, xcdr)}
        case Typedef():
            return {"typedef": _node(node.element, xcdr), "as": node.name}
        case Map():
            return {"map": [_node(node.key, xcdr), _node(node.value, xcdr)]}
        case Named():
            return {"type": node.name}


class _Reader:
    """Reads the definitions of one description, and counts what they hold."""

    def __init__(self) -> None:
        self._members = 0

    def schema(self, document: dict[str, Any]) -> Schema:
        name = checks.type_name(document["name"])
        types = checks.record(document["types"], "the definitions of a type")
        if len(types) >= checks.TYPES:
            raise ValueError(f"it has {len(types) + 1} definitions; at most {checks.TYPES} may be")
        if name in types:
            raise ValueError(f"{name} is defined twice")
        parts = {checks.type_name(key): self._definition(part) for key, part in types.items()}
        parts[name] = self._struct(document)
        return Schema(name, checks.number(document["xcdr"], 1, 2, "a version of CDR"), parts)

    def _rows(self, part: dict[str, Any], key: str, *lengths: int) -> list[list[Any]]:
        """The members of a definition: arrays of one of these lengths."""
        rows = checks.row(part[key], key)
        self._count(len(rows))
        return [checks.row(member, "a member", min(lengths), max(lengths)) for member in rows]

    def _count(self, members: int) -> None:
        self._members += members
        if self._members > checks.MEMBERS:
            raise ValueError(f"it has more than {checks.MEMBERS} members, labels, enumerators and bits")

    def _definition(self, given: Any) -> Definition:
        part = checks.record(given, "a definition")
        match part["kind"]:
            case "struct":
                return self._struct(part)
            case "union":
                return self._union(part)
            case "enum":
                return self._enumeration(part)
            case "bitmask":
                return self._bitmask(part)
            case kind:
                raise ValueError(f"{checks.shown(kind)} is no kind of definition")

    def _struct(self, part: dict[str, Any]) -> Struct:
        fields = tuple(
            Field(checks.member_name(name), _read_node(node), checks.of_member(annotations[0]) if annotations else {})
            for name, node, *annotations in self._rows(part, "fields", 2, 3)
        )
        checks.distinct((member.name for member in fields), "member")
        return Struct(fields, checks.of_struct(part))

    def _union(self, part: dict[str, Any]) -> Union:
        cases = tuple(
            Case(checks.member_name(name), self._labels(labels), _read_node(node))
            for name, labels, node in self._rows(part, "cases", 3)
        )
        checks.distinct((case.name for case in cases), "branch")
        checks.distinct((label for case in cases for label in case.labels), "label")
        if sum(not case.labels for case in cases) > 1:
            raise ValueError("a union has two default branches")
        return Union(_read_node(part["discriminator"]), cases, _scalar(part["implicit"]), checks.of_struct(part))

    def _labels(self, labels: Any) -> tuple[Any, ...]:
        self._count(len(checks.row(labels, "the labels of a branch")))
        return tuple(_scalar(label) for label in labels)

    def _enumeration(self, part: dict[str, Any]) -> Enumeration:
        members = tuple(
            (checks.enumerator_name(name), checks.number(value, *_ENUM_RANGE, "an enumerator's value"))
            for name, value in self._rows(part, "members", 2)
        )
        checks.distinct((name for name, _ in members), "enumerator")
        if not members:
            raise ValueError("an enum has no enumerators")
        bound = part["bit_bound"]
        return Enumeration(members, None if bound is None else checks.bit_bound(bound))

    def _bitmask(self, part: dict[str, Any]) -> Bitmask:
        bound = checks.bit_bound(part["bit_bound"])
        bits = tuple(
            (checks.member_name(name), checks.number(at, 0, bound - 1, f"the position of one of {bound} bits"))
            for name, at in self._rows(part, "bits", 2)
        )
        checks.distinct((name for name, _ in bits), "bit")
        checks.distinct((at for _, at in bits), "position")
        return Bitmask(bits, bound)


def _read_node(node: Any, level: int = 1) -> Node:
    if level > DEEPEST:
        raise ValueError(f"sequences or arrays are nested more than {DEEPEST} deep")
    if isinstance(node, str):
        return _read_word(node)
    part = checks.record(node, "a type")
    match part:
        case {"string": bound, **others}:
            made: Node = Text(checks.count(bound, 1))
        case {"sequence": element, **others}:
            bound = others.pop("bound", None)
            made = Sequence(_read_node(element, level + 1), None if bound is None else checks.count(bound, 1))
        case {"list": element, **others}:
            made = Sequence(_read_node(element, level + 1), plain=False)
        case {"array": element, "length": length, **others}:
            made = Array(_read_node(element, level + 1), checks.count(length))
        case {"optional": element, **others}:
            made = Maybe(_read_node(element, level + 1))
            if isinstance(strip(made.element), Maybe):
                raise ValueError("an optional member is optional again")
        case {"typedef": element, "as": name, **others}:
            made = Typedef(checks.type_name(name), _read_node(element, level + 1))
        case {"map": [key, value], **others}:
            made = Map(_read_node(key, level + 1), _read_node(value, level + 1))
        case {"type": name, **others}:
            made = Named(checks.type_name(name))
        case _:
            raise ValueError(f"{checks.shown(node)} is not a type")
    if others:
        raise ValueError(f"{checks.shown(node)} is not a type")
    return made


def _read_word(word: str) -> Node:
    if word in CODES:
        return Primitive(word)
    if word not in ("string", "bytes"):
        raise ValueError(f"{checks.shown(word)} is not a type")
    return Text() if word == "string" else Octets()


def _scalar(label: Any) -> Any:
    """A number, a boolean or a character; which of them the discriminator takes is asked when all types are known."""
    if type(label) not in (bool, int, str) or (isinstance(label, str) and len(label) != 1):
        raise ValueError(f"{checks.shown(label)} is not a label")
    return label


def _union_fault(part: Definition, schema: Schema) -> str | None:
    """Why a union cannot be read: its discriminator is no number, or a label is none of its values."""
    if not isinstance(part, Union):
        return None
    kind = strip(part.discriminator)
    labels = [label for case in part.cases for label in case.labels]
    if isinstance(kind, Named):
        enum = schema.types[kind.name]
        if not isinstance(enum, Enumeration):
            return f"a union switches on {kind.name}, which is no enum"
        values = {value for _, value in enum.members}
        strange = [label for label in labels if label not in values]
        strange += [] if isinstance(part.implicit, int) else [part.implicit]
    elif isinstance(kind, Primitive) and kind.name in _LABELS:
        strange = [label for label in (*labels, part.implicit) if not _LABELS[kind.name](label)]
    else:
        return f"a union switches on {checks.shown(_node(kind, 1))}"
    return f"{checks.shown(strange[0])} is no label of a union of {kind.name}" if strange else None


def _is_character(label: Any) -> bool:
    return isinstance(label, str) and label.isascii()


def _is_wide_character(label: Any) -> bool:
    return isinstance(label, str) or -(1 << 15) <= label < 1 << 15


def _is_in(least: int, most: int) -> Callable[[Any], bool]:
    return lambda label: isinstance(label, int) and least <= label <= most


_LABELS: Final[dict[str, Callable[[Any], bool]]] = {
    name: _is_in(0, (1 << 8 * size) - 1) if code.isupper() else _is_in(-1 << 8 * size - 1, (1 << 8 * size - 1) - 1)
    for name, (code, size) in CODES.items()
    if code in "bhiqBHIQ"
} | {
    "boolean": _is_in(0, 1),
    "char": _is_character,
    "wchar": _is_wide_character,
}
"""For each type of a union's discriminator: whether it can have a value. True is 1 here, as it is to cyclonedds."""
