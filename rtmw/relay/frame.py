"""The frame of the paper (R6), which any program can speak: 36 bytes by position, data, and a line feed.

    | header 1 | source 4 | destination 4 | stamp 22 | checksum 3 | type 1 | command 1 | data | 0x0A |

The structure that the paper prints has one BYTE for each field, by which no two messages could be told apart; the table
counts. An answer begins its data with the stamp and the checksum of the order that it answers (25 bytes); a receipt has
nothing else. The checksum is the sum of all other bytes, in one of two forms: A, 24 bits, big endian; B, three digits,
modulo 1000. All before the data is read by position, and so are the 25 bytes of an answer, for a checksum of form A may
have a line feed in it; the data of programs may not.

The second format, below, is what agents of this package speak on the same ports: any bytes, priorities, lifetimes.

All numbers are little-endian. The agent sends a hello, the server a welcome or, with the reason in words, an alert and
the end; before the welcome the agent sends nothing else. Then both send frames:

    hello    | magic 8 | version 2 | flags 2 | address 4 | t1 8 | n1 4 |
    welcome  | magic 8 | version 2 | flags 2 | t2 8 | n2 4 | longest data 4 | highest stamp stored 22 |
    frame    | length 4 | kind 1 | priority 1 | zero 2 | lifetime 8 | head 35 | data | CRC 4, if the welcome says so |

The head is that of the paper's frame without its header. The kind says what a frame is, so its type says nothing. The
three bytes of the checksum protect nothing here: an answer begins with the stamp and those bytes as they came.

What a server does with each frame is C: `_frames.c` divides what has come, packs frames of the paper, and sums bytes.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import IntEnum
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rtmw.checksum import crc32
from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.qos import CENTURY_S
from rtmw.relay import _frames
from rtmw.relay._frames import frame_of as frame_of
from rtmw.relay._frames import pack

ADDRESS: Final = 4
STAMP: Final = 22
SUM: Final = 3
HEAD: Final = 36
"""Bytes before the data."""
HEAD_ROW: Final = HEAD - 1
"""Bytes of the head of a frame without its header."""
SUM_AT: Final = 2 * ADDRESS + STAMP
"""Where the checksum stands in it."""
ANSWERED: Final = STAMP + SUM
"""Bytes that the data of an answer begins with: which order it answers."""
LONGEST: Final = 65536
END: Final = 0x0A
SUMS: Final = ("A", "B")
UNSUMMED: Final = bytes(SUM)
"""In place of a checksum: the frame was made here, or came by the second format."""
N1_MOST: Final = 1000
"""The most times that an order may be sent again."""
LEASE_S: Final = 30.0
"""After half of it, a connection is ended whose other end acknowledges nothing."""
LINGER_S: Final = 1.0
"""Seconds in which a connection that is closed may send what it has left."""
_PLAIN: Final = re.compile(rb"[!-~][ -~]*")
_NO_DIGITS: Final = bytes(set(range(256)) - set(b"0123456789"))


class FrameError(RtmwError, ValueError):
    """These fields make no frame, or these bytes are none; the message says which field, and what it must be."""


def address_of(text: str) -> bytes:
    """The four bytes of an address: letters, with spaces behind them, or `hex:` and eight digits. Raises FrameError."""
    try:
        found = bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode("ascii").ljust(ADDRESS)
    except ValueError:
        found = b""
    if len(found) != ADDRESS or not text.strip():
        raise FrameError(f"{text!r} is no address: it has 1 to 4 ASCII characters, or is hex: and 8 digits")
    return found


def given_address(given: object, what: str) -> bytes:
    """What a program says: text, or four bytes. `what`: its argument. Raises TypeError, FrameError."""
    if not isinstance(given, str | bytes):
        raise TypeError(f"{what} is of {type(given).__name__}; it is text, such as 'AODB', or four bytes")
    if isinstance(given, bytes) and len(given) != ADDRESS:
        raise FrameError(f"{what}={given!r} is no address: it has four bytes")
    return given if isinstance(given, bytes) else address_of(given)


def readable(address: bytes) -> str:
    """The inverse of `address_of`."""
    return address.rstrip(b" ").decode() if _PLAIN.fullmatch(address) else f"hex:{address.hex()}"


def skew_of(stamp: bytes, at: int, *, is_local: bool) -> float | None:
    """Seconds by which a stamp is ahead of a time, in nanoseconds since 1970; None: it is no date. `is_local`: it may
    be of any time zone, so whole quarters of an hour are left out."""
    digits = stamp.translate(None, _NO_DIGITS).decode()
    try:
        ahead = _seconds(digits[:14]) + float(f"0.{digits[14:]}") - at / 1e9
    except ValueError:
        return None
    return ahead - 900 * round(ahead / 900) * is_local


@lru_cache(16)
def _seconds(digits: str) -> int:
    """Since 1970. Raises ValueError: it is no date."""
    return int(datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())


class Stamps:
    """Makes stamps of the times of this host, as `20261129134412.1234567`: each is later than the one before."""

    def __init__(self) -> None:
        self._last = 0
        self._second, self._written = 0, ""

    def __call__(self) -> bytes:
        self._last = max(CLOCK.wall_ns() // 100, self._last + 1)
        second, part = divmod(self._last, 10_000_000)
        if second != self._second:
            self._second, self._written = second, f"{datetime.fromtimestamp(second, UTC):%Y%m%d%H%M%S}"
        return f"{self._written}.{part:07}".encode()

    def follow(self, stamp: bytes) -> None:
        """The next ones are later than this one of an earlier process, whose clock may have gone ahead."""
        with suppress(ValueError):  # another program made it, in its own way
            seconds, part = stamp.decode().split(".")
            self._last = max(self._last, _seconds(seconds) * 10_000_000 + int(part))


@dataclass(frozen=True)
class Form:
    """The values of a frame that the paper leaves open: `[relay]` of the settings says them."""

    header: int = 2
    order: bytes = b"O"
    answer: bytes = b"A"
    alert: bytes = b"!"
    """A command: an answer that has it tells of a failure."""
    longest: int = LONGEST
    """Bytes of a whole frame."""


FORM: Final = Form()
_SIZES: Final = [ADDRESS, ADDRESS, STAMP, 1, 1]


@dataclass(frozen=True)
class Frame:
    """One message of the paper. Text is taken as ASCII, and as `address_of` has addresses."""

    source: bytes
    destination: bytes
    stamp: bytes
    type: bytes
    command: bytes
    data: bytes = b""
    checksum: bytes = field(default=b"", compare=False)
    """The three bytes that came; empty or UNSUMMED: the frame was made here, or came by the second format."""

    if TYPE_CHECKING:

        def __init__(
            self,
            source: str | bytes,
            destination: str | bytes,
            stamp: str | bytes,
            type: str | bytes,
            command: str | bytes,
            data: bytes = b"",
            checksum: bytes = b"",
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, size in zip(("source", "destination", "stamp", "type", "command"), _SIZES, strict=True):
            value = getattr(self, name)
            if isinstance(value, str):
                value = address_of(value) if size == ADDRESS else value.encode("ascii", "replace")
                object.__setattr__(self, name, value)
            if not isinstance(value, bytes) or len(value) != size:
                raise FrameError(f"{name} is {value!r}; a frame has {size} {'byte' if size == 1 else 'bytes'} there")
        if not isinstance(self.data, bytes):
            raise FrameError(f"data is of {type(self.data).__name__}; a frame carries bytes")

    def encode(self, checksum: str = "A", form: Form = FORM) -> bytes:
        """Raises FrameError for data that no frame can carry: with a line feed, or too long."""
        raw = pack(self.head, self.data, checksum, form.header, form.answer, form.longest)
        if raw is None:
            raise FrameError(self._misfit(form) or f"there is no checksum {checksum!r}; there are {', '.join(SUMS)}")
        return raw

    def _misfit(self, form: Form) -> str:
        """Why no frame can carry its data; empty: one can."""
        read = ANSWERED if self.type == form.answer else 0
        if END in self.data[read:]:
            at = self.data.index(END, read)
            return f"data has a line feed (0x0A) at byte {at}, which would end the frame there"
        if len(self.data) < read:
            return f"an answer of {len(self.data)} bytes; it begins with the {ANSWERED} of what it answers"
        size = HEAD + len(self.data) + 1
        return f"a frame of {size} bytes; the longest has {form.longest}" if size > form.longest else ""

    @classmethod
    def decode(cls, data: bytes, checksum: str = "auto", form: Form = FORM) -> Frame:
        """One whole frame, with its line feed. Raises FrameError."""
        splitter = Splitter(checksum, form)
        frames = splitter.feed(data)
        if len(frames) == 1 and not splitter.waiting and not splitter.bad:
            return frames[0]
        if frames:
            raise FrameError(f"{len(data)} bytes are more than one frame; Splitter divides them")
        why = ", ".join(splitter.bad) or f"it ends before its line feed, after {len(data)} bytes"
        raise FrameError(f"these bytes are no frame: {why}")

    @cached_property
    def head(self) -> bytes:
        """This frame but for its header and its data, as rows and the second format have it."""
        checksum = self.checksum.rjust(SUM, b"\0")
        return b"".join((self.source, self.destination, self.stamp, checksum, self.type, self.command))

    @cached_property
    def digest(self) -> bytes:
        """The digest of its source, destination, type, command and data, 8 bytes."""
        return blake2b(self.head[: 2 * ADDRESS] + self.head[-2:] + self.data, digest_size=8).digest()

    @property
    def answers(self) -> tuple[bytes, bytes]:
        """The stamp and the checksum of the order that this answer answers."""
        return self.data[:STAMP], self.data[STAMP:ANSWERED]

    @property
    def body(self) -> bytes:
        """The content of this answer, behind the stamp and the checksum of its order; empty: it is a receipt."""
        return self.data[ANSWERED:]

    def receipt(self, stamp: bytes, form: Form = FORM) -> Frame:
        """The receipt for this order: its addresses are swapped, and its data is the order's stamp and checksum.
        `stamp`: when the order came."""
        return frame_of(_answering(self.head, stamp, form), self.stamp + self.checksum)

    def alert(self, stamp: bytes, cause: str, form: Form = FORM) -> Frame:
        """To the source of an order that came, on behalf of its destination: what failed, in words."""
        words = cause.replace("\n", " ").encode("ascii", "backslashreplace")[: form.longest - HEAD - ANSWERED - 1]
        return replace(self.receipt(stamp, form), command=form.alert, data=self.stamp + self.checksum + words)


def checksums(total: int) -> tuple[bytes, bytes]:
    """The checksum in each of the two forms. `total`: the sum of all other bytes, header included."""
    return (total & 0xFFFFFF).to_bytes(SUM, "big"), b"%03d" % (total % 1000)


def rests(checksum: bytes, header: int) -> set[int]:
    """The sums modulo 1000, without the header, that a frame with this checksum may have."""
    found = {(int.from_bytes(checksum, "big") - header) % 1000}
    return found | {(int(checksum) - header) % 1000} if checksum.isdigit() else found


class Splitter(_frames.Splitter[Frame]):
    """Divides what a connection brings into frames; however it was cut, the frames are the same.

    After bytes that are no frame it looks for one behind the next line feed. `bad` counts those bytes' faults by cause.
    """

    __slots__ = ("bad",)

    def __init__(self, checksum: str = "auto", form: Form = FORM) -> None:
        """`checksum`: A, B, or auto: the first frame that fits one of the two fixes it."""
        if checksum not in ("auto", *SUMS):
            raise FrameError(f"there is no checksum {checksum!r}; there are auto, {', '.join(SUMS)}")
        self.bad = Counter[str]()
        super().__init__(form.longest, self.bad, checksum, form.header, form.answer)


def stamp_of(head: bytes) -> bytes:
    return head[2 * ADDRESS : SUM_AT]


def receipt_of(head: bytes, stamp: bytes, form: Form = FORM) -> Frame:
    """The receipt for the order with this head: its data is the order's stamp and checksum."""
    return frame_of(_answering(head, stamp, form), head[2 * ADDRESS : -2])


