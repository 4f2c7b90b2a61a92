"""The hello: what each side says of itself first, in bytes that every version understands (docs/formats/session.md).

`Terms` are the limits that a node sets for its sessions (credit, buffers, lease), and says in its hello.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from rtmw.checksum import crc32
from rtmw.net.session.errors import Code, Violation
from rtmw.net.session.frames import CRC

MAGIC: Final = b"RTMWSES\0"
VERSION: Final = 1
MOST: Final = 4096
"""Bytes of a hello."""
FIXED: Final = struct.Struct("<8sHHHBB16sQQQIIQI")
LEAST: Final = FIXED.size + CRC.size
_START: Final = struct.Struct("<8sH")
_WITH_CRC: Final = 1
MOST_CAPABILITIES: Final = 1024
"""Bytes of all capabilities together."""


@dataclass(frozen=True)
class Hello:
    """The description that a node gives of itself when a connection begins."""

    node: UUID
    incarnation: int
    """Which life of the node: a later one has a larger number, for instance the nanoseconds of its start."""
    lowest: int = VERSION
    highest: int = VERSION
    """Versions of the protocol that it speaks."""
    site: int = 0
    """The site that it belongs to, as a number; hubs tell sites apart by it."""
    hops: int = 1
    """Over how many nodes what it sends may go."""
    number: int = 0
    """How many hellos it has sent in this incarnation: of two the larger is the later one."""
    lease: float = 10.0
    """Seconds; that of a session is the shorter one of both."""
    stream_credit: int = 1 << 20
    """Bytes that a stream to it may carry before its first ACK."""
    session_credit: int = 1 << 23
    """Bytes that all streams to it may carry before its first CREDIT."""
    streams: int = 256
    """How many streams the peer may have open at a time."""
    crc: bool = False
    """Each frame carries a CRC: so on connections without TLS."""
    capabilities: frozenset[str] = frozenset()
    """Its abilities beyond version 1, as words; a word that is not known is passed over."""

    def packed(self) -> bytes:
        """The hello as bytes. Raises ValueError for a number or a word that has no room."""
        words = ",".join(sorted(self.capabilities)).encode()
        if len(words) > MOST_CAPABILITIES or any("," in word or not word for word in self.capabilities):
            raise ValueError(f"capabilities are words without commas, {MOST_CAPABILITIES} bytes together at most")
        try:
            fixed = FIXED.pack(
                *(MAGIC, LEAST + len(words), self.lowest, self.highest, self.hops, self.crc, self.node.bytes),
                *(self.incarnation, self.site, self.number, round(self.lease * 1e3)),
                *(self.stream_credit, self.session_credit, self.streams),
            )
        except struct.error as error:
            raise ValueError(f"a number of the hello is out of its range: {error}") from None
        return fixed + words + CRC.pack(crc32(fixed + words))


def length_of(data: bytes | bytearray) -> int | None:
    """Bytes of the hello that begins here; None while that cannot be said. Raises Violation as soon as it is none."""
    if not MAGIC.startswith(bytes(data[:8])):
        raise Violation("what came first is no hello of rtmw")
    if len(data) < _START.size:
        return None
    length: int = _START.unpack_from(data)[1]
    if not LEAST <= length <= MOST:
        raise Violation(f"a hello of {length} bytes; one has {LEAST} to {MOST}")
    return length


def read(data: bytes) -> Hello:
    """A hello that has come whole. Raises Violation. Bytes that a newer version appended are passed over."""
    if CRC.unpack_from(data, len(data) - CRC.size)[0] != crc32(data[: -CRC.size]):
        raise Violation("the CRC of the hello is not that of its bytes", Code.DAMAGED)
    (_, _, lowest, highest, hops, flags, node, incarnation, site, number, lease, stream, session, streams) = (
        FIXED.unpack_from(data)
    )
    if not 0 < lowest <= highest:
        raise Violation(f"it speaks versions {lowest} to {highest}, which is no range")
    if lease == 0:
        raise Violation("a lease of 0")
    try:
        words = data[FIXED.size : -CRC.size].partition(b"\0")[0].decode()
    except UnicodeDecodeError:
        words = ""
    return Hello(
        node=UUID(bytes=node),
        incarnation=incarnation,
        lowest=lowest,
        highest=highest,
        site=site,
        hops=hops,
        number=number,
        lease=lease / 1e3,
        stream_credit=stream,
        session_credit=session,
        streams=streams,
        crc=bool(flags & _WITH_CRC),
        capabilities=frozenset(filter(None, words.split(","))),
    )


class Speaker(Protocol):
    """What a hello of a session and one of a link have in common."""

    @property
    def node(self) -> UUID: ...
    @property
    def lowest(self) -> int: ...
    @property
    def highest(self) -> int: ...


def chooses(mine: UUID, peer: UUID) -> bool:
    """Does this node decide where the two would do the same at once? The one with the smaller UUID does."""
    return mine.bytes < peer.bytes


def version_of(mine: Speaker, peer: Speaker) -> int:
    """The highest version that both speak. Raises Violation, in words that say what to do; also for the node itself."""
    if peer.node == mine.node:
        raise Violation("the node has reached itself: the address is its own, or its uuid was copied", Code.ITSELF)
    version = min(mine.highest, peer.highest)
    if version >= max(mine.lowest, peer.lowest):
        return version
    older = "peer" if peer.highest < mine.lowest else "node that says so"
    raise Violation(
        f"no version in common: {mine.lowest} to {mine.highest} here, {peer.lowest} to {peer.highest} at the peer; "
        f"install a newer rtmw at the {older}",
        Code.VERSION,
    )


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
