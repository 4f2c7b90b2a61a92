"""How much may leave towards single hosts: which of them the settings limit, and by how much (peer_rates.h).

A host has a name, as its programs say it, and an address. All participants of one address share one limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rtmw.net.dds.discovery import Program
from rtmw.net.dds.library import Engine
from rtmw.patterns import is_meant

PLACES: Final = 64
"""Hosts with a limit of their own: those that come later share the last place, and the lowest of their limits."""


class PeerRates:
    """Limits in bytes a second for the messages to each host. Not for several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rates: tuple[tuple[str, int], ...] = ()
        self._places: dict[str, int] = {}
        """By address."""
        self._limits: dict[int, int] = {}
        """Bytes a second, by place."""

    def set(self, rates: tuple[tuple[str, int], ...]) -> None:
        """Patterns of hosts and addresses, and bytes a second; the first pattern that fits counts."""
        if rates != self._rates:
            self._rates, self._places = rates, {}
            for place in self._limits:
                self._engine.peer_rate(place, 0)
            self._limits = {}

    def rate(self, program: Program) -> int:
        """Bytes a second that may leave towards the host of a program; 0: no limit."""
        names = (program.host, address_of(program))
        return next((rate for pattern, rate in self._rates if any(is_meant(name, pattern) for name in names)), 0)

    def places(self, programs: Iterable[Program]) -> int:
        """A bit for each place whose limit holds for a route that these programs read; for Route.limit."""
        found = 0
        for program in programs if self._rates else ():
            limit = self.rate(program)
            if limit:
                found |= 1 << self._place(address_of(program) or program.host, limit)
        return found

    def _place(self, address: str, limit: int) -> int:
        place = self._places.setdefault(address, min(len(self._places), PLACES - 1))
        lowest = min(limit, self._limits.get(place, limit))
        if self._limits.get(place) != lowest:
            self._limits[place] = lowest
            self._engine.peer_rate(place, lowest)
        return place


def address_of(program: Program) -> str:
    """The address of a program as `peers` has it: without the port and without brackets."""
    return program.address.rpartition(":")[0].removeprefix("[").removesuffix("]").partition("%")[0]
