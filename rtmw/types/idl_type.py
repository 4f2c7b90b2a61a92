"""MessageTypes of structs: from the class of an IdlStruct, from a plain class, or from the description alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rtmw.errors import RegionDamaged, UnsupportedType, ValueMismatch
from rtmw.types.classes import describe_class
from rtmw.types.codec import Explain, compile_codec, header_word
from rtmw.types.describe import describe
from rtmw.types.description import canonical, from_document, to_document
from rtmw.types.diagnose import explain
from rtmw.types.message_type import MessageType, make
from rtmw.types.plan import Plan, uncovered
from rtmw.types.rebuild import make_classes
from rtmw.types.reference import decode_slowly, encode_slowly
from rtmw.types.schema import Schema

if TYPE_CHECKING:
    from typing_extensions import Buffer as Lender


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
