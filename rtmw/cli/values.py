"""Message values and plain data: what JSON and people can read, and back."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import sys
import typing
from enum import Enum
from typing import Any

LONG_LIST = 16
LONG_TEXT = 256


def to_plain(value: Any) -> Any:
    """Dataclasses as dicts, enums as names, bytes as text (else as {"hex": ...}), numpy arrays as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes_to_plain(bytes(value))
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in typing.cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in typing.cast("list[Any]", value)]
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


def pick(plain: Any, path: str) -> Any:
    """The part of plain data at `a.b.0`; KeyError if there is none."""
    for step in path.split("."):
        if isinstance(plain, dict):
            plain = typing.cast("dict[str, Any]", plain)[step]
        elif isinstance(plain, list) and step.isdigit() and int(step) < len(typing.cast("list[Any]", plain)):
            plain = typing.cast("list[Any]", plain)[int(step)]
        else:
            raise KeyError(path)
    return plain


def lines(plain: Any, indent: str = "") -> list[str]:
    """Plain data for people, a field a line; long lists and texts are cut."""
    if not isinstance(plain, dict):
        return [indent + _short(plain)]
    found: list[str] = []
    for key, item in typing.cast("dict[str, Any]", plain).items():
        if isinstance(item, dict) and item:
            found += [f"{indent}{key}:", *lines(item, indent + "  ")]
        else:
            found.append(f"{indent}{key}: {_short(item)}")
    return found


def _short(item: Any) -> str:
    if isinstance(item, list):
        items = typing.cast("list[Any]", item)
        shown = ", ".join(_short(entry) for entry in items[:LONG_LIST])
        return f"[{shown}]" if len(items) <= LONG_LIST else f"[{shown}, ... {len(items)} in all]"
    if isinstance(item, float):
        return f"{item:.6g}"
    text = str(item)
    return text if len(text) <= LONG_TEXT else f"{text[:LONG_TEXT]}... {len(text)} characters in all"


def load_type(name: str) -> Any:
    """The class that `package.module:Class` names; modules of the present folder are found too."""
    module_name, _, class_name = name.partition(":")
    if not class_name:
        raise argparse.ArgumentTypeError(f"{name} is not of the form package.module:Class")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"{name} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise argparse.ArgumentTypeError(f"{name} is not a dataclass")
    return found


def from_plain(kind: Any, plain: Any) -> Any:
    """The value of type `kind` that this plain data describes; TypeError or ValueError if it describes none."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        subtype = getattr(arguments[1], "subtype", None)
        return from_plain(arguments[0], plain) if subtype is None else [from_plain(subtype, item) for item in plain]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_from_plain(kind, plain)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_from_plain(kind, plain)
    if kind in (int, float) and isinstance(plain, (int, float)) and not isinstance(plain, bool):
        return kind(plain) if kind is float or plain == int(plain) else plain
    return plain


def _enum_from_plain(kind: type[Enum], plain: Any) -> Enum:
    for member in kind:
        if plain in (member.name, member.value):
            return member
    raise ValueError(f"{kind.__name__} has no {plain}; it has {', '.join(member.name for member in kind)}")


def _dataclass_from_plain(kind: type[Any], plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise TypeError(f"{kind.__name__} needs a JSON object, not {plain!r}")
    hints = typing.get_type_hints(kind, include_extras=True)
    names = {item.name for item in dataclasses.fields(kind)}
    given = typing.cast("dict[str, Any]", plain)
    if strange := given.keys() - names:
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(strange))}; it has {', '.join(sorted(names))}")
    return kind(**{name: from_plain(hints[name], item) for name, item in given.items()})
