"""Sizes and times as people write them, `64M` and `1.5min`: one grammar, wherever rtmw reads one."""

from __future__ import annotations

import math
import re
from typing import Final

_SIZE: Final = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_SIZES: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_TIME: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,3}))?\s*([a-zµ]*)")
_TIMES: Final = {"": 1.0, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def size_of(written: int | str) -> int:
    """Bytes, from a whole number or a text with K, M, G or T of 1024: `64M`, `64MiB`, `64 mb`. Raises ValueError."""
    found = _SIZE.fullmatch(str(written).strip())
    if found is None:
        raise ValueError(f"{written!r} is not a size; write bytes as a number, or as '512K', '64M', '2G'")
    return int(found[1]) << _SIZES[found[2].upper()]


def some_bytes(written: int | str) -> int:
    """A size above 0. Raises ValueError."""
    size = size_of(written)
    if size == 0:
        raise ValueError(f"{written!r} is not a size above 0; write bytes as a number, or as '512K', '64M', '2G'")
    return size


def seconds_of(written: float | str) -> float:
    """Seconds, from a number or a text with us, ms, s, min, h or d: `0.5`, `500ms`, `90min`. Raises ValueError."""
    found = _TIME.fullmatch(str(written).strip())
    if found is None or found[3] not in _TIMES:
        raise ValueError(f"{written!r} is not a time; write seconds as a number, or as '500ms', '10min', '2h', '7d'")
    return float(found[1] + (f"e{found[2]}" if found[2] else "")) * _TIMES[found[3]]


def some_seconds(written: float | str) -> float:
    """A finite time above 0. Raises ValueError."""
    seconds = seconds_of(written)
    if not 0 < seconds < math.inf:
        raise ValueError(f"{written!r} is not a time above 0; write seconds as a number, or as '500ms', '10min', '2h'")
    return seconds
