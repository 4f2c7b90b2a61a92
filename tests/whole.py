"""Searches that try a sample in `make test`, and everything in `make torture`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, TypeVar

import pytest

T = TypeVar("T")

IS_WHOLE: Final = "RTMW_TORTURE" in os.environ
LONG: Final = pytest.mark.skipif(not IS_WHOLE, reason="make torture runs it")


def sample(cases: Iterable[T], count: int) -> list[T]:
    """So many of the cases, at equal steps from the first to the last; `make torture` tries each of them."""
    every = [*cases]
    if IS_WHOLE or len(every) <= count:
        return every
    return [every[round(number * (len(every) - 1) / max(count - 1, 1))] for number in range(count)]
