"""The part of a session that belongs to the connection under it: reader, room, and the order in which frames go."""

from __future__ import annotations

from rtmw.net.session import frames as f
from rtmw.net.session.frames import PING, FrameReader, Kind, bye
from rtmw.net.session.state import State
from rtmw.net.session.telling import next_frame, resume_frame


class Connection:
    """Sends RESUME first; then, once the peer's has come, controls before acknowledgements before data."""

    def __init__(self, state: State, *, crc: bool) -> None:
        self.reader = FrameReader(crc=crc)
        self.room = 0
        """Bytes that the carrier takes now."""
        self.partial = 0
        """Bytes that have come since the peer was heard last."""
        self.is_resumed = False
        """The peer's RESUME has come."""
        self.ping: int | None = None
        self.pong: bytes | None = None
        self._state = state
        self._crc = crc
        self._has_said_resume = False

    def fill(self) -> bytes:
        """The next frames, as many as there is room for; the last one may be more than the room by its own size."""
        parts: list[bytes | memoryview] = []
        while self.room > 0:
            before = len(parts)
            self._next(parts)
            if len(parts) == before:
                break
            self.room -= sum(map(len, parts[before:]))
        return b"".join(parts)

    def bye(self, code: int, words: str) -> bytes:
        return bye(code, words, crc=self._crc)

    def _next(self, parts: list[bytes | memoryview]) -> None:
        if not self._has_said_resume:
            self._has_said_resume = True
            parts.append(resume_frame(self._state, crc=self._crc))
        elif self.pong is not None:
            parts.append(f.frame(Kind.PONG, 0, self.pong, crc=self._crc))
            self.pong = None
        elif self.ping is not None:
            parts.append(f.frame(Kind.PING, 0, PING.pack(self.ping), crc=self._crc))
            self.ping = None
        elif self.is_resumed:
            next_frame(self._state, parts, crc=self._crc)
