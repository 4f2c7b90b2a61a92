"""Messages of ROS 2 for the rosbags library, with something in every field, and what they say in plain values."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore

from rtmw.recording.schemas.ros2 import PLACEHOLDER

STORE = get_typestore(Stores.ROS2_JAZZY)


def sample(name: str, number: int = 0) -> Any:
    """A value of a message of ROS 2; `number` makes them differ."""
    _, defined = STORE.fielddefs[name]
    values = {member: _filled(kind, at + number) for at, (member, kind) in enumerate(defined)}
    return STORE.types[name](**values)


def _filled(kind: Any, number: int) -> Any:
    """`kind` is 1 a base type, 2 a message, 3 an array, 4 a sequence, each with its detail."""
    node, detail = int(kind[0]), kind[1]
    if node == 1:
        return _scalar(detail[0], number)
    if node == 2:
        return sample(detail, number)
    inner, length = detail
    count = length if node == 3 else min(length or 2, 2)
    if int(inner[0]) == 1 and inner[1][0] != "string":
        dtype = {"byte": "uint8", "char": "uint8", "octet": "uint8"}.get(inner[1][0], inner[1][0])
        return (np.arange(count) % 2).astype(dtype)
    return [_filled(inner, number + at) for at in range(count)]


def _scalar(word: str, number: int) -> Any:
    if word == "string":
        return "x" * (number % 50)
    return bool(number % 2) if word == "bool" else float(number) if word.startswith("float") else number % 100


def plain(value: Any) -> Any:
    """A value in dicts and lists, whether rosbags made it or rtmw."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, list):
        return [plain(part) for part in value]
    return {name: plain(getattr(value, name)) for name in members(value) if name != PLACEHOLDER}


def members(value: Any) -> list[str]:
    """The names of a message's fields; rosbags adds the constants and the name of the type."""
    return [member.name for member in fields(value) if not member.name.isupper() and member.name != "__msgtype__"]
