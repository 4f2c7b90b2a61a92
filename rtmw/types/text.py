"""`str` and `dict` as message types: a struct with one member of text, whose value programs get without the struct.

`str` is `std_msgs::msg::String`, the String of ROS. `dict` stands for any JSON value, and lies as text in `rtmw::Json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from rtmw.errors import MessageError, TypeMismatch, ValueMismatch
from rtmw.types.checks import is_a, shown, with_article
from rtmw.types.idl_type import class_type
from rtmw.types.message_type import MessageType

if TYPE_CHECKING:
    from typing_extensions import Buffer as Lender


@dataclass(slots=True)
class String:
    """What a `str` travels in."""

    __idl_typename__ = "std_msgs.msg.String"
    data: str


@dataclass(slots=True)
class Json:
    """What a JSON value travels in."""

    __idl_typename__ = "rtmw.Json"
    text: str


class _InPlace:
    """Encodes a large text where it will lie."""

    def __init__(self, kind: MessageType) -> None:
        assert kind.in_place is not None
        self._begin, self._write = kind.in_place.begin, kind.in_place.write

    def begin(self, value: str, /) -> bytes | int:
        return self._begin(String(value))

    def write(self, value: str, memory: memoryview, /) -> None:
        self._write(String(value), memory)


def text_type() -> MessageType:
    """The MessageType of `str`."""
    kind = class_type(String)
    encode, decode = _functions(kind)

    def unwrapped(data: Lender) -> str:
        return cast("str", decode(data).data)

    def wrapped(value: str) -> bytes:
        return encode(String(value))

    return replace(kind, encode=wrapped, decode=unwrapped, in_place=_InPlace(kind))


def json_type() -> MessageType:
    """The MessageType of `dict`."""
    kind = class_type(Json)
    encode, decode = _functions(kind)

    def encoded(value: Any) -> bytes:
        return encode(Json(written(value)))

    def read(data: Lender) -> Any:
        return read_json(decode(data).text)

    return replace(kind, encode=encoded, decode=read, in_place=None)


def member_of(type_name: str) -> str:
    """The member in which `str` and `dict` lie."""
    return _MEMBERS[type_name]


def content(type_name: str, value: Any) -> Any:
    """What a subscriber of `str` or `dict` would get for this value of `rtmw.ANY`.

    Values of other types are given back, and so is the struct of a text that is no JSON, or is nested more deeply than
    functions that walk through it could call themselves.
    """
    member = _MEMBERS.get(type_name)
    text = None if member is None else getattr(value, member, None)
    if not isinstance(text, str) or len(fields(value)) != 1:  # another struct of that name
        return value
    if type_name == String.__idl_typename__:
        return text
    try:
        found = read_json(text)
    except ValueMismatch:
        return value
    return found if _is_within(found, _LEVELS) else value


def _is_within(value: Any, levels: int) -> bool:
    """Whether it has no more levels than that."""
    inner = value.values() if is_a(value, dict) else value if is_a(value, list) else ()
    return levels >= 0 and all(_is_within(item, levels - 1) for item in inner)


_LEVELS: Final = 100
_MEMBERS: Final = {String.__idl_typename__: "data", Json.__idl_typename__: "text"}


def _functions(kind: MessageType) -> tuple[Callable[[Any], bytes], Callable[[Lender], Any]]:
    assert kind.encode is not None
    assert kind.decode is not None
    return cast("Callable[[Any], bytes]", kind.encode), kind.decode


_encoder: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def written(value: Any) -> str:
    """The text of a JSON value. Raises TypeMismatch or ValueMismatch, which name the place within the value."""
    try:
        if _has_text_keys(value):
            return _encoder.encode(value)
    except RecursionError:
        raise ValueMismatch("rtmw.Json: the value is nested too deeply, or contains itself") from None
    except (TypeError, ValueError) as error:
        raise _fault(value, "value") or ValueMismatch(f"rtmw.Json: {error}") from error
    raise _fault(value, "value") or TypeMismatch(f"rtmw.Json: {shown(value)} has a key that is no text")


def _has_text_keys(value: Any) -> bool:
    """`json` writes other keys as text, and a reader would not find them again."""
    if is_a(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_has_text_keys, value.values()))
    return not is_a(value, list, tuple) or all(map(_has_text_keys, value))


def _fault(value: Any, path: str) -> MessageError | None:
    """Returns the error for the part of a value that is no JSON; None: there is none."""
    if is_a(value, dict):
        if strange := [key for key in value if not isinstance(key, str)]:
            key = shown(strange[0])
            return TypeMismatch(f"rtmw.Json: {path} has the key {key}; keys of JSON are text: write str(key)")
        return next(filter(None, (_fault(item, f"{path}[{shown(key)}]") for key, item in value.items())), None)
    if is_a(value, list, tuple):
        return next(filter(None, (_fault(item, f"{path}[{at}]") for at, item in enumerate(value))), None)
    if isinstance(value, float) and not math.isfinite(value):
        return ValueMismatch(f"rtmw.Json: {path} is {value}, which is no number of JSON; use None")
    if value is None or isinstance(value, str | int | float):
        return None
    return TypeMismatch(
        f"rtmw.Json: {path} is {shown(value)}, {with_article(type(value).__name__)}; JSON has dict, list, "
        f"str, int, float, bool and None{_instead(value)}"
    )


def _instead(value: Any) -> str:
    """What to write for a value that has a near one in JSON."""
    if isinstance(value, Enum):
        return ": use its .value"
    if getattr(value, "ndim", 0):  # an array, as numpy has it
        return ": use x.tolist()"
    if type(value).__name__.startswith("bool"):
        return ": use bool(x)"
    if hasattr(value, "__index__"):
        return ": use int(x)"
    return ": use float(x)" if hasattr(value, "__float__") else ""


def _not_finite(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


_decoder: Final = json.JSONDecoder(parse_constant=_not_finite)


def read_json(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueMismatch(f"rtmw.Json: a text of {len(text)} characters is no JSON: {error}") from error
