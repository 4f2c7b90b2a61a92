"""Topics are meant by name, or by a pattern as the shell has them; and some are of rtmw itself."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from rtmw.errors import TopicNameError

OWN_PREFIX: Final = "rtmw/"
"""Topics on which services of rtmw talk: they stay on their host, and are meant only where they are named."""
WILD: Final = frozenset("*?[")
MQTT_WILD: Final = frozenset("#+")
"""Levels that stand for others in MQTT. No topic has such a level, so that no program waits for it in vain."""


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


def check_levels(topic: object) -> None:
    """Raise TopicNameError where a whole level of a topic or pattern is a wildcard of MQTT; `a#b` is a name."""
    levels = str(topic).split("/")
    if not MQTT_WILD.isdisjoint(levels):
        pattern = "/".join("*" if level in MQTT_WILD else level for level in levels)
        raise TopicNameError(
            f"{topic!r} names no topic: a whole level `#` or `+` is a wildcard of MQTT, and has no meaning here. "
            "A Publisher or Subscriber has one topic. For several, open a Subscriber for each and wait for all with "
            f"rtmw.WaitSet; rtmw.observe.topics lists them. What takes patterns, as rtmw.Recorder, takes {pattern!r}"
        )
