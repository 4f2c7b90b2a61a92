"""Topics are meant by name, or by a pattern as the shell has them; and some are of rtmw itself."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

OWN_PREFIX: Final = "rtmw/"
"""Topics on which services of rtmw talk: they stay on their host, and are meant only where they are named."""
WILD: Final = frozenset("*?[")


def is_own(topic: str) -> bool:
    """Is it a topic of rtmw itself?"""
    return topic.startswith(OWN_PREFIX)


def is_pattern(wanted: str) -> bool:
    """May it mean several topics?"""
    return not WILD.isdisjoint(wanted)


def is_meant(topic: str, wanted: str) -> bool:
    """By this name, or this pattern with `*`, `?` and `[a-z]`; a name that looks like a pattern means itself, too."""
    return topic == wanted or fnmatchcase(topic, wanted)


def is_among(topic: str, wanted: Iterable[str]) -> bool:
    """Is it meant by one of these?"""
    return any(is_meant(topic, one) for one in wanted)
