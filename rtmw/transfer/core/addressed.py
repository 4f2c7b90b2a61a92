"""To whom senders have sent, for tools."""

from __future__ import annotations

from typing import Final

from rtmw.transfer.address import Address, Life

__all__ = ["Addressed"]

MOST: Final = 64
"""Addresses of a sender that are remembered."""


class Addressed:
    """Of all senders."""

    def __init__(self) -> None:
        self._known: dict[Life, set[Address]] = {}

    def add(self, life: Life, to: Address) -> None:
        known = self._known.setdefault(life, set())
        if to not in known and len(known) < MOST:
            known.add(to)

    def of(self, life: Life) -> list[str]:
        return sorted(map(str, self._known.get(life, ())))

    def forget(self, life: Life) -> None:
        self._known.pop(life, None)
