"""Control frames: counted, kept until the peer has them, and sent again after a cut. Each takes effect once."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from rtmw.net.session.errors import Violation
from rtmw.net.session.frames import Kind


class Control(NamedTuple):
    kind: Kind
    stream: int
    body: bytes
    flags: int


class Controls:
    """Controls of this side, in order. The position in this order is the count that the peer acknowledges."""

    def __init__(self) -> None:
        self._kept: deque[Control] = deque()
        self._first = 0
        """Number of the first one kept."""
        self._sent = 0
        """Number of the next one to send."""

    def __len__(self) -> int:
        """How many the peer is not known to have."""
        return len(self._kept)

    def add(self, kind: Kind, stream: int, body: bytes, flags: int = 0) -> int:
        """Say this. Returns its number."""
        self._kept.append(Control(kind, stream, body, flags))
        return self._first + len(self._kept) - 1

    def take(self) -> Control | None:
        """The next one to send, or None."""
        index = self._sent - self._first
        if index == len(self._kept):
            return None
        self._sent += 1
        return self._kept[index]

    def acknowledge(self, count: int) -> None:
        """The peer has received so many. Raises Violation, if that is more than were sent."""
        if count > self._sent:
            raise Violation(f"{count} control frames acknowledged, {self._sent} were sent")
        while self._first < count:
            self._kept.popleft()
            self._first += 1

    def rewind(self, count: int) -> None:
        """After a cut: the peer has received so many; the others go again. Raises Violation."""
        if count < self._first:
            raise Violation(f"RESUME at control frame {count}; {self._first} were acknowledged")
        self.acknowledge(count)
        self._sent = count
