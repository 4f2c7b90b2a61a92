"""Fields of a record, taken one after the other; whatever its lengths claim, nothing is taken from outside of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import NoReturn


class TakenFields(ABC):
    """The content of one record, and where it lies, for the errors."""

    def __init__(self, data: bytes | memoryview, position: int, what: str) -> None:
        self._data = memoryview(data)
        self._size = len(data)
        self._position = position
        self._what = what
        self._at = 0

    @abstractmethod
    def wrong(self, reason: str) -> NoReturn:
        """Raise the error of records of this kind."""
        raise NotImplementedError

    def taken(self) -> int:
        """How many bytes have been taken."""
        return self._at

    def left(self) -> int:
        return self._size - self._at

    def rest(self) -> memoryview:
        """Returns what has not been taken yet, and does not take it."""
        return self._data[self._at :]

    def bytes(self, size: int) -> memoryview:
        begin = self._passed(size)
        return self._data[begin : self._at]

    def number(self, size: int) -> int:
        begin = self._passed(size)
        return int.from_bytes(self._data[begin : self._at], "little")

    def numbers(self, layout: Struct) -> tuple[int, ...]:
        """Several at once."""
        return layout.unpack_from(self._data, self._passed(layout.size))

    def _passed(self, size: int) -> int:
        """Takes a field of so many bytes, and returns where it begins."""
        begin = self._at
        if size > self._size - begin:
            self.wrong(f"a field of {size} bytes, but {self.left()} are left")
        self._at = begin + size
        return begin
