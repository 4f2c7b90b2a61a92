"""What the log has said already, so that it says it once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

SAID_MOST: Final = 1000
"""The keys that are remembered. Beyond them the oldest is forgotten, and may be said again."""

_Key = TypeVar("_Key", bound=Hashable)


class Said(Generic[_Key]):
    def __init__(self) -> None:
        self._said: dict[_Key, None] = {}

    def __contains__(self, key: _Key) -> bool:
        return key in self._said

    def is_news(self, key: _Key) -> bool:
        """Has the log not said it yet? From now on it has."""
        if key in self._said:
            return False
        self._said[key] = None
        if len(self._said) > SAID_MOST:
            del self._said[next(iter(self._said))]
        return True

    def clear(self) -> None:
        self._said.clear()
