"""Topics are meant by name or by a pattern; and some are of rtmw itself.

A pattern is one of the shell (`*`, `?`, `[a-z]`, where `*` is any text, also over `/`), and may have whole levels of
MQTT: `+` is one level, and a last `#` is that level and all below, or none. `a#b` and `c++` are names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import cached_property, lru_cache
from typing import Final

from rtmw.errors import TopicNameError

OWN_PREFIX: Final = "rtmw/"
"""Topics on which services of rtmw talk: they stay on their host, and are meant only where they are named."""
WILD: Final = frozenset("*?[")
MQTT_WILD: Final = frozenset("#+")
"""Levels that stand for others in MQTT. No topic has such a level, so that no program waits for it in vain."""
LONGEST: Final = 191
"""Bytes of a name."""
NEVER: Final = "(?!)"
"""What a class of letters becomes in which there is none, such as `[z-a]`."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_CLASS: Final = re.compile(r"\[!?+\]?+[^\]]*+\]")


def is_own(topic: str) -> bool:
    """Is it a topic of rtmw itself?"""
    return topic.startswith(OWN_PREFIX)


def has_mqtt_levels(wanted: str) -> bool:
    """Is a whole level a wildcard of MQTT?"""
    return not MQTT_WILD.isdisjoint(wanted.split("/"))


def is_pattern(wanted: str) -> bool:
    """May it mean several topics?"""
    return not WILD.isdisjoint(wanted) or has_mqtt_levels(wanted)


def is_meant(topic: str, wanted: str) -> bool:
    """Is the topic meant by this name or pattern? A name that looks like a pattern means itself, too."""
    if topic == wanted:
        return True
    levels = _with_mqtt_levels(wanted)
    return fnmatchcase(topic, wanted) if levels is None else levels.match(topic) is not None


@lru_cache(4096)
def _with_mqtt_levels(wanted: str) -> re.Pattern[str] | None:
    """The pattern as a regular expression; None: no level of it is a wildcard of MQTT.

    A first level that is one means no name that begins with `$`, as in MQTT.
    """
    if not has_mqtt_levels(wanted):
        return None
    levels, parts = wanted.split("/"), list[str]()
    for level in levels:
        parts.append("[^/]*" if level == "+" else translate(level)[:-2])  # without its end of text
    found = "/".join(parts)
    if levels[-1] == "#":
        found = "/".join(parts[:-1]) + "(?:/.*)?" if len(levels) > 1 else ".*"
    return re.compile(("(?!\\$)" if levels[0] in MQTT_WILD else "") + f"(?s:{found})\\Z")


def is_among(topic: str, wanted: Iterable[str]) -> bool:
    """Is it meant by one of these?"""
    return any(is_meant(topic, one) for one in wanted)


def check_levels(topic: object) -> None:
    """Raise TopicNameError where a whole level of what has to be a name is a wildcard of MQTT."""
    if has_mqtt_levels(str(topic)):
        raise TopicNameError(
            f"{topic!r} names no topic: a whole level `#` or `+` is a wildcard. A Publisher or Subscriber has one "
            f"topic; for several, use rtmw.PatternSubscriber({topic!r}), or rtmw.Recorder to record them"
        )


def check_pattern(wanted: object) -> str:
    """The name or pattern as it was given. Raises TopicNameError for what no topic can ever be meant by."""
    if not isinstance(wanted, str) or not wanted or _CONTROL.search(wanted) or _SURROGATE.search(wanted):
        raise TopicNameError(
            f"{wanted!r} is no pattern of topics; give a name, or a text such as 'pump/*', 'pump/+/speed' or 'pump/#'"
        )
    if "[" in _CLASS.sub("", wanted) or NEVER in translate(wanted):
        raise TopicNameError(
            f"{wanted!r} means no topic: `[` begins a class of letters, such as `[a-z]` or `[!0-9]`, and `]` ends it"
        )
    fixed = len(_CLASS.sub("?", wanted).removesuffix("/#").replace("*", "").encode())
    if fixed > LONGEST and is_pattern(wanted):  # of a name, whoever opens the topic says so
        raise TopicNameError(f"{wanted!r} means no topic: it asks for {fixed} bytes, and a name has {LONGEST} at most")
    if "#" in wanted.split("/")[:-1]:
        raise TopicNameError(
            f"{wanted!r} is no pattern: `#` means a level and all below, and has to be the last level, as in "
            f"{wanted[: f'/{wanted}'.index('/#/') + 1]!r}; `+` means one level, `*` any text"
        )
    return wanted


@dataclass(frozen=True)
class Topics:
    """Which topics are wanted, by names and patterns, and by which patterns they are not."""

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The topics that are wanted by name, whether they exist or not."""
        return tuple(dict.fromkeys(name for name in self.wanted if not is_pattern(name)))

    @property
    def are_open(self) -> bool:
        """Can a topic that is new be wanted?"""
        return any(map(is_pattern, self.wanted))

    def take(self, topic: str) -> bool:
        """Is it wanted? Of rtmw's own topics only those are that are named."""
        if topic in self.names:
            return True
        return not is_own(topic) and is_among(topic, self.wanted) and not is_among(topic, self.unwanted)


def _each(given: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise TypeError(f"{given!r} is no pattern of topics; give a text such as 'pump/*', or a list of such texts")
    return tuple(given)


def topics_of(given: str | Iterable[str], unwanted: str | Iterable[str] = ()) -> Topics:
    """Raises TopicNameError where a pattern is none, and ValueError when nothing is wanted."""
    wanted, excluded = _each(given), _each(unwanted)
    if not wanted:
        raise ValueError("no topic is wanted; give names or patterns, or '*' for all")
    for one in wanted:
        if isinstance(one, str) and is_own(one) and is_pattern(one):
            raise TopicNameError(
                f"{one!r} means no topic: those of rtmw itself, under {OWN_PREFIX!r}, are meant by name"
            )
    return Topics(tuple(map(check_pattern, wanted)), tuple(map(check_pattern, excluded)))
