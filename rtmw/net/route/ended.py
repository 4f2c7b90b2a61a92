"""Counters of topics that no longer cross: those of the last topics one by one, and those of all before in one sum.

A topic of which nothing was counted is not kept. So a crowd of silent topics leaves no objects that would keep the
memory of all others from being returned."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

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

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the node's document."""
        rows = [self._row(topic, counters) for topic, counters in self._counters.items()]
        return [*rows, self._row(OTHERS, self._others)] if self._others else rows

    def _row(self, topic: str, counters: Counter[str]) -> dict[str, Any]:
        return {"topic": topic, **dict.fromkeys(self._names, 0), **counters}
