"""Fields of headers and records as bytes: little endian, texts with their length in 16 bits before them."""

from __future__ import annotations

from typing import Final, NoReturn

from rtmw.transfer.errors import TransfersDamaged
from rtmw.types.fields import TakenFields

__all__ = ["LONGEST_TEXT", "Fields", "check_range", "packed_text", "packed_words"]

LONGEST_TEXT: Final = 4096
"""Bytes of a name, an address or a cause: as long as a path of Linux."""


class Fields(TakenFields):
    """Takes fields from the front. `position`: where the bytes lie, for the errors. Raises TransfersDamaged."""

    def wrong(self, reason: str) -> NoReturn:
        raise TransfersDamaged(f"{self._what} at {self._position}, byte {self._at}: {reason}", self._position)

    def short_text(self) -> str:
        """A text of at most LONGEST_TEXT bytes."""
        size = self.number(2)
        if size > LONGEST_TEXT:
            self.wrong(f"a text of {size} bytes; at most {LONGEST_TEXT} are possible")
        try:
            return str(self.bytes(size), "utf-8")
        except UnicodeDecodeError:
            self.wrong("text that is not UTF-8")

    def end(self) -> None:
        if self.left():
            self.wrong(f"{self.left()} bytes too many")


def packed_text(text: str, what: str) -> bytes:
    """Return a text as bytes, with its length before it. Raises ValueError: it is too long, or has half a character."""
    data = text.encode()
    if len(data) > LONGEST_TEXT:
        raise ValueError(f"{what} has {len(data)} bytes; at most {LONGEST_TEXT} are possible")
    return len(data).to_bytes(2, "little") + data


def packed_words(text: str) -> bytes:
    """Return a sentence for people as bytes, cut to the longest text, with `?` for half a character. It cannot fail:
    what the sentence says may quote names of others."""
    data = text.encode(errors="replace")[:LONGEST_TEXT]
    return packed_text(data.decode(errors="ignore"), "a sentence")


def check_range(what: str, value: int, most: int) -> None:
    """Raises ValueError, unless it is a whole number from 0 to `most`."""
    if isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{what}={value!r} is not possible; it is a whole number from 0 to {most}")
