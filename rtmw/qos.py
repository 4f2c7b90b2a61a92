"""Quality of service: the words publishers and subscribers share. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

PRIORITIES = 8
"""Priority bands, 0 (lowest) to 7 (highest); strict (requirement P3)."""


CENTURY_S: Final = 100 * 365 * 86_400.0
"""A limit of so many seconds is none."""


class Reliability(IntEnum):
    """Which messages give way when a queue is full or the pool is empty (P5). The weaker of offer and request governs
    a pair."""

    TIMELY = 0
    """Never waits: the oldest of the lowest band goes, and each subscriber counts what it missed."""
    ADAPTIVE = 1
    """Keeps unread messages beyond the depth while the pool has room, then as TIMELY."""
    RELIABLE = 2
    """Nothing goes unread: `publish` waits up to `max_blocking` seconds, then returns False."""


def is_whole(given: Any, least: int, most: int) -> bool:
    """Is this a whole number of that range? True and False are none, though Python counts with them."""
    return isinstance(given, int) and not isinstance(given, bool) and least <= given <= most


def check_priority(given: Any) -> None:
    """ValueError with the priorities that there are."""
    if not is_whole(given, 0, PRIORITIES - 1):
        raise ValueError(f"priority {given!r} does not exist; there are 0 (lowest) to {PRIORITIES - 1}")


def check_reliability(given: Any) -> Reliability:
    """The reliability that a user gave; ValueError with those that there are."""
    try:
        if isinstance(given, bool):
            raise ValueError
        return Reliability(given)
    except ValueError:
        names = list(Reliability.__members__)
        meant = given if given in names else names[-1]
        raise ValueError(
            f"reliability={given!r} is not possible; give one of rtmw.Reliability: {', '.join(names)}, "
            f"as in reliability=rtmw.Reliability.{meant}"
        ) from None


def check_seconds(name: str, given: Any, least: str = "from 0") -> None:
    """TypeError or ValueError that names the keyword, unless `given` is None or seconds, "from 0" or "above 0"."""
    told = f"{name}={given!r} is not possible; it must be seconds {least}, or None"
    try:
        is_possible = given is None or (math.fabs(given) == float(given) and (least == "from 0" or given > 0))
    except TypeError:
        raise TypeError(told) from None
    if not is_possible:
        raise ValueError(told)


def limited(seconds: float | None) -> float | None:
    """Returns the seconds, or None, for no limit, if they are a century or more, as math.inf is."""
    return None if seconds is None or seconds >= CENTURY_S else seconds


def check_times(min_interval: float | None, deadline: float | None, lease: float | None, asked: Reliability) -> None:
    """ValueError where times of a subscriber contradict each other, or its reliability; TypeError: no number."""
    check_seconds("min_interval", min_interval)
    check_seconds("deadline", deadline, "above 0")
    check_seconds("lease", lease, "above 0")
    if deadline is not None and min_interval is not None and min_interval > deadline:
        raise ValueError(
            f"min_interval={min_interval!r} with deadline={deadline!r} is not possible: nothing is received within "
            f"min_interval, so that each deadline would be missed; the deadline must be as long, or longer"
        )
    if lease is not None and asked is not Reliability.RELIABLE:
        raise ValueError(
            f"lease={lease!r} with reliability {asked.name} is not possible: no publisher waits for this subscriber; "
            "ask for reliability=rtmw.Reliability.RELIABLE, or leave the lease out"
        )


@dataclass(frozen=True)
class Profile:
    """QoS of one kind of real-time information, as keyword sets for `Publisher` and `Subscriber`."""

    publisher: dict[str, Any]
    subscriber: dict[str, Any]
