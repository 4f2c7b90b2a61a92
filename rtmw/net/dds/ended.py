"""What was counted of topics that no longer cross: of the last ones each, and of all before those in one sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

MOST: Final = 1000
"""Topics that are told apart."""
OTHERS: Final = "(others)"
"""What the sum of the rest goes by: no topic has such a name."""


class Ended:
    """Of one direction."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter[str]] = {}
        """The topic that ended last is the last one."""
        self._others: Counter[str] = Counter()
        self.changes = 0
        """Grows with each topic that ends."""

    def add(self, topic: str, counters: Mapping[str, int]) -> None:
        """A route has ended."""
        self.changes += 1
        total = self._counters.pop(topic, Counter())
        total.update(counters)
        self._counters[topic] = total
        if len(self._counters) > MOST:
            self._others.update(self._counters.pop(next(iter(self._counters))))

    def rows(self) -> list[dict[str, Any]]:
        """As the document of the node has them."""
        rows: list[dict[str, Any]] = [{"topic": topic, **counters} for topic, counters in self._counters.items()]
        return [*rows, {"topic": OTHERS, **self._others}] if self._others else rows
