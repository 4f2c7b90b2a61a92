"""MessageTypes of structs: from the class of an IdlStruct, from a plain class, or from the description alone.

What the compiled codec leaves out, and foreign encodings, go through cyclonedds' own encoder and decoder. Where a value
does not fit, the fast way fails, and then the member that does not fit is found and named.

The decoder of cyclonedds trusts its input, because a C layer checks it elsewhere. Here nothing does, so a value only
counts when encoding it again gives the same bytes. Padding may have any bytes: the value is encoded over a copy of the
payload, which keeps those that no member has.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Mapping, MappingView, Set
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rtmw.errors import MessageError, RegionDamaged, TypeMismatch, UnsupportedType, ValueMismatch
from rtmw.types.checks import is_a, shown, shown_name, with_article
from rtmw.types.classes import BOOLEANS, describe, describe_class, enumerator_numbers, make_classes
from rtmw.types.codec import Explain, compile_codec, header_word
from rtmw.types.description import canonical, from_document, to_document
from rtmw.types.message_type import MessageType, make
from rtmw.types.schema import (
    Array,
    Map,
    Maybe,
    Named,
    Node,
    Octets,
    Plan,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Union,
    conversion,
    is_octet,
    number_of,
    strip,
    uncovered,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer as Lender


def encode_slowly(value: Any) -> bytes:
    """The payload as cyclonedds writes it."""
    payload: bytes = value.serialize()
    return payload


def decode_slowly(cls: Any, name: str, data: Lender) -> Any:
    """The value of a payload in any byte order and CDR version. Raises ValueMismatch."""
    payload = bytes(data)
    try:
        value = cls.deserialize(payload)
        again = _encode_like(value, payload)
    except Exception as error:  # struct.error, UnicodeDecodeError, AssertionError and plain Exception
        raise ValueMismatch(f"{name}: payload of {len(payload)} bytes is damaged: {error!r}") from error
    rest = payload[len(again) :]
    if payload[:2] != again[:2] or payload[4 : len(again)] != again[4:] or len(rest) > 3 or any(rest):
        raise ValueMismatch(f"{name}: payload of {len(payload)} bytes is damaged: its content contradicts itself")
    return value


def _encode_like(value: Any, payload: bytes) -> bytes:
    support: Any = import_module("cyclonedds.idl._support")
    order = support.Endianness.Little if payload[1] & 1 else support.Endianness.Big
    over = support.Buffer(payload)
    over.zero_out = lambda: None  # the encoder would take the bytes of the payload away
    again: bytes = value.serialize(buffer=over, endianness=order, use_version_2=payload[1] > 3)
    return again


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


def idl_type(cls: Any) -> MessageType:
    """The MessageType of an IdlStruct class. What the compiled codec does not cover goes through cyclonedds."""
    schema, classes = describe(cls)
    document = _document(cls, schema)
    if uncovered(schema):
        return _reference_type(cls, document, Plan(schema, classes))
    return _compiled_type(document, Plan(schema, classes), cls)


def class_type(cls: Any) -> MessageType:
    """The MessageType of a class of `dataclasses`, msgspec or pydantic: that of the IdlStruct with these members."""
    schema, classes = describe_class(cls)
    document = _document(cls, schema)
    if feature := uncovered(schema):
        raise UnsupportedType(f"{cls.__name__} cannot travel: {feature}; derive {cls.__name__} from IdlStruct, too")
    return _compiled_type(document, Plan(schema, classes, strict_enums=True), None)


def members_type(cls: Any, refused: Explain) -> MessageType:
    """The MessageType of a class, of which values are tuples of the class's members. `refused` makes the error of a
    tuple that could not be encoded."""
    schema, classes = describe_class(cls)
    document = _document(cls, schema)
    plan = Plan(schema, classes | {schema.name: tuple}, strict_enums=True)
    return _compiled_type(document, plan, None, refused)


def _document(cls: Any, schema: Schema) -> dict[str, Any]:
    """The description of a class, which others can read. Raises UnsupportedType."""
    document = to_document(schema)
    try:
        from_document(document)
    except RegionDamaged as error:
        raise UnsupportedType(f"{cls.__name__} cannot be described to others: {error}") from error
    return document


def idl_from_document(document: dict[str, Any]) -> MessageType:
    """The MessageType that a description names, with classes made for it.

    Where the compiled codec does not cover the type, values are the payload's bytes. Raises RegionDamaged.
    """
    return idl_and_plan(document)[0]


def idl_without_codec(document: dict[str, Any]) -> MessageType:
    """The MessageType that a description names, of which values are the payload's bytes. Raises RegionDamaged."""
    return make(canonical(document, from_document(document)), _octets, bytes)


def idl_and_plan(document: dict[str, Any]) -> tuple[MessageType, Plan | None]:
    """Returns the MessageType of a description, and the plan that it was compiled from; None in place of the plan
    where values are the payload's bytes. Raises RegionDamaged."""
    schema = from_document(document)
    document = canonical(document, schema)
    if uncovered(schema):
        return make(document, _octets, bytes), None
    try:
        plan = Plan(schema, _classes(schema))
        return _compiled_type(document, plan, None), plan
    except RecursionError as error:
        raise RegionDamaged(f"type description of {schema.shown_name!r} is nested too deeply") from error


def _classes(schema: Schema) -> dict[str, Any]:
    try:
        return make_classes(schema)
    except Exception as error:  # of the standard library, which says in its own ways what it makes no class of
        raise RegionDamaged(f"type description of {schema.shown_name!r} does not give classes: {error}") from error


def _octets(value: Any) -> bytes:
    return bytes(memoryview(value))


def _compiled_type(document: dict[str, Any], plan: Plan, original: Any, refused: Explain | None = None) -> MessageType:
    """`original` is the cyclonedds class, if there is one: it can read other encodings than our own. `refused` explains
    why a value could not be encoded; None: by its members."""
    name, word = plan.schema.shown_name, header_word(plan.schema)

    def rescue(data: memoryview, position: int, error: Exception) -> Any:
        if error.__traceback__ is not None:  # the codec itself is in C and leaves none
            raise ValueMismatch(f"{name}: the class refuses the values of the message: {error}") from error
        head = bytes(data[:2])
        if len(data) >= 4 and head != word.to_bytes(2, "little"):
            if original is not None:
                return decode_slowly(original, name, data)
            raise ValueMismatch(f"{name}: payload begins with {head.hex()}, an encoding that needs the type's class")
        raise ValueMismatch(
            f"{name}: payload of {len(data)} bytes is damaged at or after byte {position}: {error}"
        ) from error

    codec = compile_codec(plan, refused or (lambda value, error: explain(plan, value, error)), rescue)
    return make(document, codec.encode, codec.decode, codec)


def _reference_type(cls: Any, document: dict[str, Any], plan: Plan) -> MessageType:
    def encode(value: Any) -> bytes:
        try:
            if not isinstance(value, cls):
                raise TypeError
            return encode_slowly(value)
        except Exception as error:  # cyclonedds raises plain exceptions
            raise explain(plan, value, error) from error

    def decode(data: Lender) -> Any:
        return decode_slowly(cls, plan.schema.shown_name, data)

    return make(document, encode, decode)
