"""Books of a node by topic: `ByTopic` finds entries, `Ended` and `Undelivered` tell of topics that are gone.

A table `ByTopic` has entries of a topic each: found by their key, and all of one topic without a look at the others.

Of topics that no longer cross, the counters of the last ones are told one by one, and those of all before in one sum. A
topic of which nothing was counted is not kept. So a crowd of silent topics leaves no objects that would keep the memory
of all others from being returned. What a node has not delivered when it ends, and can wait for no longer, is told in
its log, and is part of what it and later nodes show.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Generic, TypeVar

from rtmw.observe.node_status import Crossing, Undelivered

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


MOST: Final = 1000
"""Topics that are told apart."""
OTHERS: Final = "(others)"
"""The name of the sum of the rest: no topic has such a name."""


class Ended:
    """Counters of the topics of one direction that no longer cross."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter[str]] = {}
        """The topic that ended last is the last one."""
        self._others: Counter[str] = Counter()
        self._names: dict[str, None] = {}
        """Names of all counters, also of those that are 0 and not kept."""
        self.changes = 0
        """Grows with each topic that ends."""

    def add(self, topic: str, counters: Mapping[str, int]) -> None:
        """A route has ended."""
        self.changes += 1
        names = {name: sys.intern(name) for name in counters}
        self._names.update(dict.fromkeys(names.values()))
        total = self._counters.pop(topic, Counter())
        total.update({names[name]: value for name, value in counters.items() if value})
        if not total:
            return
        self._counters[topic] = total
        if len(self._counters) > MOST:
            self._others.update(self._counters.pop(next(iter(self._counters))))

    def rows(self) -> list[Crossing]:
        """The rows of the node's document."""
        rows = [self._row(topic, counters) for topic, counters in self._counters.items()]
        return [*rows, self._row(OTHERS, self._others)] if self._others else rows

    def _row(self, topic: str, counters: Counter[str]) -> Crossing:
        return Crossing(topic, counters={**dict.fromkeys(self._names, 0), **counters})


_TOLD_MOST: Final = 20
"""Topics that the log tells."""
_KEPT_MOST: Final = 1000
"""Topics that are shown."""


def words(found: list[Undelivered]) -> str:
    """The text that the log has of these messages."""
    more = [f"and {len(found) - _TOLD_MOST} topics more"] if len(found) > _TOLD_MOST else []
    return "; ".join([*map(str, found[:_TOLD_MOST]), *more])


def added(before: Iterable[Undelivered], now: Iterable[Undelivered]) -> list[Undelivered]:
    """Adds what earlier nodes have not delivered, `before`, to what this one has not. Returns the last _KEPT_MOST
    rows. A number that was not known stays so."""
    found: dict[tuple[str, str], Undelivered] = {}
    for one in (*before, *now):
        of = (one.topic, one.direction)
        was = found.pop(of, None)
        if was is not None:
            readers = one.unacknowledged_by or was.unacknowledged_by
            one = replace(one, messages=one.messages + was.messages, unacknowledged_by=readers)
        found[of] = one
    return [*found.values()][-_KEPT_MOST:]


def usable(rows: Iterable[Undelivered]) -> list[Undelivered]:
    """Rows of a document that any program may have written, without those that no node writes."""
    return [one for one in rows if one.direction in ("out", "in") and one.messages >= 0]
