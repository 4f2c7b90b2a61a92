"""The second frame, which agents of this package speak on the ports of the first: any bytes, priorities, lifetimes.

All numbers are little-endian. The agent sends a hello, the server a welcome or, with the reason in words, an alert and
the end; before the welcome the agent sends nothing else. Then both send frames:

    hello    | magic 8 | version 2 | flags 2 | address 4 | t1 8 | n1 4 |
    welcome  | magic 8 | version 2 | flags 2 | t2 8 | n2 4 | longest data 4 | highest stamp stored 22 |
    frame    | length 4 | kind 1 | priority 1 | zero 2 | lifetime 8 | head 35 | data | CRC 4, if the welcome says so |

The head is that of the paper's frame without its header. The kind says what a frame is, so its type says nothing. The
three bytes of the checksum protect nothing here: an answer begins with the stamp and those bytes as they came.
"""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from typing import Final, NamedTuple, Self

from rtmw.checksum import crc32
from rtmw.relay.frame import ADDRESS, STAMP, Form, Frame, FrameError
from rtmw.relay.rows import HEAD_ROW, frame_of, head_of

__all__ = ["LONGEST_DATA", "MAGIC", "Filter", "Hello", "Kind", "OwnSplitter", "Packet", "Welcome", "encode"]

MAGIC: Final = b"RTMWRLY\0"
VERSION: Final = 1
LONGEST_DATA: Final = 1 << 20
NO_PRIORITY: Final = 255
_CRC: Final = 1
"""The flag of a hello that asks for a CRC behind each frame, and of the welcome that decides it for both ways."""
_OPENING: Final = struct.Struct("<8sHH")
_HELLO: Final = struct.Struct(f"<{ADDRESS}sdI")
_WELCOME: Final = struct.Struct(f"<dII{STAMP}s")
_FRAME: Final = struct.Struct("<IBBHQ")
_LENGTH: Final = struct.Struct("<I")
_BARE: Final = _FRAME.size - _LENGTH.size + HEAD_ROW
"""The length of a frame without data and CRC."""


class Kind(IntEnum):
    """What a frame is."""

    ORDER = 1
    RECEIPT = 2
    ANSWER = 3
    ALERT = 4
    NOTICE = 5
    """An order is stored, and kept for a recipient that is away: its source need not send it again while the connection
    lasts. On the next one it sends once more what has no receipt yet, and has the answer or another notice."""
    FOLLOW = 6
    UNFOLLOW = 7
    PING = 8
    PONG = 9


_KINDS: Final = frozenset(Kind)


def kind_of(frame: Frame, form: Form) -> Kind | None:
    """What a frame of the paper is; None: it has a type that there is not."""
    if frame.type == form.answer:
        return Kind.ALERT if frame.command == form.alert else Kind.ANSWER if frame.body else Kind.RECEIPT
    return Kind.ORDER if frame.type == form.order else None


class Packet(NamedTuple):
    """One frame with what the paper's does not have."""

    kind: Kind
    frame: Frame
    priority: int | None = None
    lifetime: float = 0.0
    """Seconds; 0: as the rules say."""


LETTER: Final = r"[!-)+-.0->@-Z\\^-z|~]"
"""A command that neither a pattern nor a subject gives a meaning to: not * ? [ ] / { }."""
_COMMAND: Final = re.compile(rf"\*|{LETTER}|0x[0-9a-f]{{2}}")


