"""Schema to JSON and back. What is read back is checked first, because classes and programs are made from it.

    {"kind": "cdr", "name": "river::Reading", "xcdr": 1, "extensibility": "final",
     "fields": [["station", "string"], ["values", {"sequence": "double"}], ["at", {"type": "river::Time"}]],
     "types": {"river::Time": {"kind": "struct", "extensibility": "final", "fields": [["sec", "int64"]]}}}

Primitives have their names of IDL 4; a third entry of a field holds its annotations, such as `{"key": true}`.
"""

from __future__ import annotations

import re
from keyword import iskeyword
from typing import Any, Final

from rtmw.errors import RegionDamaged
from rtmw.types.schema import (
    CODES,
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
    references,
)

_TYPE_NAME: Final = re.compile(r"\w+(::\w+)*", re.ASCII)
_FIELD_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LIMIT: Final = 1 << 31


def to_document(schema: Schema) -> dict[str, Any]:
    """The JSON object of a schema."""
    types = {name: _definition(part) for name, part in schema.types.items() if name != schema.name}
    top = _definition(schema.top)
    return top | {"name": schema.name, "kind": "cdr", "xcdr": schema.xcdr, "types": types}


def from_document(document: dict[str, Any]) -> Schema:
    """The schema of a JSON object. Raises RegionDamaged when it is not one that `to_document` writes."""
    try:
        name = _checked(document["name"], _TYPE_NAME)
        parts = {_checked(key, _TYPE_NAME): _read_definition(part) for key, part in document["types"].items()}
        parts[name] = _read_struct(document)
        schema = Schema(name, document["xcdr"], parts)
        missing = {target for part in parts.values() for target in references(part)} - parts.keys()
        fault = f"undefined types {sorted(missing)}" if missing else fault_of(schema)
        if fault or schema.xcdr not in (1, 2):
            raise ValueError(fault or f"CDR version {schema.xcdr}")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise RegionDamaged(f"type description of {document.get('name')!r} is not valid: {error}") from error
    return schema


def _definition(part: Definition) -> dict[str, Any]:
    match part:
        case Struct():
            fields = [[m.name, _node(m.node), *([m.annotations] if m.annotations else [])] for m in part.fields]
            return {"kind": "struct", "fields": fields, "extensibility": part.extensibility} | part.annotations
        case Union():
            cases = [[case.name, list(case.labels), _node(case.node)] for case in part.cases]
            head = {"kind": "union", "discriminator": _node(part.discriminator), "implicit": part.implicit}
            return head | {"cases": cases, "extensibility": part.extensibility} | part.annotations
        case Enumeration():
            return {"kind": "enum", "members": [list(member) for member in part.members], "bit_bound": part.bit_bound}
        case Bitmask():
            return {"kind": "bitmask", "bits": [list(bit) for bit in part.bits], "bit_bound": part.bit_bound}


def _node(node: Node) -> Any:
    match node:
        case Primitive():
            return node.name
        case Text():
            return "string" if node.bound is None else {"string": node.bound}
        case Octets():
            return "bytes"
        case Sequence():
            bound = {} if node.bound is None else {"bound": node.bound}
            return {"sequence" if node.plain else "list": _node(node.element)} | bound
        case Array():
            return {"array": _node(node.element), "length": node.length}
        case Maybe():
            return {"optional": _node(node.element)}
        case Typedef():
            return {"typedef": _node(node.element), "as": node.name}
        case Map():
            return {"map": [_node(node.key), _node(node.value)]}
        case Named():
            return {"type": node.name}


def _checked(name: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(name, str) or not pattern.fullmatch(name) or iskeyword(name) or name.startswith("__"):
        raise ValueError(f"{name!r} is not a name")
    return name


def _count(number: Any, least: int = 0) -> int:
    if type(number) is not int or not least <= number < _LIMIT:
        raise ValueError(f"{number!r} is not a count")
    return number


def _read_definition(part: dict[str, Any]) -> Definition:
    match part["kind"]:
        case "struct":
            return _read_struct(part)
        case "union":
            return _read_union(part)
        case "enum":
            members = tuple((_checked(name, _FIELD_NAME), _number(value)) for name, value in part["members"])
            bound = part["bit_bound"]
            _distinct([name for name, _ in members])
            return Enumeration(members, None if bound is None else _bits(bound))
        case "bitmask":
            bits = tuple((_checked(name, _FIELD_NAME), _count(at)) for name, at in part["bits"])
            _distinct([name for name, _ in bits])
            return Bitmask(bits, _bits(part["bit_bound"]))
        case kind:
            raise ValueError(f"unknown kind {kind!r}")


def _read_struct(part: dict[str, Any]) -> Struct:
    fields = tuple(
        Field(_checked(name, _FIELD_NAME), _read_node(node), dict(notes[0]) if notes else {})
        for name, node, *notes in part["fields"]
    )
    _distinct([member.name for member in fields])
    return Struct(fields, _notes(part))


def _read_union(part: dict[str, Any]) -> Union:
    cases = tuple(
        Case(_checked(name, _FIELD_NAME), tuple(_scalar(label) for label in labels), _read_node(node))
        for name, labels, node in part["cases"]
    )
    _distinct([case.name for case in cases])
    _distinct([label for case in cases for label in case.labels])
    return Union(_read_node(part["discriminator"]), cases, _scalar(part["implicit"]), _notes(part))


def _notes(part: dict[str, Any]) -> dict[str, Any]:
    if part["extensibility"] not in ("final", "appendable", "mutable"):
        raise ValueError(f"extensibility {part['extensibility']!r}")
    return {key: part[key] for key in ("extensibility", "xcdrv2", "autoid", "keylist") if key in part}


def _read_node(node: Any) -> Node:
    if isinstance(node, str):
        if node in CODES:
            return Primitive(node)
        return Text() if node == "string" else _octets(node)
    match node:
        case {"string": bound}:
            return Text(_count(bound, 1))
        case {"sequence": element}:
            return Sequence(_read_node(element), _count(node["bound"], 1) if "bound" in node else None)
        case {"list": element}:
            return Sequence(_read_node(element), plain=False)
        case {"array": element, "length": length}:
            return Array(_read_node(element), _count(length))
        case {"optional": element}:
            return Maybe(_read_node(element))
        case {"typedef": element, "as": name}:
            return Typedef(_checked(name, _TYPE_NAME), _read_node(element))
        case {"map": [key, value]}:
            return Map(_read_node(key), _read_node(value))
        case {"type": name}:
            return Named(_checked(name, _TYPE_NAME))
        case _:
            raise ValueError(f"{node!r} is not a type")


def _octets(word: str) -> Octets:
    if word != "bytes":
        raise ValueError(f"{word!r} is not a type")
    return Octets()


def _bits(bound: Any) -> int:
    if not 1 <= _count(bound) <= 64:
        raise ValueError(f"bit bound {bound}")
    return int(bound)


def _number(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not an enumerator's value")
    return value


def _scalar(label: Any) -> Any:
    if not isinstance(label, int | str):
        raise ValueError(f"{label!r} is not a label")
    return label


def _distinct(names: list[Any]) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"names repeat among {names}")
