"""Values of a type that is known by its description only, made from plain data as JSON has it.

The form is that of `rtmw topic echo`: an object for a struct, `{"discriminator": ..., "value": ...}` for a union, the
name of an enumerator, an object of booleans for a bitmask, and text or `{"hex": ...}` for bytes. A topic of `str` has
the text itself, one of `dict` the JSON value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rtmw.errors import TypeMismatch, UnsupportedType, ValueMismatch
from rtmw.text.strict_json import NOT_FINITE
from rtmw.types import resolve
from rtmw.types.checks import is_a, shown_name
from rtmw.types.idl_type import idl_and_plan
from rtmw.types.message_type import MessageType, read_document
from rtmw.types.schema import (
    CODES,
    Array,
    Bitmask,
    Enumeration,
    Maybe,
    Named,
    Node,
    Octets,
    Plan,
    Primitive,
    Sequence,
    Struct,
    Union,
    is_octet,
    strip,
)

Make = Callable[[Any], Any]


def maker(description: bytes) -> tuple[MessageType, Make]:
    """The type of a description, and what makes a value of it from plain data.

    The latter raises TypeMismatch or ValueMismatch for another structure; what is wrong with a single number or text is
    said when the value is encoded. Raises RegionDamaged, and UnsupportedType for a type that needs its class.
    """
    document = read_document(description)
    if document.get("kind") == "numpy":
        from rtmw.types.numpy_type import numpy_maker

        return numpy_maker(document)
    kind, plan = idl_and_plan(document)
    for own in map(resolve, (str, dict)):
        if own.identity == kind.identity:
            return own, lambda plain: plain
    if plan is None:
        raise UnsupportedType(f"{shown_name(kind.name)} cannot be made without its class")
    top = Named(plan.schema.name)
    return kind, lambda plain: _value(plan, top, plain, plan.schema.shown_name)


def _value(plan: Plan, node: Node, plain: Any, path: str) -> Any:
    node = strip(node)
    match node:
        case Primitive():
            return _number(node, plain)
        case Octets():
            return _octets(plain)
        case Sequence() | Array():
            return _row(plan, node, plain, path)
        case Maybe():
            return None if plain is None else _value(plan, node.element, plain, path)
        case Named():
            return _named(plan, node, plain, path)
        case _:
            return plain


def _number(node: Primitive, plain: Any) -> Any:
    if CODES[node.name][0] in "fd":
        return float(plain) if isinstance(plain, str) and plain in NOT_FINITE else plain
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _octets(plain: Any) -> Any:
    """Bytes of text, of `{"hex": ...}`, or of a list of numbers; what is neither is left for the encoder to refuse."""
    try:
        if is_a(plain, str):
            return plain.encode()
        if is_a(plain, dict):
            return bytes.fromhex(plain["hex"])
        return bytes(plain) if is_a(plain, list) else plain
    except (TypeError, ValueError, KeyError):
        return plain


def _row(plan: Plan, node: Sequence | Array, plain: Any, path: str) -> Any:
    if is_octet(node.element) and is_a(plain, str, dict):
        return _octets(plain)
    if not is_a(plain, list):
        raise TypeMismatch(f"{path}: expected a list, found {plain!r}")
    return [_value(plan, node.element, one, f"{path}[{index}]") for index, one in enumerate(plain)]


def _named(plan: Plan, node: Named, plain: Any, path: str) -> Any:
    part, cls = plan.schema.types[node.name], plan.classes[node.name]
    if isinstance(part, Enumeration):
        return _enumerator(cls, plain, path)
    if not is_a(plain, dict):
        raise TypeMismatch(f"{path}: expected an object of {shown_name(node.name)}, found {plain!r}")
    match part:
        case Struct():
            return _struct(plan, part, cls, plain, path)
        case Union():
            return _union(plan, part, cls, plain, path)
        case Bitmask():
            bits = [bit for bit, _ in part.bits]
            _check_names(plain, bits, path)
            return cls(**{bit: plain.get(bit, False) for bit in bits})


def _enumerator(cls: Any, plain: Any, path: str) -> Any:
    for member in cls:
        if plain == member.name or (type(plain) is int and plain == member.value):
            return member
    raise ValueMismatch(f"{path}: there is no {plain!r}; there are {', '.join(member.name for member in cls)}")


def _struct(plan: Plan, part: Struct, cls: Any, given: dict[str, Any], path: str) -> Any:
    _check_names(given, [member.name for member in part.fields], path)
    needed = [member.name for member in part.fields if not isinstance(strip(member.node), Maybe)]
    if missing := [name for name in needed if name not in given]:
        raise ValueMismatch(f"{path}: {', '.join(missing)} not set")
    return cls(**{m.name: _value(plan, m.node, given.get(m.name), f"{path}.{m.name}") for m in part.fields})


def _union(plan: Plan, part: Union, cls: Any, given: dict[str, Any], path: str) -> Any:
    _check_names(given, ["discriminator", "value"], path)
    label, content = given.get("discriminator"), given.get("value")
    if label is not None:
        label = _value(plan, part.discriminator, label, f"{path}.discriminator")
    branch = plan.branches(part).get(label, -1)
    for index, case in enumerate(part.cases):
        if branch == (index if case.labels else -1):
            content = _value(plan, case.node, content, f"{path}.{case.name}")
    return cls(label, content)


def _check_names(given: dict[str, Any], names: list[str], path: str) -> None:
    if strange := [name for name in given if name not in names]:
        raise ValueMismatch(f"{path}: there is no {', '.join(strange)}; there are {', '.join(names)}")
