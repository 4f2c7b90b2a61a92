"""Columns of whole numbers in few bytes, a piece for each chunk: the numbers of a chunk lie close together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[Any]

_NARROW: Final[dict[str, int]] = {"u1": 0xFF, "u2": 0xFFFF, "u4": 0xFFFFFFFF}
"""Kinds, each with its largest number."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A piece of a column: its least number, and how far each number lies above it."""

    least: int
    count: int
    above: Column | None
    """None: all numbers are the least one."""

    def unpack(self, into: Column) -> None:
        """`into`: as long as the piece, of the kind that the column has."""
        if self.above is None:
            into[:] = self.least
        else:
            np.add(self.above, self.least, out=into, dtype=into.dtype)


def packed(column: Column) -> Packed:
    """Of a column with at least one number."""
    least, most = int(column.min()), int(column.max())
    if least == most:
        return Packed(least, len(column), None)
    kind = next((kind for kind, largest in _NARROW.items() if most - least <= largest), None)
    if kind is None:
        return Packed(0, len(column), column)
    return Packed(least, len(column), (column - least).astype(kind))


class PackedRows(Mapping[str, "Column"]):
    """The columns of a topic by name. Each look-up makes a column anew: hold it while it is used, and no longer."""

    def __init__(self, pieces: Sequence[Mapping[str, Packed]], kinds: Mapping[str, np.dtype[Any]]) -> None:
        self._pieces, self._kinds = pieces, kinds

    def __getitem__(self, name: str) -> Column:
        pieces = [piece[name] for piece in self._pieces]
        column, begin = np.empty(sum(piece.count for piece in pieces), self._kinds[name]), 0
        for piece in pieces:
            piece.unpack(column[begin : begin + piece.count])
            begin += piece.count
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)
