"""The last seconds of a recording, kept in memory until somebody wants them."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from rtmw.recording._mcap import ChunkBuilder

__all__ = ["Kept", "Ring"]


class Kept(NamedTuple):
    chunk: ChunkBuilder
    missed: dict[tuple[int, int], int]
    at_s: float
    """When it was full, on the monotonic clock."""


class Ring:
    """Whole chunks, the oldest first: of so many seconds, and at most so many of so many bytes."""

    def __init__(self, seconds: float, most: int, most_bytes: int) -> None:
        self._seconds, self._most, self._most_bytes = seconds, most, most_bytes
        self._kept: deque[Kept] = deque()
        self._bytes = 0

    def add(self, kept: Kept) -> list[Kept]:
        """Keep this one too. What is kept no longer is given back."""
        self._kept.append(kept)
        self._bytes += kept.chunk.size
        gone: list[Kept] = []
        while self._is_over(kept.at_s):
            gone.append(self._kept.popleft())
            self._bytes -= gone[-1].chunk.size
        return gone

    def take(self) -> list[Kept]:
        """All of them; nothing is kept any more."""
        taken = list(self._kept)
        self._kept.clear()
        self._bytes = 0
        return taken

    def _is_over(self, now_s: float) -> bool:
        if len(self._kept) < 2:
            return False
        is_old = self._kept[0].at_s < now_s - self._seconds
        return is_old or len(self._kept) > self._most or self._bytes > self._most_bytes
