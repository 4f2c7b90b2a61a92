"""A rule is taken out, and worlds of chance have to see harm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager


def first_harm(
    without: AbstractContextManager[object], run: Callable[[int], object], seeds: Iterable[int]
) -> str | None:
    """What the first seed saw that saw anything, `without` a rule."""
    with without:
        for seed in seeds:
            try:
                run(seed)
            except Exception as error:
                return f"seed {seed}: {type(error).__name__} {error}"[:200]
    return None
