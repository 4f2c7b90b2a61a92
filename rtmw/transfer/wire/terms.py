"""Sizes of the protocol between two cores, and the chain of hashes over what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from xxhash import xxh3_128

__all__ = ["HASH", "MOST_ARRIVING", "MOST_OFFERS", "START", "ZERO", "Chain", "Mark", "Terms"]

HASH: Final = 16
"""Bytes of a value of the chain: XXH3 with 128 bits."""
MOST_OFFERS: Final = 256
"""Without an answer, on a stream."""
MOST_ARRIVING: Final = 4 * MOST_OFFERS
"""Of one peer, also of streams before: more are put off."""
ZERO: Final = bytes(HASH)
"""The value before the first block."""


@dataclass(frozen=True, slots=True)
class Terms:
    """In bytes, but for the seconds. Both cores have the same block; each other one is its own."""

    block: int = 8 << 20
    """Between two marks: a restart reads so much, and at most so much and the window is sent again."""
    piece: int = 1 << 20
    window: int = 8 << 20
    """That may be on its way beyond the last block that is durable at the receiver."""
    eager: int = 64 << 10
    """A body up to here follows its OFFER at once."""
    rest: float = 1.0
    """Seconds until what the receiver cannot take now is offered again."""

    @property
    def reach(self) -> int:
        """From what is durable at the receiver to the last byte that may be sent: a whole block has to fit."""
        return self.block + self.window


class Mark(NamedTuple):
    """Up to here all is the same on both sides. `position` is the end of a block, or 0."""

    position: int = 0
    value: bytes = ZERO
    before: bytes = ZERO
    """The value one block earlier: with it, reading one block again shows that it is still the same."""


START: Final = Mark()
"""Nothing was sent yet."""


class Chain:
    """Value of the chain at the end of a block: XXH3 of the value before it and of the block. It finds mistakes;
    against those who may be hostile on the way there is TLS."""

    def __init__(self, block: int, mark: Mark | None = None) -> None:
        mark = mark or START
        self.block, self.position, self.marks = block, mark.position, [mark]
        """`marks`: those that have been passed, and the one at which it began."""
        self._hash = xxh3_128(mark.value)

    def add(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            size = self.block - self.position % self.block
            self._hash.update(rest[:size])
            self.position += len(rest[:size])
            rest = rest[size:]
            if self.position % self.block == 0:
                last = self.marks[-1].value
                self.marks.append(Mark(self.position, self._hash.digest(), last))
                self._hash = xxh3_128(self.marks[-1].value)

    @property
    def value(self) -> bytes:
        """Of all up to here; a block that has just begun counts for nothing."""
        return self._hash.digest() if self.position % self.block else self.marks[-1].value
