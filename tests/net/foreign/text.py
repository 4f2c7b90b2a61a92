"""Values as words of a line, as fast.cpp writes and reads them."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

from cyclonedds.idl import IdlStruct, IdlUnion


def words(value: Any) -> list[str]:
    match value:
        case Enum():
            return [str(value.value)]
        case bool() | int():
            return [str(int(value))]
        case float():
            return [f"{value:.17g}"]
        case str():
            return ['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"']
        case IdlUnion():
            return words(value.discriminator) + words(value.value)
        case IdlStruct():
            return [word for field in fields(value) for word in words(getattr(value, field.name))]
        case _:
            return [str(len(value)), *(word for item in value for word in words(item))]


def text(value: Any) -> str:
    return " ".join(words(value))
