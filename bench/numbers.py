"""Medians, quartiles and percentiles, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share lies, of numbers in ascending order."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(times: Sequence[float]) -> dict[str, float]:
    """Percentiles; each only if at least ten values lie beyond it."""
    ordered = sorted(times)
    enough = {name: share for name, share in SHARES.items() if len(ordered) * (1 - share) >= 10 or name == "p50"}
    return {name: percentile(ordered, share) for name, share in enough.items()}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile, interpolated."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    return at(0.25), median(ordered), at(0.75)


def shown(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"
