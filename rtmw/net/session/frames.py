"""Frames: the unit of what a connection carries after the hello. docs/formats/session.md has the bytes.

    u16 length | u8 kind | u8 flags | u32 stream | body | u32 CRC-32, if flag CRC is set

A length is compared with MOST before anything is kept by it. A frame of a kind with a fixed body has just that size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from rtmw.checksum import crc32
from rtmw.net.session.errors import Code, Violation

MOST: Final = 65532
"""Bytes of a frame: what its length can say, in whole words of 4 bytes."""
HEAD: Final = struct.Struct("<HBBI")
CRC: Final = struct.Struct("<I")
HAS_CRC: Final = 0x80
PRIORITY: Final = 0x07
"""Bits of the flags in which OPEN and DATA carry a priority, 0 to 7."""


class Kind(IntEnum):
    """Kinds of frames. Those from OPEN on are counted, and sent again after a cut: CONTROL."""

    HOLD = 1
    GO = 2
    BYE = 3
    RESUME = 4
    PING = 5
    PONG = 6
    CREDIT = 7
    DATA = 8
    ACK = 9
    OPEN = 10
    ACCEPT = 11
    END = 12
    DONE = 13
    RESET = 14


CONTROL: Final = frozenset({Kind.OPEN, Kind.ACCEPT, Kind.END, Kind.DONE, Kind.RESET})

HOLD: Final = struct.Struct("<Q")  # session held with the peer; 0: none
GO: Final = struct.Struct("<QQHB")  # attachment, session, version, 1 if HOLD named that session
BYE: Final = struct.Struct("<H")  # code; words follow
RESUME: Final = struct.Struct("<QH")  # controls received, number of streams; those follow
PLACE: Final = struct.Struct("<IQ")  # stream, received up to
PING: Final = struct.Struct("<Q")  # any value; PONG returns it
CREDIT: Final = struct.Struct("<QQ")  # bytes allowed since the session began, controls received
DATA: Final = struct.Struct("<Q")  # position of the first byte; bytes follow
ACK: Final = struct.Struct("<QQQ")  # received up to, durable up to, may be sent up to
OPEN: Final = struct.Struct("<Q")  # position of the opener's first byte; purpose follows
ACCEPT: Final = struct.Struct("<Q")  # position of the acceptor's first byte
END: Final = struct.Struct("<Q")  # position behind the last byte
DONE: Final = struct.Struct("<QQ")  # received up to (all), durable up to
RESET: Final = struct.Struct("<QH")  # position behind the last byte that was sent, code; words follow

BODIES: Final = {
    Kind.HOLD: (HOLD, 0),
    Kind.GO: (GO, 0),
    Kind.BYE: (BYE, 512),
    Kind.RESUME: (RESUME, MOST),
    Kind.PING: (PING, 0),
    Kind.PONG: (PING, 0),
    Kind.CREDIT: (CREDIT, 0),
    Kind.DATA: (DATA, MOST),
    Kind.ACK: (ACK, 0),
    Kind.OPEN: (OPEN, 255),
    Kind.ACCEPT: (ACCEPT, 0),
    Kind.END: (END, 0),
    Kind.DONE: (DONE, 0),
    Kind.RESET: (RESET, 512),
}
"""Fixed part of each kind's body, and how many bytes may follow it."""
_SIZES: Final = {int(kind): (kind, fixed.size, fixed.size + most) for kind, (fixed, most) in BODIES.items()}
"""The kind that a number means, and how many bytes its body has, at least and at most."""

NOTHING: Final = (1 << 64) - 1
"""In a RESUME: not even the position of the first byte is known."""
CHUNK: Final = MOST - HEAD.size - DATA.size - CRC.size
"""Payload bytes of a DATA frame, at most."""
MOST_STREAMS: Final = (MOST - HEAD.size - RESUME.size - CRC.size) // PLACE.size
"""Streams that one RESUME names, and so the most that a session has at a time: 5459."""


class Frame(NamedTuple):
    """A frame as it was read; `body` is lent, and valid until the reader is fed again."""

    kind: Kind
    flags: int
    stream: int
    body: memoryview

    def fields(self) -> tuple[int, ...]:
        """The numbers of the fixed part of the body."""
        return BODIES[self.kind][0].unpack_from(self.body)

    def rest(self) -> memoryview:
        """The bytes behind the fixed part."""
        return self.body[BODIES[self.kind][0].size :]

    def words(self) -> str:
        """The bytes behind the fixed part, as text. Raises Violation."""
        try:
            return str(self.rest(), "utf-8")
        except UnicodeDecodeError as error:
            raise Violation(f"{self.kind.name}: its text is not UTF-8: {error}") from None


