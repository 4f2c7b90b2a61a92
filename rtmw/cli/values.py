"""Message values and plain data: what JSON and people can read, and back."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import sys
import types
import typing
from enum import Enum
from json.encoder import encode_basestring_ascii
from typing import Any

from rtmw.errors import UnsupportedType, needing_dds
from rtmw.latency import Latency
from rtmw.text.strict_json import NOT_FINITE, as_json
from rtmw.text.visible import visible
from rtmw.types import MessageType, resolve

SHORT_NAMES: dict[str, type] = {"str": str, "dict": dict}
"""Types that are named without their module."""
LONG_LIST = 16
LONG_TEXT = 256


def _is(value: Any, *kinds: type) -> bool:
    """`isinstance` on what may be anything and stays so for the type checkers, who know no more of its parts."""
    return isinstance(value, kinds)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value)


def to_plain(value: Any) -> Any:
    """Dataclasses as dicts, enums as names, bytes as text (else as {"hex": ...}), numpy arrays as lists."""
    if _is(value, Latency):
        return value.summary()
    if _is_dataclass(value) and not _is(value, type):
        return {item.name: to_plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if _is(value, Enum):
        return value.name
    if _is(value, bytes, bytearray, memoryview):
        return _bytes_to_plain(bytes(value))
    if _is(value, dict):
        return {key.name if _is(key, Enum) else str(key): to_plain(item) for key, item in value.items()}
    if _is(value, list, tuple):
        return [to_plain(item) for item in value]
    if hasattr(value, "tolist"):
        names = value.dtype.names
        return (
            [to_plain(dict(zip(names, row, strict=True))) for row in value.ravel().tolist()]
            if names
            else value.tolist()
        )
    return value


def _bytes_to_plain(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return text if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable() else {"hex": data.hex()}


def to_json(value: Any) -> str:
    """`as_json(to_plain(value))`, several times as fast for bytes, texts, whole numbers and None."""
    if value is None:
        return "null"
    plain = _bytes_to_plain(value) if value.__class__ is bytes else value
    if plain.__class__ is str:
        return encode_basestring_ascii(plain)
    return int.__repr__(plain) if plain.__class__ is int else as_json(to_plain(plain))


@dataclasses.dataclass(frozen=True)
class Part:
    """The part at a path in plain data."""

    value: Any = None
    lack: str | None = None
    """Why there is no such part, as the end of a sentence; None if there is one."""
    varies: bool = False
    """Whether another message of the type may have it otherwise: behind a union, an optional member, in a list."""


def part_at(plain: Any, path: str) -> Part:
    """The part of plain data at `a.b.0`."""
    varies, walked = False, "it"
    for step in path.split("."):
        inner = _inside(plain, step)
        if inner is None:
            return Part(None, f"{walked} {_content(plain)}", varies or _may_differ(plain, step))
        varies = varies or _is(plain, list) or (_is_union(plain) and step == "value")
        plain, walked = inner[0], step if walked == "it" else f"{walked}.{step}"
    return Part(plain, None, varies)


def _inside(plain: Any, step: str) -> tuple[Any] | None:
    if _is(plain, dict) and step in plain:
        return (plain[step],)
    if _is(plain, list) and step.isdigit() and int(step) < len(plain):
        return (plain[int(step)],)
    return None


def _may_differ(plain: Any, step: str) -> bool:
    """Whether what is not here may be there in another message: an optional member, a longer list, other bytes."""
    return plain is None or (_is(plain, list) and step.isdigit()) or (_is(plain, str) and step == "hex")


def _is_union(plain: Any) -> bool:
    return _is(plain, dict) and plain.keys() == {"discriminator", "value"}


def _content(plain: Any) -> str:
    if _is(plain, dict):
        return f"has {', '.join(plain) or 'no fields'}"
    return f"is a list of {len(plain)}" if _is(plain, list) else f"is {_short(plain)}, without fields"


def lines(plain: Any, indent: str = "") -> list[str]:
    """Plain data for people, a field a line; long lists and texts are cut."""
    if not _is(plain, dict) or not plain:
        return [indent + _short(plain)]
    found: list[str] = []
    for key, item in plain.items():
        if _is(item, dict) and item:
            found += [f"{indent}{key}:", *lines(item, indent + "  ")]
        else:
            found.append(f"{indent}{key}: {_short(item)}")
    return found


def _short(item: Any) -> str:
    if _is(item, list):
        items: list[Any] = item
        shown = ", ".join(_short(entry) for entry in items[:LONG_LIST])
        return f"[{shown}]" if len(items) <= LONG_LIST else f"[{shown}, ... {len(items)} in all]"
    if _is(item, float):
        return f"{item:.6g}"
    text = visible(str(item))
    return text if len(text) <= LONG_TEXT else f"{text[:LONG_TEXT]}... {len(text)} characters in all"


def load_type(name: str) -> Any:
    """The class that `package.module:Class` names, or `str`, `dict`; modules of the present folder are found too."""
    if name in SHORT_NAMES:
        return SHORT_NAMES[name]
    module_name, _, class_name = name.partition(":")
    if not class_name:
        raise argparse.ArgumentTypeError(f"{name} is not of the form package.module:Class, nor str or dict")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        with needing_dds("this class"):
            found: Any = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"{name} cannot be loaded: {error}") from error
    except Exception as error:  # what the module does when it is imported is its own
        why = f"importing {module_name} raises {type(error).__name__}: {error}"
        raise argparse.ArgumentTypeError(f"{name} cannot be loaded: {why}") from error
    try:
        resolve(found)
    except UnsupportedType as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from error
    return found


def parse(kind: MessageType, text: str) -> Any:
    """The plain data that a text stands for: its JSON; for a topic of `str` any text but a JSON string stands for
    itself. ValueError: it is no JSON."""
    is_text = kind.identity == resolve(str).identity
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        if is_text:
            return text
        raise ValueError(str(error)) from error
    return text if is_text and not isinstance(plain, str) else plain


def from_plain(kind: Any, plain: Any) -> Any:
    """The value of type `kind` that this plain data describes; TypeError or ValueError if it describes none."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        subtype = getattr(arguments[1], "subtype", None)
        return from_plain(arguments[0], plain) if subtype is None else [from_plain(subtype, item) for item in plain]
    if origin is list:
        return [from_plain(arguments[0], item) for item in plain]
    if origin in (typing.Union, types.UnionType):
        return None if plain is None else from_plain(next(one for one in arguments if one is not type(None)), plain)
    if _is(kind, type) and issubclass(kind, Enum):
        return _enum_from_plain(kind, plain)
    if _is_dataclass(kind) and _is(kind, type):
        return _dataclass_from_plain(kind, plain)
    if kind in (int, float) and isinstance(plain, (int, float)) and not isinstance(plain, bool):
        return kind(plain) if kind is float or plain % 1 == 0 else plain  # inf % 1 is nan
    if kind is float and plain in NOT_FINITE:
        return float(plain)
    return plain


def _enum_from_plain(kind: type[Enum], plain: Any) -> Enum:
    for member in kind:
        if plain in (member.name, member.value):
            return member
    raise ValueError(f"{kind.__name__} has no {plain}; it has {', '.join(member.name for member in kind)}")


def _dataclass_from_plain(kind: type[Any], plain: Any) -> Any:
    if not _is(plain, dict):
        raise TypeError(f"{kind.__name__} needs a JSON object, not {plain!r}")
    hints = typing.get_type_hints(kind, include_extras=True)
    names = {item.name for item in dataclasses.fields(kind)}
    given: dict[str, Any] = plain
    if strange := given.keys() - names:
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(strange))}; it has {', '.join(sorted(names))}")
    return kind(**{name: from_plain(hints[name], item) for name, item in given.items()})
