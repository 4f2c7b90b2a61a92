"""Finds which member of a value does not fit, after the fast way has failed, and says so."""

from __future__ import annotations

import operator
import struct
from collections.abc import Mapping, MappingView, Set
from typing import Any, Final

from rtmw.errors import MessageError, TypeMismatch, ValueMismatch
from rtmw.types.checks import is_a, shown, shown_name, with_article
from rtmw.types.convert import BOOLEANS, enumerator_numbers
from rtmw.types.plan import Plan, conversion, is_octet, number_of
from rtmw.types.schema import Array, Map, Maybe, Named, Node, Octets, Primitive, Sequence, Struct, Text, Union, strip

_NAMED: Final = 8
"""Enumerators that an error names."""


def explain(plan: Plan, value: Any, error: Exception) -> MessageError:
    """The error to raise for a value that could not be encoded because of `error`."""
    name = plan.schema.shown_name
    cls = plan.classes[plan.schema.name]
    if not isinstance(value, cls):
        return TypeMismatch(f"expected a value of {name} ({full_name(cls)}), not {full_name(type(value))}")
    try:
        _check_struct(plan, plan.schema.top, value, name)
    except MessageError as found:
        return found
    except RecursionError:
        return ValueMismatch(f"{name}: the value is nested too deeply")
    return ValueMismatch(f"{name}: the value cannot be encoded: {error}")


def full_name(cls: Any) -> str:
    """Module and name of a class."""
    return str(cls.__qualname__) if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _check(plan: Plan, node: Node, value: Any, path: str) -> None:
    node = strip(node)
    if number_of(node, plan) is not None:
        _check_number(plan, node, value, path)
        return
    match node:
        case Text():
            _check_text(node, value, path)
        case Octets():
            _check_octets(value, path)
        case Sequence() | Array():
            _check_row(plan, node, value, path)
        case Maybe():
            if value is not None:
                _check(plan, node.element, value, path)
        case Map():
            _check_map(plan, node, value, path)
        case Named():
            part = plan.schema.types[node.name]
            _check_class(plan, node.name, value, path)
            if isinstance(part, Struct):
                _check_struct(plan, part, value, path)
            elif isinstance(part, Union):
                _check_union(plan, part, value, path)
        case _:
            return


def _check_class(plan: Plan, name: str, value: Any, path: str) -> None:
    if not isinstance(value, plan.classes[name]):
        raise TypeMismatch(f"{path}: expected {with_article(full_name(plan.classes[name]))}, found {shown(value)}")


def _check_struct(plan: Plan, part: Struct, value: Any, path: str) -> None:
    for member in part.fields:
        if not hasattr(value, member.name):
            raise ValueMismatch(f"{path}.{member.name}: not set")
        _check(plan, member.node, getattr(value, member.name), f"{path}.{member.name}")


def _check_union(plan: Plan, part: Union, value: Any, path: str) -> None:
    label, content = value.get()
    _check(plan, part.discriminator, part.implicit if label is None else label, f"{path}.discriminator")
    branch = plan.branches(part).get(label, -1)
    for index, case in enumerate(part.cases):
        if branch == (index if case.labels else -1):
            _check(plan, case.node, content, f"{path}.{case.name}")


def _check_number(plan: Plan, node: Node, value: Any, path: str) -> None:
    code = number_of(node, plan)
    assert code is not None
    assert isinstance(node, Primitive | Named)
    word, kind = shown_name(node.name), conversion(node, plan)
    if kind == "boolean":
        fits = _is_boolean(value)
    elif kind == "char":
        fits = isinstance(value, str)
    elif kind in ("enum", "bitmask"):
        assert isinstance(node, Named)
        fits = isinstance(value, plan.classes[node.name]) or (kind == "enum" and type(value) is int)
    else:
        fits = _is_float(value) if code[0] in "fd" else _is_int(value)
    if not fits:
        raise TypeMismatch(f"{path}: expected a value of {word}, found {shown(value)}")
    if kind == "enum" and type(value) is int and plan.strict_enums:
        assert isinstance(node, Named)
        _check_enumerator(plan.classes[node.name], word, value, path)
    _check_range(kind, code[0], word, value, path)


def _check_enumerator(cls: Any, word: str, number: int, path: str) -> None:
    numbers = enumerator_numbers(cls)
    if number not in numbers.values():
        first = ", ".join(f"{member.name} = {known}" for member, known in [*numbers.items()][:_NAMED])
        more = ", ..." if len(numbers) > _NAMED else ""
        raise ValueMismatch(f"{path}: {word} has no number {number}; it has {first}{more}")


def _check_range(kind: str, code: str, word: str, value: Any, path: str) -> None:
    if kind in ("boolean", "bitmask"):
        return
    try:
        number = ord(value) if kind == "char" else value
        if kind == "enum" and type(value) is not int:
            number = enumerator_numbers(type(value))[value]
        struct.pack("<" + code, number)
    except (struct.error, OverflowError, TypeError) as error:
        raise ValueMismatch(f"{path}: {shown(value)} does not fit {with_article(word)}") from error


def _check_text(node: Text, value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise TypeMismatch(f"{path}: expected a string, found {shown(value)}")
    if node.bound is not None and len(value) > node.bound:
        raise ValueMismatch(f"{path}: {shown(value)} has {len(value)} characters; at most {node.bound} fit")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueMismatch(f"{path}: {shown(value)} is not valid Unicode: {error.reason}") from error


def _check_octets(value: Any, path: str) -> None:
    try:
        bytes(memoryview(value))
    except TypeError as error:
        raise TypeMismatch(f"{path}: expected bytes, found {shown(value)}") from error


def _check_row(plan: Plan, node: Sequence | Array, value: Any, path: str) -> None:
    try:
        length, elements = len(value), _elements(node, value)
    except TypeError as error:
        found = f"{shown(value)}, {with_article(type(value).__name__)}"
        raise TypeMismatch(f"{path}: expected a list, found {found}") from error
    if isinstance(node, Array) and length != node.length:
        raise ValueMismatch(f"{path}: {shown(value)} has {length} elements; exactly {node.length} are needed")
    if isinstance(node, Sequence) and node.bound is not None and length > node.bound:
        raise ValueMismatch(f"{path}: {shown(value)} has {length} elements; at most {node.bound} fit")
    for index, element in enumerate(elements):
        _check(plan, node.element, element, f"{path}[{index}]")


def _elements(node: Sequence | Array, value: Any) -> list[Any]:
    """The elements of what `row_open` of the codec takes for a row. Raises TypeError."""
    element = strip(node.element)
    is_char = isinstance(element, Primitive) and element.name == "char"
    if (
        is_a(value, Set, Mapping, MappingView)
        or (is_a(value, str) and not is_char)
        or (is_a(value, bytes, bytearray) and not is_octet(element))
    ):
        raise TypeError
    return list(value)


def _check_map(plan: Plan, node: Map, value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise TypeMismatch(f"{path}: expected a dict, found {shown(value)}")
    for key, element in value.items():  # pyright: ignore[reportUnknownVariableType] (the user's dict)
        _check(plan, node.key, key, f"{path} key")
        _check(plan, node.value, element, f"{path}[{shown(key)}]")


def _is_boolean(value: Any) -> bool:
    try:
        return value in BOOLEANS
    except TypeError:
        return False


def _is_int(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_float(value: Any) -> bool:
    return not isinstance(value, str | bytes) and (_is_int(value) or hasattr(value, "__float__"))
