"""Senders and inboxes that have joined a core, and to whom senders have sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rtmw.transfer.address import Address, Life

__all__ = ["Addressed", "Member"]

KNOWN_MOST: Final = 64
"""Addresses of a sender that are remembered."""


@dataclass(frozen=True, slots=True)
class Member:
    """A sender (role 0) or an inbox (role 1)."""

    life: Life
    slot: int
    role: int
    name: str
    folder: str
    """Of an inbox that takes files; else empty."""


class Addressed:
    """The addresses of all senders, for tools."""

    def __init__(self) -> None:
        self._known: dict[Life, set[Address]] = {}

    def add(self, life: Life, to: Address) -> None:
        known = self._known.setdefault(life, set())
        if to not in known and len(known) < KNOWN_MOST:
            known.add(to)

    def of(self, life: Life) -> list[str]:
        return sorted(map(str, self._known.get(life, ())))

    def forget(self, life: Life) -> None:
        self._known.pop(life, None)
