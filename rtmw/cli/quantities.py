"""Numbers, sizes and times on the command line, each with an error in words."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

from rtmw.domain import LARGEST_ID
from rtmw.settings import values
from rtmw.units import some_bytes, some_seconds

T = TypeVar("T")


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """Makes a reader fit for `type=`: argparse shows what a ValueError says only if it is of argparse's own kind."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


size: Final = argument(some_bytes)
"""Bytes, such as `64M`; above 0."""
seconds: Final = argument(some_seconds)
"""Seconds, such as `0.5`, `500ms` or `10min`; above 0."""
_SINCE: Final = values.seconds(0, 1e9)
seconds_or_0: Final = argument(_SINCE)
"""Likewise, from 0 on."""


def moment(text: str) -> float | datetime:
    """A time since a recording began, or a date and time in ISO format."""
    with suppress(ValueError):
        return _SINCE(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no moment: seconds, 10min, or 2026-01-31T12:00:00") from None


def domain_number(text: str) -> int:
    """The number of a domain."""
    if not text.isdecimal() or int(text) > LARGEST_ID:
        raise argparse.ArgumentTypeError(f"{text!r} is not a domain; domains have numbers from 0 to {LARGEST_ID}")
    return int(text)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number") from None


def natural(text: str) -> int:
    """A whole number, 0 or more."""
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def count(text: str) -> int:
    """A whole number, 1 or more."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def positive(text: str) -> float:
    """A finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number
