"""Rights of peers as a running program asks for them: verdicts kept, denials counted, rules changed as a whole."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rtmw.net.security.rules import RuleTable, Verdict, within

KEPT: Final = 16384
"""Verdicts that are kept; the one that was not asked for longest gives way."""
TOLD_MOST: Final = 1000
"""Rows of denials; what comes later is counted for "others"."""
OTHERS: Final = "others"


class Route(NamedTuple):
    """A route that a peer has open: the arguments of a verdict."""

    peer: str
    verb: str
    subject: str
    priority: int = 0
    size: int = 0


class Rights:
    """The rights of peers by one table of rules. For several threads."""

    table: RuleTable
    _judge: Callable[[str, str, str], Verdict]

    def __init__(self, table: RuleTable) -> None:
        self._lock = threading.Lock()
        """Protects the counts."""
        self._denied: Counter[tuple[str, str, str]] = Counter()
        self._last: dict[tuple[str, str, str], tuple[str, str | None]] = {}
        self.swap(table)

    def swap(self, table: RuleTable) -> RuleTable | None:
        """Take these rules from the next verdict on; the rules that held before. `revoked` says which open routes
        must close. Counts stay."""
        before = getattr(self, "table", None)
        self._judge, self.table = lru_cache(KEPT)(table.judge), table
        return before

    def verdict(self, peer: str, verb: str, subject: str, *, priority: int = 0, size: int = 0) -> Verdict:
        """May this peer? To be asked when a route opens; what the ceilings of the verdict say of each message,
        `Verdict.keeps` answers. `priority`: the highest, `size`: the largest in bytes that is known of the route.

        `peer`: the name in its certificate. Raises ValueError for a verb that there is not.
        """
        found = self._judge(peer, verb, subject)
        if found.allowed and (priority or size):
            found = within(found, priority, size)
        if not found.allowed:
            self._count(peer, verb, subject, found)
        return found

    def may(self, peer: str, verb: str, subject: str) -> Verdict:
        """Judges like `verdict`, for a caller that only plans: a denial is not counted."""
        return self._judge(peer, verb, subject)

    def _count(self, peer: str, verb: str, subject: str, verdict: Verdict) -> None:
        with self._lock:
            key = (peer, verb, verdict.cause)
            if key not in self._denied and len(self._denied) >= TOLD_MOST:
                key = (OTHERS, verb, verdict.cause)
            self._denied[key] += 1
            self._last[key] = (subject, verdict.place)

    def denials(self) -> list[dict[str, Any]]:
        """A row for each peer, verb and cause: how often, and which subject and rule it was the last time."""
        with self._lock:
            found = [(key, number, self._last[key]) for key, number in self._denied.items()]
        return [
            {"peer": peer, "verb": verb, "cause": cause, "number": number, "subject": subject, "rule": rule}
            for (peer, verb, cause), number, (subject, rule) in found
        ]

    def causes(self) -> Counter[str]:
        """How often something was denied, by cause."""
        with self._lock:
            total = Counter[str]()
            for (_, _, cause), number in self._denied.items():
                total[cause] += number
        return total


def revoked(old: RuleTable, new: RuleTable, routes: Iterable[Route]) -> list[tuple[Route, Verdict]]:
    """Open routes that `old` allows and `new` does not, each with the verdict that says why: they are to be closed."""
    if old.version == new.version:
        return []
    judged = ((route, new.judge(*route)) for route in routes if old.judge(*route).allowed)
    return [(route, verdict) for route, verdict in judged if not verdict.allowed]
