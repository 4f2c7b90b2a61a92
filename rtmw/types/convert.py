"""Single values to numbers and back, for what is no number in Python. The compiled codec calls these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rtmw.types.rebuild import mask_from, mask_of
from rtmw.types.schema import Bitmask

BOOLEANS: Final = {False: 0, True: 1}
"""Refuses what is merely truthy: a KeyError for "no" or 5, where `bool` would say True."""


def check_class(value: Any, cls: Any) -> None:
    """Lets instances of subclasses pass. Raises TypeError."""
    if not isinstance(value, cls):
        raise TypeError(f"{type(value).__name__} in place of {cls.__name__}")


def enumerator_numbers(cls: Any) -> dict[Any, int]:
    """The number of each enumerator: its value if all values of the Enum are whole numbers, else its place."""
    if all(type(member.value) is int for member in cls):
        return {member: member.value for member in cls}
    return {member: place for place, member in enumerate(cls)}


def enum_number(cls: Any, is_strict: bool) -> Callable[[Any], int]:
    """Returns what makes the number of an enumerator, or takes a plain int as cyclonedds does: any, or if
    `is_strict` only one that an enumerator has."""
    numbers = enumerator_numbers(cls)
    known = set(numbers.values())

    def number(value: Any) -> int:
        if type(value) is int:
            if is_strict and value not in known:
                raise ValueError(f"{cls.__name__} has no number {value}")
            return value
        check_class(value, cls)
        return numbers[value]

    return number


def mask_number(cls: Any, part: Any) -> Callable[[Any], int]:
    """Returns what makes the number of an instance of a bitmask class."""
    assert isinstance(part, Bitmask)

    def number(value: Any) -> int:
        check_class(value, cls)
        return mask_of(value, part)

    return number


def mask_value(cls: Any, part: Bitmask) -> Callable[[int], Any]:
    """Returns what makes an instance of a bitmask class of a number."""

    def value(number: int) -> Any:
        return mask_from(cls, number, part)

    return value
