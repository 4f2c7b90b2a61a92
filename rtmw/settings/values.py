"""Values of settings, as a file or the command line gives them: each function returns the value that a daemon uses, and
raises ValueError, which says what was given and what it must be."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, cast

from rtmw.text.patterns import check_pattern
from rtmw.text.units import seconds_of, some_bytes

LONGEST_NAME: Final = 64


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"it is {value!r}; it must be a text")
    if "\0" in value:
        raise ValueError(f"it is {value!r}; it must be a text without a NUL")
    return value


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"it is {value!r}; it must be a list of texts")
    items = cast("list[Any]", value)
    return tuple(text(item) for item in items)


def some_of(choices: tuple[str, ...], noun: str) -> Callable[[Any], tuple[str, ...]]:
    """Makes a check for a list of texts, each of which must be one of `choices`. `noun`: what one of them is called."""

    def check(value: Any) -> tuple[str, ...]:
        found = texts(value)
        for one in found:
            if one not in choices:
                raise ValueError(f"there is no {noun} {one!r}; there are {', '.join(choices)}")
        return found

    return check


def flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"it is {value!r}; it must be true or false")
    return value


def number(most: int, nouns: str, advice: str = "") -> Callable[[Any], int]:
    """Makes a check for a whole number from 0 to `most`. `nouns`: what has such numbers."""

    def check(value: Any) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(f"it is {value!r}; {nouns} have numbers from 0 to {most}{advice}")
        return value

    return check


def count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"it is {value!r}; it must be a whole number above 0")
    return value


def patterns(value: Any) -> tuple[str, ...]:
    """Topics, or patterns of them."""
    return tuple(map(check_pattern, texts(value)))


port: Final = number(65535, "ports", " (0: any that is free)")


def seconds(least: float, most: float) -> Callable[[Any], float]:
    """Makes a check for a time from `least` to `most` seconds, given as a number or as a text such as `500ms`."""

    def check(value: Any) -> float:
        found = seconds_of(value)
        if not least <= found <= most:
            raise ValueError(f"it is {value!r}; it must be from {least:g} to {most:g} seconds")
        return found

    return check


def size(value: Any) -> int:
    """Bytes, as a number or a text such as `64M`."""
    try:
        return some_bytes(value)
    except ValueError:
        raise ValueError(f"it is {value!r}; it must be bytes, such as 500000, '64M' or '2G'") from None


def rate(value: Any) -> int:
    """Bytes a second, as a number or a text such as `10M`."""
    try:
        return some_bytes(value)
    except ValueError:
        raise ValueError(f"it is {value!r}; it must be bytes a second, such as 500000, '500K' or '10M'") from None


def rates(noun: str, example: str) -> Callable[[Any], tuple[tuple[str, int], ...]]:
    """Makes a check for a list of PATTERN=RATE. `noun`: what the patterns name."""

    def check(value: Any) -> tuple[tuple[str, int], ...]:
        found = list[tuple[str, int]]()
        for one in texts(value):
            pattern, _, bytes_per_second = one.rpartition("=")
            if not pattern:
                raise ValueError(f"{one!r} is no rate of a {noun}; it must be PATTERN=RATE, such as '{example}'")
            found.append((pattern, rate(bytes_per_second)))
        return tuple(found)

    return check


def address(value: Any) -> str:
    try:
        return str(ip_address(text(value)))
    except ValueError:
        raise ValueError(f"it is {value!r}; it must be an address of this host, such as 127.0.0.1 or ::") from None


def folder(value: Any) -> Path:
    return Path(text(value))


def name(value: Any) -> str:
    """A node's name, as it stands in addresses such as `service@plant`."""
    if not re.fullmatch(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}", text(value)):
        raise ValueError(f"it is {value!r}; it must have 1 to {LONGEST_NAME} letters, digits, '_', '-' and '.'")
    return str(value)
