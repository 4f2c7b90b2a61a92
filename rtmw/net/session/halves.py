"""The two halves of a stream as positions and bytes: what is sent and kept, and what is received.

    start <= acknowledged <= sent <= written          of a sending half; sent <= limit
    start <= durable <= received <= limit             of a receiving half; consumed <= received

A position is a 64-bit offset in the stream and may begin anywhere.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from rtmw.net.session.errors import Violation

LAST: Final = (1 << 64) - 1
JOINED: Final = 4096
"""Small pieces are joined up to this size: each piece costs more than its bytes."""


class Sending:
    """Bytes from the first that is not acknowledged on, in the pieces in which they were written."""

    def __init__(self, start: int, limit: int) -> None:
        self.start = start
        self.acknowledged = self.durable = self.sent = self.written = start
        self.reached = start
        """The highest `sent` ever: bytes below it go again after a cut, and take no credit again."""
        self.limit = limit
        self.end: int | None = None
        """Position behind the last byte, once that is written."""
        self.is_done = False
        """The peer has said for good that it has all."""
        self.is_refused = False
        """The last write found no room; the writer is told when there is some."""
        self._pieces: deque[memoryview] = deque()
        self._at = start
        """Position of the first piece."""
        self._next = 0
        """Index of the piece that holds position `sent`."""
        self._next_at = start
        """Position of that piece."""

    def write(self, data: memoryview) -> None:
        """Keep these bytes. They must not change any more."""
        if self.written + len(data) > LAST:
            raise ValueError(f"a stream ends before position 2^64; {self.written} and {len(data)} bytes are more")
        self.written += len(data)
        if self._next < len(self._pieces) and len(self._pieces[-1]) + len(data) <= JOINED:
            self._pieces[-1] = memoryview(bytes(self._pieces[-1]) + data)
        elif len(data):
            self._pieces.append(data)

    @property
    def kept(self) -> int:
        """Bytes kept: those not acknowledged."""
        return self.written - self.acknowledged

    def sendable(self) -> int:
        """Bytes that the credit of the stream lets go now."""
        return min(self.written, self.limit) - self.sent

    def take(self, most: int) -> list[memoryview]:
        """The next bytes to send, at most so many, in pieces; they count as sent."""
        parts: list[memoryview] = []
        most = min(most, self.sendable())
        while most > 0:
            piece = self._pieces[self._next]
            begin = self.sent - self._next_at
            part = piece[begin : begin + most]
            parts.append(part)
            self.sent += len(part)
            most -= len(part)
            if begin + len(part) == len(piece):
                self._next += 1
                self._next_at += len(piece)
        self.reached = max(self.reached, self.sent)
        return parts

    def acknowledge(self, received: int, durable: int, limit: int) -> bool:
        """Take in an ACK: an older one says less and changes nothing. Is anything new? Raises Violation."""
        if not self.start <= durable <= received <= self.sent:
            raise Violation(
                f"ACK of {received}, durable {durable}, of a stream that was sent from {self.start} to {self.sent}"
            )
        changed = received > self.acknowledged or durable > self.durable or limit > self.limit
        self.durable, self.limit = max(durable, self.durable), max(limit, self.limit)
        if received > self.acknowledged:
            self.acknowledged = received
            self._let_go()
        return changed

    def _let_go(self) -> None:
        while self._pieces and self._at + len(self._pieces[0]) <= self.acknowledged:
            self._at += len(self._pieces.popleft())
            self._next -= 1

    def rewind(self, received: int) -> None:
        """After a cut: the next byte is the first that the peer has not received. Raises Violation."""
        if not self.acknowledged <= received <= self.sent:
            raise Violation(f"RESUME at {received}; acknowledged up to {self.acknowledged}, sent up to {self.sent}")
        self.acknowledged = self.sent = received
        self._let_go()
        self._next, self._next_at = 0, self._at

    def drop(self) -> None:
        """Keep no byte any more: the stream was reset."""
        self._pieces.clear()
        self.written = self.sent


class Receiving:
    """The bytes of a stream that have come, and how many more may come."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.start: int | None = None
        """Position of the first byte; None before the peer has said it."""
        self.received = self.durable = self.consumed = 0
        self.end: int | None = None
        self.told = self.told_durable = self.told_limit = 0
        """The values of the last ACK."""
        self.sent_done = False

    def begin(self, start: int) -> None:
        self.start = self.received = self.durable = self.consumed = self.told = self.told_durable = start
        self.told_limit = min(start + self.window, LAST)
        """The first window is the one of the hello: no ACK says it."""

    @property
    def limit(self) -> int:
        """Up to where the peer may send."""
        return min(max(self.told_limit, self.consumed + self.window), LAST)

    def take(self, position: int, size: int) -> None:
        """Bytes have come. Raises Violation, if others are due, or more than was allowed."""
        if self.start is None:
            raise Violation("DATA before the position of its first byte was said")
        if position != self.received:
            raise Violation(f"DATA at {position}; the next byte of the stream is {self.received}")
        if position + size > self.told_limit:
            raise Violation(f"DATA up to {position + size}; {self.told_limit} was allowed")
        if self.end is not None and position + size > self.end:
            raise Violation(f"DATA up to {position + size}, behind the end of the stream at {self.end}")
        self.received += size

    def finish(self, end: int) -> None:
        """The peer says where its bytes end. Raises Violation."""
        if self.start is None or self.end is not None:
            raise Violation("END of a stream that has not begun, or a second one")
        if not self.received <= end:
            raise Violation(f"END at {end}, of a stream received up to {self.received}")
        self.end = end

    @property
    def is_whole(self) -> bool:
        """All has come and was read."""
        return self.end is not None and self.consumed == self.end

    def owes(self, share: int) -> bool:
        """Is an ACK due at once: something new is durable, or that share of the window was received or read?"""
        if self.start is None or self.sent_done:
            return False
        step = max(1, self.window // share)
        grown = max(self.received - self.told, self.limit - self.told_limit)
        return self.durable > self.told_durable or grown >= step

    @property
    def has_news(self) -> bool:
        """Would an ACK say anything new?"""
        if self.start is None or self.sent_done:
            return False
        return (self.received, self.durable, self.limit) != (self.told, self.told_durable, self.told_limit)

    def tell(self) -> tuple[int, int, int]:
        """The numbers of an ACK, which is then sent."""
        self.told, self.told_durable, self.told_limit = self.received, self.durable, self.limit
        return self.told, self.told_durable, self.told_limit
