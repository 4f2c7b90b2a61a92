"""Counters of topics that no longer cross: of the last ones each, and of all before those in one sum.

Of a topic of which nothing was counted nothing is kept: a crowd of silent topics leaves no objects behind, among which
the memory of all others could not be returned.
"""

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
    """Of one direction."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter[str]] = {}
        """The topic that ended last is the last one."""
        self._others: Counter[str] = Counter()
        self._names: dict[str, None] = {}
        """Of all counters, also of those that are 0 and not kept."""
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
        """As the document of the node has them."""
        rows = [self._row(topic, counters) for topic, counters in self._counters.items()]
        return [*rows, self._row(OTHERS, self._others)] if self._others else rows

    def _row(self, topic: str, counters: Counter[str]) -> dict[str, Any]:
        return {"topic": topic, **dict.fromkeys(self._names, 0), **counters}
