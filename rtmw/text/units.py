"""Sizes and times as people write them, `64M` and `1.5min`, and as people read them: one grammar everywhere."""

from __future__ import annotations

import math
import re
from typing import Final

_SIZE: Final = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_SIZES: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_TIME: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,3}))?\s*([a-zµ]*)")
_TIMES: Final = {"": 1.0, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

MOST_BYTES: Final = (1 << 63) - 1
"""The largest size in bytes: it fits a signed number of 64 bits."""


def size_of(written: int | str) -> int:
    """Bytes, from a whole number or a text with K, M, G or T of 1024: `64M`, `64MiB`, `64 mb`. Raises ValueError."""
    found = _SIZE.fullmatch(str(written).strip())
    if found is None:
        raise ValueError(f"{written!r} is not a size; write bytes as a number, or as '512K', '64M', '2G'")
    return int(found[1]) << _SIZES[found[2].upper()]


def some_bytes(written: int | str) -> int:
    """A size above 0. Raises ValueError."""
    size = size_of(written)
    if size > MOST_BYTES:
        raise ValueError(f"a size of {len(str(size))} digits is not possible; the largest has {MOST_BYTES} bytes")
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


def size(number: float) -> str:
    """A number of bytes with its unit: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"


def counted(number: int, noun: str) -> str:
    """Returns the number with its noun, in the plural where needed: 1 topic, 2 topics, 2 processes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def duration(seconds: float | None) -> str | None:
    """A time with three figures and its unit: 1.25 µs; from a quarter of an hour on as 2 h 46 min. None for none."""
    if seconds is None:
        return None
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    if seconds < 999.5:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return _in_two(seconds, "min", 60, "s")
    return _in_two(seconds / 60, "h", 60, "min") if seconds < 48 * 3600 else _in_two(seconds / 3600, "d", 24, "h")


def _in_two(number: float, large: str, each: int, small: str) -> str:
    whole, rest = divmod(round(number), each)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"