def _answering(head: bytes, stamp: bytes, form: Form) -> bytes:
    """The head of a receipt for the order with this head."""
    return head[ADDRESS : 2 * ADDRESS] + head[:ADDRESS] + stamp + UNSUMMED + form.answer + head[-1:]


# ---- the second format ----

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


def kind_of(frame: Frame, form: Form) -> Kind | None:
    """What a frame of the paper is; None: it has a type that there is not."""
    if frame.type == form.answer:
        return Kind.ALERT if frame.command == form.alert else Kind.ANSWER if frame.body else Kind.RECEIPT
    return Kind.ORDER if frame.type == form.order else None


class Packet(NamedTuple):
    """One frame with what the paper's does not have."""

    kind: Kind | None
    """None: as the frame says."""
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
        if not 0 < t1 < CENTURY_S:
            raise FrameError(f"a hello with T1 = {t1:g} s; it is a time above 0, and less than a century")
        return cls(address, t1, n1, bool(flags & _CRC))


class Welcome(NamedTuple):
    """The first bytes of the server."""

    t2: float
    n2: int
    longest: int
    """Bytes of data."""
    highest: bytes = b""
    """The highest of the agent's own stamps whose order was stored; empty: none was."""
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
    raw = _FRAME.pack(length, packet.kind, priority, 0, lifetime) + packet.frame.head + packet.frame.data
    return raw + _LENGTH.pack(crc32(raw)) if crc else raw


class OwnSplitter(_frames.Splitter[Packet]):
    """Divides what a connection brings behind hello and welcome; however it was cut, the frames are the same. Bytes
    that are none raise FrameError: then the connection is to be closed."""

    __slots__ = ()

    def __init__(self, crc: bool = False) -> None:
        super().__init__(LONGEST_DATA, crc32 if crc else None)


_frames.begin(Frame, Packet, tuple(Kind), FrameError)
