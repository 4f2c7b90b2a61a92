"""JSON that every reader takes: Python's own writes NaN and Infinity, which the standard does not know."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final, cast

NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON has as texts."""


def as_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """One document; `default` makes plain what JSON has no word for. Numbers that are not finite become texts."""
    try:
        return json.dumps(value, default=default, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=default)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("list[Any]", value)]
    return value
