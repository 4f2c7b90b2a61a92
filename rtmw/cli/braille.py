"""Lines of numbers on a terminal: eight dots a character."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a braille character, by row and column."""
_BLANK: Final = 0x2800


class Canvas:
    """A picture made of this many characters in width and height. x and y go from 0 to 1, from the left and from
    below."""

    def __init__(self, width: int, height: int) -> None:
        self._wide, self._high = 2 * width, 4 * height
        self._cells = [[_BLANK] * width for _ in range(height)]

    def line(self, points: Sequence[tuple[float, float] | None]) -> None:
        """Draws a line from point to point; None interrupts it."""
        before: tuple[int, int] | None = None
        for point in points:
            here = None if point is None else self._place(*point)
            if here is not None:
                self._stroke(before or here, here)
            before = here

    def _place(self, x: float, y: float) -> tuple[int, int]:
        return round(x * (self._wide - 1)), round((1 - y) * (self._high - 1))

    def _stroke(self, begin: tuple[int, int], end: tuple[int, int]) -> None:
        steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]), 1)
        for step in range(steps + 1):
            column = round(begin[0] + (end[0] - begin[0]) * step / steps)
            row = round(begin[1] + (end[1] - begin[1]) * step / steps)
            self._cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]

    def lines(self) -> list[str]:
        return ["".join(map(chr, row)) for row in self._cells]


def chart(
    xs: Sequence[float],
    ys: Sequence[float],
    size: tuple[int, int],
    ends: tuple[str, str],
    names: Sequence[str] = (),
) -> list[str]:
    """A picture of so many characters, width and height, with the range of values on its left and `ends` below.

    Points that are no number interrupt the line. `names`: of the values 0, 1, …, which stand on the left then.
    """
    finite = [y for y in ys if math.isfinite(y)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    first, last = (xs[0], xs[-1]) if len(xs) else (0.0, 1.0)
    height = max(size[1] - 1, 2)
    sides = _sides((low, high), height, names)
    margin = max(map(len, sides))
    width = max(size[0] - margin - 1, 8)
    canvas = Canvas(width, height)
    canvas.line(
        [
            (_share(x, first, last), _share(y, low, high)) if math.isfinite(y) else None
            for x, y in zip(xs, ys, strict=True)
        ]
    )
    rows = [f"{side:>{margin}} {row}".rstrip("⠀ ") for side, row in zip(sides, canvas.lines(), strict=True)]
    gap = max(width - len(ends[0]) - len(ends[1]), 1)
    return [*rows, " " * (margin + 1) + ends[0] + " " * gap + ends[1]]


def _sides(span: tuple[float, float], height: int, names: Sequence[str]) -> list[str]:
    """What stands on the left of each row: the least and the largest value, or the names of those between them."""
    low, high = span
    sides = [""] * height
    if not names:
        sides[0], sides[-1] = f"{high:.6g}", f"{low:.6g}"
    for value in range(round(low), round(high) + 1) if names else ():
        sides[round((1 - _share(value, low, high)) * (height - 1))] = names[value]
    return sides


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5
