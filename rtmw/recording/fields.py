"""Fields of a record of MCAP."""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Final, NoReturn

from rtmw.fields import TakenFields
from rtmw.recording.damage import damaged

PAIR: Final = Struct("<HQ")


class Fields(TakenFields):
    """Raises RecordingDamaged, which names the file."""

    def __init__(self, path: Path, data: bytes | memoryview, position: int, what: str) -> None:
        super().__init__(data, position, what)
        self._path = path

    def wrong(self, reason: str) -> NoReturn:
        raise damaged(self._path, self._position + self._at, f"{self._what}: {reason}")

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