def frame(kind: Kind, stream: int, body: bytes, *, flags: int = 0, crc: bool = False) -> bytes:
    """A frame as bytes."""
    if not crc:
        return HEAD.pack(HEAD.size + len(body), kind, flags, stream) + body
    whole = HEAD.pack(HEAD.size + len(body) + CRC.size, kind, flags | HAS_CRC, stream) + body
    return whole + CRC.pack(crc32(whole))


def clipped(words: str, most: int) -> bytes:
    """Words as UTF-8 of at most so many bytes; a character is never cut in two."""
    return words.encode("utf-8", "replace")[:most].decode("utf-8", "ignore").encode()


def bye(code: int, words: str, *, crc: bool) -> bytes:
    """The frame that ends a connection in words."""
    return frame(Kind.BYE, 0, BYE.pack(code) + clipped(words, BODIES[Kind.BYE][1]), crc=crc)


def resume(controls: int, places: list[tuple[int, int]], *, crc: bool) -> bytes:
    """The frame that says, of each stream, up to where its bytes have been received."""
    body = RESUME.pack(controls, len(places)) + b"".join(PLACE.pack(*place) for place in places)
    return frame(Kind.RESUME, 0, body, crc=crc)


def places(found: Frame) -> dict[int, int]:
    """Streams of a RESUME, with the position up to which each has been received. Raises Violation."""
    count, listed = found.fields()[1], found.rest()
    if len(listed) != count * PLACE.size:
        raise Violation(f"RESUME: it names {count} streams in {len(listed)} bytes")
    return dict(PLACE.iter_unpack(listed))


class FrameReader:
    """Frames of bytes that come in any pieces. Keeps less than one frame between two calls."""

    def __init__(self, *, crc: bool) -> None:
        self._crc = crc
        self._kept = bytearray()

    def __len__(self) -> int:
        """Bytes kept: a frame that has not come whole."""
        return len(self._kept)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame]:
        """The frames that are whole now. Raises Violation at the first that is none."""
        view, at = memoryview(data), 0
        if self._kept:
            at = self._complete(view)
            if self._missing() == 0:
                whole, self._kept = memoryview(self._kept), bytearray()
                yield self._frame(whole)
        end = len(view)
        while end - at >= HEAD.size:
            length = self._length(view, at)
            if end - at < length:
                break
            yield self._frame(view[at : at + length])
            at += length
        if at < end:
            self._kept += view[at:]

    def _missing(self) -> int:
        """Bytes to the end of the frame that is kept; before its length is known, to the end of its head."""
        if len(self._kept) < HEAD.size:
            return HEAD.size - len(self._kept)
        return self._length(memoryview(self._kept), 0) - len(self._kept)

    def _complete(self, view: memoryview) -> int:
        """Adds to the frame that is kept; gives how many bytes."""
        at = 0
        while at < len(view) and (missing := self._missing()):
            self._kept += view[at : at + missing]
            at = min(at + missing, len(view))
        return at

    def _length(self, view: memoryview, at: int) -> int:
        length: int = HEAD.unpack_from(view, at)[0]
        if not HEAD.size <= length <= MOST:
            raise self._wrong(f"a frame of {length} bytes; one has {HEAD.size} to {MOST}")
        return length

    def _wrong(self, words: str) -> Violation:
        """With a CRC, bytes that are no frame are damage; under TLS nothing damages them but the peer."""
        return Violation(words, Code.DAMAGED if self._crc else Code.PROTOCOL)

    def _frame(self, whole: memoryview) -> Frame:
        _, kind, flags, stream = HEAD.unpack_from(whole)
        last = len(whole)
        if bool(flags & HAS_CRC) != self._crc:
            raise self._wrong("a frame without a CRC on a connection without TLS, or with one under TLS")
        if self._crc:
            last -= CRC.size
            if last < HEAD.size or CRC.unpack_from(whole, last)[0] != crc32(whole[:last]):
                raise self._wrong("the CRC of a frame is not that of its bytes")
        if kind not in _SIZES:
            raise Violation(f"a frame of kind {kind}, which this version does not know")
        known, least, most = _SIZES[kind]
        if not least <= last - HEAD.size <= most:
            raise Violation(f"{known.name} with a body of {last - HEAD.size} bytes")
        return Frame(known, flags, stream, whole[HEAD.size : last])
