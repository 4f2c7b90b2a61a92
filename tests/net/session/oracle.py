"""What the simulated wire compares with: which byte belongs at which position, and how far each side has come."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from rtmw.net.session.hello import Terms

TERMS = Terms(lease=8.0, stream_credit=700, session_credit=1500, send_buffer=900, streams=6)
PATTERN = bytes(random.Random(7).randbytes(4096 + 256))


def pattern(stream: int, sender: int, position: int, size: int) -> bytes:
    """The bytes of a stream by position: a byte in a wrong place is seen."""
    parts: list[bytes] = []
    position += stream * 37 + sender * 1009
    while size > 0:
        at = position % 4096
        part = PATTERN[at : min(at + size, 4096)]
        parts.append(part)
        position, size = position + len(part), size - len(part)
    return b"".join(parts)


@dataclass
class Half:
    """The oracle of one side of one stream."""

    start: int | None = None
    written: int = 0
    delivered: int = 0
    read: int = 0
    durable: int = 0
    has_ended: bool = False
    ended_by_peer: bool = False
    is_over: str = ""


@dataclass
class Direction:
    """Bytes on their way in one direction of a connection."""

    to: int
    queue: list[tuple[float, bytes]] = field(default_factory=list)
    last: float = 0.0
    is_deaf: bool = False
    """Nothing arrives any more, and nobody is told."""


class Connection:
    def __init__(self, number: int) -> None:
        self.number = number
        self.directions = (Direction(0), Direction(1))
        self.open = [True, True]
        """Each side's own view."""
        self.is_cut = False
