"""Where each number of a run lies: runs of CDR primitives as `struct.Struct` objects, padding worked out in advance.

CDR aligns from the first byte after the four of the encapsulation header, so a position p of the payload has
phase (p - 4) mod 8. A run that starts at a known phase has one Struct; one that starts anywhere has eight. A run may
hold one string of octets of variable length; then there is a Struct for each length, made when first met.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

KEPT_LENGTH: Final = 2048
"""Structs for longer runs are made each time: that costs little beside such a message, and memory stays bounded."""

HEADER: Final = 4


@dataclass(frozen=True)
class Item:
    """One number, or a row of them. `count` None: as many as the key says, plus `extra`."""

    code: str
    size: int
    count: int | None = 1
    extra: int = 0

    def length(self, key: int) -> int:
        return key + self.extra if self.count is None else self.count


def run(items: Sequence[Item], phase: int, max_align: int, key: int = 0, lead: int = 0) -> struct.Struct:
    """The Struct of a run. `phase` counts from the first byte after the header; `lead` bytes are skipped before it."""
    text, natural, position = (f"{lead}x" if lead else ""), True, phase
    for item in items:
        length = item.length(key)
        if length < 0:
            raise ValueError("a string has length 0, without its terminator")
        if item.count is not None or length:
            pad = -position % min(item.size, max_align)
            text += f"{pad}x" if pad else ""
            position += pad
        natural = natural and (position - phase + lead) % item.size == 0
        text += item.code if length == 1 and item.code != "s" else f"{length}{item.code}"
        position += item.size * length
    # native order is faster for floats, but aligns by itself: allowed where that changes nothing
    return struct.Struct(("@" if natural and sys.byteorder == "little" else "<") + text)


Entry = tuple[Callable[..., Any], int]
"""A method of a Struct, and how far it moves the position."""


class Runs:
    """The Structs of one run: for one phase, or for whichever phase it is met at (None)."""

    def __init__(self, items: Sequence[Item], max_align: int, phase: int | None, method: str, lead: int = 0) -> None:
        self._items = tuple(items)
        self._align = max_align
        self._phase = phase
        self._method = method
        self._lead = lead
        self.open = phase is None
        self.cache: dict[int, Entry] = {}

    def table(self) -> tuple[Entry, ...]:
        """The entry of each of the eight phases; indexed by position mod 8."""
        return tuple(self.entry(position) for position in range(8))

    def entry(self, key: int) -> Entry:
        """`key` is the variable length; where the phase is open, length * 8 + position mod 8."""
        length, phase = (key >> 3, (key - HEADER) & 7) if self._phase is None else (key, self._phase)
        made = run(self._items, phase, self._align, length, self._lead)
        entry = getattr(made, self._method), made.size - self._lead
        if length <= KEPT_LENGTH:
            self.cache[key] = entry
        return entry


@dataclass
class Place:
    """What is known of a position in the payload while code is generated."""

    at: int | None
    """The position itself; None: only the variable `p` knows."""
    even: bool = False
    """It is a multiple of four."""
    settled: bool = False
    """Its phase is 0: `p` has been rounded up."""

    def phase(self, items: Sequence[Item], max_align: int) -> int | None:
        """The phase at which a run of these items can be laid out; None: it depends on `p`."""
        if self.at is not None:
            return (self.at - HEADER) & 7
        if self.settled:
            return 0
        return 0 if self.even and all(min(item.size, max_align) <= 4 for item in items) else None

    def pass_over(self, items: Sequence[Item], advance: int | None) -> None:
        """Behind a run; `advance` None when its length is variable."""
        self.at = None if self.at is None or advance is None else self.at + advance
        self.even = items[-1].size >= 4
        self.settled = False
