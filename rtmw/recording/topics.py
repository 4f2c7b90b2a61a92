"""Topics are meant by name, or by a pattern as the shell has them."""

from __future__ import annotations

from fnmatch import fnmatchcase


def is_meant(topic: str, wanted: str) -> bool:
    """By this name, or this pattern with `*`, `?` and `[a-z]`; a name that looks like a pattern means itself, too."""
    return topic == wanted or fnmatchcase(topic, wanted)
