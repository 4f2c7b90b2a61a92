"""Controls that wait until a line takes them. The bytes that may wait for a peer are bounded."""

from __future__ import annotations

from collections import deque
from typing import Final

from rtmw.net.link.library import Line

CONTROLS_MOST: Final = 1024
"""Controls that are given to a line and have not left yet; more wait here."""
UNSAID_MOST: Final = 64 << 20
"""Bytes that may wait here. A peer for which so much waits takes no controls, and goes on to send some that need an
answer: an honest one sends none when it stands still."""
CONTROL_BYTES: Final = 100
"""Memory of a control beside its bytes."""


class Mouth:
    """Of one line. Not for several threads."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._waiting: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data) + CONTROL_BYTES

    def say(self) -> None:
        """Give the line what it takes."""
        room = CONTROLS_MOST - self._line.info()["controls"] if self._waiting else 0
        while self._waiting and room > 0:
            data = self._waiting.popleft()
            self._size -= len(data) + CONTROL_BYTES
            self._line.say(data)
            room -= 1

    @property
    def is_behind(self) -> bool:
        """True: controls that can wait should not be said now."""
        return len(self._waiting) >= CONTROLS_MOST

    @property
    def is_full(self) -> bool:
        return self._size > UNSAID_MOST
