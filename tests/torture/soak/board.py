"""What the processes of the soak tell one another, in memory that outlives each of them."""

from __future__ import annotations

import mmap
import struct

INSTANCES = 1 << 14
BANDS = 8
PLACES = 16
HEADER = struct.Struct("<IIQ")
"""Of each message: instance of the publisher, band, number within both, counted from 1."""


class Board:
    """One writer a word; words are 64 bits and aligned, so that a reader sees the old or the new value."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, 8 * (INSTANCES * BANDS + PLACES + 1))).cast("Q")
        self.told = self._memory[: INSTANCES * BANDS]
        """By instance and band: how many of its messages a publisher was told are published."""
        self.progress = self._memory[INSTANCES * BANDS :][:PLACES]
        """By place: what a survivor has published or taken."""
        self._phase = self._memory[-1:]

    @property
    def phase(self) -> int:
        """RUN, STOP: publish no more, DRAIN: nobody publishes any more."""
        return self._phase[0]

    @phase.setter
    def phase(self, phase: int) -> None:
        self._phase[0] = phase

    def tell(self, instance: int, band: int, number: int) -> None:
        self.told[instance * BANDS + band] = number

    def told_to(self, instance: int, band: int) -> int:
        return self.told[instance * BANDS + band]


RUN, STOP, DRAIN = 0, 1, 2


def message(instance: int, band: int, number: int, size: int) -> bytes:
    """So many bytes that say whose they are and that they are whole."""
    return HEADER.pack(instance, band, number) + bytes([number & 0xFF]) * size


def origin(data: memoryview) -> tuple[int, int, int]:
    """Instance, band and number of a message that is whole."""
    instance, band, number = HEADER.unpack_from(data)
    payload = bytes(data[HEADER.size :])
    assert payload.count(number & 0xFF) == len(payload), f"message {number} of {instance} is damaged"
    return instance, band, number
