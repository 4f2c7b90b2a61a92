"""Payloads as they lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rtmw.errors import ValueMismatch

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class Rows:
    """Payloads in one piece of memory: row i has `size[i]` bytes from `position[i]`."""

    data: Buffer
    position: np.ndarray[Any, np.dtype[np.int64]]
    size: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, part: slice | np.ndarray[Any, np.dtype[np.intp]]) -> Rows:
        """Some of the rows: a slice, or those of these numbers."""
        return Rows(self.data, self.position[part], self.size[part])

    def lent(self) -> tuple[Buffer, Buffer, Buffer]:
        """Returns data, positions and sizes in the form that the C side takes."""
        position: Any = np.ascontiguousarray(self.position, np.int64)
        size: Any = np.ascontiguousarray(self.size, np.int64)
        return self.data, position, size

    def views(self) -> list[memoryview]:
        """Returns a view of each payload where it lies."""
        view = memoryview(self.data)
        ends = (self.position + self.size).tolist()
        return [view[begin:end] for begin, end in zip(self.position.tolist(), ends, strict=True)]

    def halves(self) -> tuple[Rows, Rows]:
        """Returns the rows in two halves, for when they are too many for one batch. OverflowError: it is one row
        only."""
        half = len(self) // 2
        if half == 0:
            raise OverflowError("one message has more than 2 GiB of a column")
        return self[:half], self[half:]

    def damage(self, row: int, name: str, reason: str, first: int = 0) -> ValueMismatch:
        """The error that names one of them. `first`: the number of the first row, where these are a part of others."""
        where = f"row {first + row}, {int(self.size[row])} bytes from byte {int(self.position[row])}"
        return ValueMismatch(f"{name}: the payload of {where}, is damaged: {reason}")
