"""Expressions of pyarrow.compute, joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def all_of(conditions: Iterable[Any]) -> Any:
    """True where all of them are; None: there are none."""
    joined: Any = None
    for one in conditions:
        joined = one if joined is None else joined & one
    return joined


def any_of(conditions: Iterable[Any]) -> Any:
    """True where one of them is; None: there are none."""
    joined: Any = None
    for one in conditions:
        joined = one if joined is None else joined | one
    return joined