class Filter(NamedTuple):
    """Which orders to a subject a subscription is for; `*` means any. The data of FOLLOW and UNFOLLOW."""

    source: str = "*"
    command: str = "*"
    performative: str = "*"

    def fits(self, source: tuple[str, ...], command: str, performative: str | None) -> bool:
        """`source`: the names that an agent has. `performative`: None, if the body is no KQML."""
        return (
            self.source in ("*", *source)
            and self.command in ("*", command)
            and self.performative in ("*", performative)
        )

    def checked(self) -> Self:
        """Raises FrameError where no order can have such a command."""
        if not _COMMAND.fullmatch(self.command):
            raise FrameError(f"{self.command!r} is no command: it is one letter such as U, or 0x07; or * for any")
        return self

    def encode(self) -> bytes:
        return "\0".join(self).encode("utf-8", "replace")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises FrameError."""
        parts = data.decode("utf-8", "replace").split("\0")
        if len(parts) > len(cls._fields) or "" in parts[: len(parts) if data else 0]:
            raise FrameError(f"{data[:80]!r} is no filter: it is a source, a command and a performative, * for any")
        return cls(*parts) if data else cls()


ALL: Final = Filter()


class Hello(NamedTuple):
    """The first bytes of an agent."""

    address: bytes
    t1: float
    n1: int
    crc: bool = False

    def encode(self) -> bytes:
        return _OPENING.pack(MAGIC, VERSION, _CRC * self.crc) + _HELLO.pack(self.address, self.t1, self.n1)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """SIZE_OF_HELLO bytes. Raises FrameError."""
        flags, rest = _opened(data, SIZE_OF_HELLO)
        address, t1, n1 = _HELLO.unpack(rest)
        return cls(address, t1, n1, bool(flags & _CRC))


class Welcome(NamedTuple):
    """The first bytes of the server."""

    t2: float
    n2: int
    longest: int
    """Bytes of data."""
    highest: bytes = b""
    """Of the agent's own stamps, the highest whose order was stored; empty: none was."""
    crc: bool = False

    def encode(self) -> bytes:
        rest = _WELCOME.pack(self.t2, self.n2, self.longest, self.highest)
        return _OPENING.pack(MAGIC, VERSION, _CRC * self.crc) + rest

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """SIZE_OF_WELCOME bytes. Raises FrameError."""
        flags, rest = _opened(data, SIZE_OF_WELCOME)
        t2, n2, longest, highest = _WELCOME.unpack(rest)
        return cls(t2, n2, longest, highest if any(highest) else b"", bool(flags & _CRC))


SIZE_OF_HELLO: Final = _OPENING.size + _HELLO.size
SIZE_OF_WELCOME: Final = _OPENING.size + _WELCOME.size


def _opened(data: bytes, size: int) -> tuple[int, bytes]:
    if len(data) != size or data[: len(MAGIC)] != MAGIC:
        raise FrameError(f"{data[:size]!r} is no hello of {size} bytes with {MAGIC!r}")
    _, version, flags = _OPENING.unpack_from(data)
    if version != VERSION:
        raise FrameError(f"a hello of version {version}; this side speaks version {VERSION}")
    return flags, data[_OPENING.size :]


def encode(packet: Packet, crc: bool = False) -> bytes:
    """Raises FrameError for a priority, a lifetime or data that a frame has no room for."""
    priority = NO_PRIORITY if packet.priority is None else packet.priority
    lifetime = round(packet.lifetime * 1e6)
    if not 0 <= priority <= NO_PRIORITY or not 0 <= lifetime < 1 << 64:
        raise FrameError(f"priority {priority} and lifetime {packet.lifetime:g} s do not fit a frame")
    length = _BARE + len(packet.frame.data) + _LENGTH.size * crc
    if len(packet.frame.data) > LONGEST_DATA:
        raise FrameError(f"data of {len(packet.frame.data)} bytes; a frame has at most {LONGEST_DATA}")
    raw = _FRAME.pack(length, packet.kind, priority, 0, lifetime) + head_of(packet.frame) + packet.frame.data
    return raw + _LENGTH.pack(crc32(raw)) if crc else raw


class OwnSplitter:
    """Divides what a connection brings behind hello and welcome; however it was cut, the frames are the same."""

    def __init__(self, crc: bool = False) -> None:
        self._crc, self._least = crc, _BARE + _LENGTH.size * crc
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes of a frame that has not come whole."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Packet]:
        """The frames that are whole with these bytes. Raises FrameError: then the connection is to be closed."""
        self._buffer += data
        packets, at = list[Packet](), 0
        while len(self._buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            if not self._least <= length <= self._least + LONGEST_DATA:
                raise FrameError(f"a frame of length {length}; this side takes data of at most {LONGEST_DATA} bytes")
            end = at + _LENGTH.size + length
            if end > len(self._buffer):
                break
            packets.append(self._whole(bytes(self._buffer[at:end])))
            at = end
        del self._buffer[:at]
        return packets

    def _whole(self, raw: bytes) -> Packet:
        if self._crc:
            raw, found = raw[: -_LENGTH.size], raw[-_LENGTH.size :]
            if _LENGTH.pack(crc32(raw)) != found:
                raise FrameError("a frame with a wrong CRC: it was changed on its way")
        _, kind, priority, zero, lifetime = _FRAME.unpack_from(raw)
        if zero or kind not in _KINDS:
            raise FrameError(
                f"a frame of kind {kind} with {zero} behind it; this side knows kinds 1 to {max(Kind):d}, with 0"
            )
        head, data = raw[_FRAME.size : _FRAME.size + HEAD_ROW], raw[_FRAME.size + HEAD_ROW :]
        return Packet(Kind(kind), frame_of(head, data), None if priority == NO_PRIORITY else priority, lifetime / 1e6)
