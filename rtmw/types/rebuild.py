"""Classes for a type that is known by its description only.

They are plain dataclasses and enums, made without cyclonedds, whose import costs a third of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from enum import Enum
from typing import Any

from rtmw.types.schema import Bitmask, Definition, Enumeration, Schema, Struct, Union


@dataclass
class Variant:
    """The value of a union: which branch, and what is in it. `discriminator` None stands for the default branch."""

    discriminator: Any
    value: Any

    def get(self) -> tuple[Any, Any]:
        return self.discriminator, self.value


def make_classes(schema: Schema) -> dict[str, Any]:
    """A class for each definition, named by the last part of the definition's name."""
    return {name: _make_class(name, part) for name, part in schema.types.items()}


def _make_class(name: str, part: Definition) -> Any:
    short = name.rpartition("::")[2]
    match part:
        case Struct():
            return make_dataclass(short, [_field(member.name) for member in part.fields])
        case Union():
            return make_dataclass(short, (), bases=(Variant,))
        case Enumeration():
            return Enum(short, part.members)
        case Bitmask():
            return make_dataclass(short, [_field(bit) for bit, _ in part.bits])


def _field(name: str) -> str | tuple[str, Any, Any]:
    """An attribute that every class has under this name, such as `mro`, would be taken for the default of the field."""
    return (name, Any, field()) if hasattr(type, name) else name


def mask_of(value: Any, part: Bitmask) -> int:
    """The number that a bitmask travels as."""
    return sum(1 << position for name, position in part.bits if getattr(value, name))


def mask_from(cls: Any, number: int, part: Bitmask) -> Any:
    """A bitmask of class `cls` from its number; bits without a name are dropped."""
    return cls(**{name: bool(number >> position & 1) for name, position in part.bits})


def field_names(cls: Any) -> list[str]:
    """Names of a dataclass's fields, as its constructor takes them."""
    return [member.name for member in fields(cls) if member.init]
