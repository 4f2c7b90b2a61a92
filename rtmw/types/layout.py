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


class Runs:
    """The Structs of one run that starts at a phase that is known (`start`, a position) or not (None)."""

    def __init__(self, items: Sequence[Item], max_align: int, start: int | None, method: str) -> None:
        self._items = tuple(items)
        self._align = max_align
        self._start = start
        self._method = method
        self.cache: dict[int, Entry] = {}

    def offset(self, start: int) -> int:
        """Where an unpack call begins that is to read from `start`: back at phase 0, so that native order fits."""
        return start - self._lead()

    def fixed(self) -> Entry:
        """Method and end position, for a known start and no variable length."""
        return self.entry(0)

    def table(self) -> tuple[Entry, ...]:
        """Method and size for each of the eight phases; indexed by position mod 8."""
        return tuple(self.entry(position) for position in range(8))

    def entry(self, key: int) -> Entry:
        """Method, and end position (known start) or size. `key` is the length, or length * 8 + position mod 8."""
        if self._start is None:
            length, phase = key >> 3, (key - HEADER) & 7
            made = run(self._items, phase, self._align, length)
            entry = getattr(made, self._method), made.size
        else:
            length, phase = key, (self._start - HEADER) & 7
            lead = self._lead()
            made = run(self._items, phase, self._align, length, lead)
            entry = getattr(made, self._method), self._start - lead + made.size
        if length <= KEPT_LENGTH:
            self.cache[key] = entry
        return entry

    def _lead(self) -> int:
        if self._start is None or self._start < HEADER or self._method != "unpack_from":
            return 0
        return (self._start - HEADER) & 7
