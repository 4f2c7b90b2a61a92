"""Fields of a record, taken one after the other; whatever its lengths claim, nothing is taken from outside of it."""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Final, NoReturn

from rtmw.recording.damage import damaged

PAIR: Final = Struct("<HQ")


class Fields:
    """The content of one record, and where it lies, for the errors."""

    def __init__(self, path: Path, data: bytes | memoryview, position: int, what: str) -> None:
        self._path = path
        self._data = memoryview(data)
        self._position = position
        self._what = what
        self._at = 0

    def wrong(self, reason: str) -> NoReturn:
        raise damaged(self._path, self._position + self._at, f"{self._what}: {reason}")

    def taken(self) -> int:
        """How many bytes have been taken."""
        return self._at

    def left(self) -> int:
        return len(self._data) - self._at

    def bytes(self, size: int) -> memoryview:
        begin = self._passed(size)
        return self._data[begin : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.bytes(size), "little")

    def numbers(self, layout: Struct) -> tuple[int, ...]:
        """Several at once."""
        return layout.unpack_from(self._data, self._passed(layout.size))

    def _passed(self, size: int) -> int:
        """Where a field of so many bytes begins, which is taken with this."""
        begin = self._at
        if size > len(self._data) - begin:
            self.wrong(f"a field of {size} bytes, but {self.left()} are left")
        self._at = begin + size
        return begin

    def text(self) -> str:
        try:
            return str(self.bytes(self.number(4)), "utf-8")
        except UnicodeDecodeError:
            self.wrong("text that is not UTF-8")

    def part(self, what: str, length_bytes: int = 4) -> Fields:
        """A field with a length of so many bytes before it, as fields of its own."""
        size = self.number(length_bytes)
        begin = self._position + self._at
        return Fields(self._path, self.bytes(size), begin, what)

    def text_map(self) -> dict[str, str]:
        part = self.part(self._what)
        found: dict[str, str] = {}
        while part.left():
            key = part.text()
            found[key] = part.text()
        return found

    def number_map(self) -> dict[int, int]:
        """Map<u16, u64>."""
        size = self.number(4)
        if size % PAIR.size:
            self.wrong(f"a map of {size} bytes")
        return dict(PAIR.iter_unpack(self.bytes(size)))
