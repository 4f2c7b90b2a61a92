"""The limits of a session: credit, buffers, lease."""

from __future__ import annotations

from dataclasses import dataclass

from rtmw.net.session.hello import Hello, chooses

MOST_STREAMS = 512
"""Streams that one side may open at a time: those of both sides stand in one RESUME."""


@dataclass(frozen=True)
class Terms:
    """The limits that this node sets for its sessions. Sizes in bytes, times in seconds."""

    lease: float = 10.0
    """A peer of which nothing is heard for so long is dead, and the session with it. The shorter one of both counts."""
    stream_credit: int = 1 << 20
    """How many bytes of a stream may come before the program reads them."""
    session_credit: int = 1 << 23
    """How many bytes of all streams of a session together may come before the program reads them."""
    send_buffer: int = 1 << 20
    """How many bytes of a stream are kept until the peer has acknowledged them; `write` waits for room."""
    streams: int = 256
    """How many streams the peer may have open at a time."""
    ack_delay: float = 0.025
    """An acknowledgement waits so long for others, unless a quarter of the credit is used."""

    def __post_init__(self) -> None:
        for name in ("lease", "stream_credit", "session_credit", "send_buffer", "streams", "ack_delay"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)!r} must be above 0")
        if self.streams > MOST_STREAMS:
            raise ValueError(f"streams={self.streams} must be at most {MOST_STREAMS}")
        if not self.lease <= 86400:
            raise ValueError(f"lease={self.lease} must be a day at most")
        if self.stream_credit >= 1 << 32 or self.session_credit >= 1 << 48:
            raise ValueError("stream_credit must be below 4 GiB, session_credit below 256 TiB")


@dataclass(frozen=True)
class Agreed:
    """The terms of one session, as they follow from both hellos."""

    is_first: bool
    """This side has the smaller uuid: it opens streams with odd numbers, and chooses the connection."""
    lease: float
    peer_stream_credit: int
    peer_session_credit: int
    peer_streams: int
    """How many streams this side may have open."""

    @classmethod
    def of(cls, mine: Hello, peer: Hello) -> Agreed:
        return cls(
            chooses(mine.node, peer.node),
            min(mine.lease, peer.lease),
            peer.stream_credit,
            peer.session_credit,
            min(peer.streams, MOST_STREAMS),
        )
