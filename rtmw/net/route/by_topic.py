"""A table whose entries are of a topic each: found by their key, and all of one topic without a look at the others."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class ByTopic(Generic[Key, Value]):
    """Keys are unique over all topics. Iterates over the values."""

    def __init__(self) -> None:
        self._topic: dict[Key, str] = {}
        self._all: dict[Key, Value] = {}
        self._of: dict[str, dict[Key, Value]] = {}

    def put(self, topic: str, key: Key, value: Value) -> None:
        """Puts a value in place of the one that had the key before, of whatever topic."""
        self.pop(key)
        self._topic[key], self._all[key] = topic, value
        self._of.setdefault(topic, {})[key] = value

    def pop(self, key: Key) -> Value | None:
        """Remove the value that has the key and return it; None: no value had it."""
        topic = self._topic.pop(key, None)
        if topic is None:
            return None
        del self._of[topic][key]
        if not self._of[topic]:
            del self._of[topic]
        return self._all.pop(key)

    def get(self, key: Key) -> Value | None:
        return self._all.get(key)

    def at(self, key: Key) -> Value:
        """The value that has the key. Raises KeyError."""
        return self._all[key]

    def has_key(self, key: Key) -> bool:
        return key in self._all

    def keys(self, topic: str) -> list[Key]:
        """The keys of a topic."""
        return [*self._of.get(topic, ())]

    def of(self, topic: str) -> list[Value]:
        """The values of a topic."""
        return [*self._of.get(topic, {}).values()]

    def has(self, topic: str) -> bool:
        """Is there anything of a topic?"""
        return topic in self._of

    def topics(self) -> list[str]:
        """Topics that have entries."""
        return [*self._of]

    def items(self) -> ItemsView[Key, Value]:
        return self._all.items()

    def __iter__(self) -> Iterator[Value]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)
