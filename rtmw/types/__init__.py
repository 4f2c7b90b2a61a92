"""Bytes to values and back: `bytes` as they are, numpy arrays in place, objects of classes as CDR.

    kind = resolve(Reading)                       # a MessageType, made once per class
    payload = kind.encode(Reading("A1", 7.4))
    other = from_description(kind.description)    # in a program that has no class Reading
    other.decode(payload).station

Nothing of numpy, cyclonedds, msgspec or pydantic is imported before a type of theirs is met.
"""

from __future__ import annotations

from typing import Annotated, Any

from rtmw.errors import RegionDamaged, UnsupportedType
from rtmw.types.checks import shown, shown_name
from rtmw.types.message_type import ANY, RAW, AnyType, MessageType, read_document

__all__ = [
    "ANY",
    "AnyType",
    "MessageType",
    "carried_type",
    "float32",
    "float64",
    "from_description",
    "int8",
    "int16",
    "int32",
    "int64",
    "resolve",
    "shown_name",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

# Numbers of a size, as members of classes. To type checkers they are int and float; cyclonedds has them by these words.
int8 = Annotated[int, "int8"]
"""It holds whole numbers from -2^7 to 2^7 - 1."""
int16 = Annotated[int, "int16"]
"""It holds whole numbers from -2^15 to 2^15 - 1."""
int32 = Annotated[int, "int32"]
"""It holds whole numbers from -2^31 to 2^31 - 1."""
int64 = Annotated[int, "int64"]
"""It holds whole numbers from -2^63 to 2^63 - 1."""
uint8 = Annotated[int, "uint8"]
"""It holds whole numbers from 0 to 2^8 - 1."""
uint16 = Annotated[int, "uint16"]
"""It holds whole numbers from 0 to 2^16 - 1."""
uint32 = Annotated[int, "uint32"]
"""It holds whole numbers from 0 to 2^32 - 1."""
uint64 = Annotated[int, "uint64"]
"""It holds whole numbers from 0 to 2^64 - 1."""
float32 = Annotated[float, "float32"]
"""It holds numbers of single precision."""
float64 = Annotated[float, "float64"]
"""It holds numbers of double precision."""

_resolved: dict[Any, MessageType] = {}


def resolve(type: Any) -> MessageType:
    """The MessageType of `bytes`, `str`, `dict`, a numpy dtype or scalar class, or a class with members; or it itself.

    Raises UnsupportedType for everything else.
    """
    try:
        known = _resolved.get(type)
    except TypeError:  # not hashable, hence no type
        raise _refusal(type) from None
    if known is None:
        known = _resolved[type] = _resolve(type)
    return known


def from_description(data: bytes) -> MessageType:
    """The MessageType of a description, without its class: IDL structs decode to dataclasses made for them.

    Raises RegionDamaged when the description is not one, UnsupportedType when this version cannot handle it.
    """
    return _described(data, coded=True)


def carried_type(data: bytes) -> MessageType:
    """Returns the type of a description for a program that carries payloads and looks into none: values of an IDL
    type are the payload's bytes.

    It makes no classes, and so takes a tenth of the time and memory of `from_description`. Raises what that raises.
    """
    return _described(data, coded=False)


def _described(data: bytes, coded: bool) -> MessageType:
    document = read_document(data)
    match document["kind"]:
        case "bytes":
            return resolve(bytes)
        case "numpy":
            from rtmw.types.numpy_type import numpy_from_document

            return numpy_from_document(document)
        case "cdr":
            from rtmw.types.idl_type import idl_from_document, idl_without_codec

            return idl_from_document(document) if coded else idl_without_codec(document)
        case kind:
            raise RegionDamaged(f"a type description of unknown kind {shown(kind)}")


def _resolve(given: Any) -> MessageType:
    if given is bytes:
        return RAW
    if isinstance(given, MessageType):
        return given
    from rtmw.types.numpy_type import dtype_of, numpy_type

    dtype = dtype_of(given)
    if dtype is not None:
        return numpy_type(dtype)
    # a class knows itself to be an IDL struct, so that nothing is imported to ask
    if isinstance(given, type) and hasattr(given, "__idl__") and hasattr(given, "__dataclass_fields__"):
        from rtmw.types.idl_type import idl_type

        return idl_type(given)
    return _of_class(given)


def _of_class(given: Any) -> MessageType:
    if given is str or given is dict:
        from rtmw.types.text import json_type, text_type

        return text_type() if given is str else json_type()
    from rtmw.types.classes import has_members

    if has_members(given):
        from rtmw.types.idl_type import class_type

        return class_type(given)
    raise _refusal(given)


def _refusal(given: Any) -> UnsupportedType:
    hint = "; rtmw.ANY is for subscribers only" if given is ANY else ""
    return UnsupportedType(
        f"{given!r} is not a message type; use bytes, str, dict (any JSON value), a numpy dtype (np.dtype('f4')), "
        f"a dataclass, msgspec.Struct or pydantic.BaseModel, or a cyclonedds.idl.IdlStruct{hint}"
    )
