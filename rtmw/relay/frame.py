"""The frame of the paper (R6), which any program can speak: 36 bytes by position, data, and a line feed.

    | header 1 | source 4 | destination 4 | stamp 22 | checksum 3 | type 1 | command 1 | data | 0x0A |

The structure that the paper prints has one BYTE for each field, by which no two messages could be told apart; the table
counts. An answer begins its data with the stamp and the checksum of the order that it answers (25 bytes); a receipt has
nothing else. The checksum is the sum of all other bytes, in one of two forms: A, 24 bits, big endian; B, three digits,
modulo 1000. All before the data is read by position, and so are the 25 bytes of an answer, for a checksum of form A may
have a line feed in it; the data of programs may not.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from zlib import adler32

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError

__all__ = [
    "FORM",
    "HEAD",
    "LONGEST",
    "STAMP",
    "SUMS",
    "Form",
    "Frame",
    "FrameError",
    "Splitter",
    "Stamps",
    "address_of",
    "given_address",
    "readable",
]

ADDRESS: Final = 4
STAMP: Final = 22
SUM: Final = 3
HEAD: Final = 36
"""Bytes before the data."""
_SUM_AT: Final = 31
ANSWERED: Final = STAMP + SUM
"""Bytes that the data of an answer begins with: which order it answers."""
LONGEST: Final = 65536
END: Final = 0x0A
_CR: Final = 0x0D
SUMS: Final = ("A", "B")
LEASE_S: Final = 30.0
"""After half of it, a connection is ended whose other end acknowledges nothing."""
LINGER_S: Final = 1.0
"""So long a connection that is closed may take to send what it has."""
_PLAIN: Final = re.compile(rb"[!-~][ -~]*")


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


def skew_of(stamp: bytes, at: int) -> float | None:
    """Seconds by which a stamp is ahead of a time, in nanoseconds since 1970; None: it is no date. Whole quarters of an
    hour are left out: agents stamp in their time zones."""
    digits = bytes(byte for byte in stamp if byte in b"0123456789").decode()
    try:
        ahead = _seconds(digits[:14]) + float(f"0.{digits[14:]}") - at / 1e9
    except ValueError:
        return None
    return ahead - 900 * round(ahead / 900)


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
_ADDED: Final = 256
"""Bytes whose sum is below the modulus of Adler-32."""
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
    """The three bytes that came; empty: the frame was made here."""

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
        text = self.data[ANSWERED:] if self.type == form.answer else self.data
        if END in text:
            raise FrameError(
                f"data has a line feed (0x0A) at byte {self.data.index(END, len(self.data) - len(text))}, which would "
                "end the frame there"
            )
        if self.type == form.answer and len(self.data) < ANSWERED:
            raise FrameError(f"an answer of {len(self.data)} bytes; it begins with the {ANSWERED} of what it answers")
        if HEAD + len(self.data) + 1 > form.longest:
            raise FrameError(f"a frame of {HEAD + len(self.data) + 1} bytes; the longest has {form.longest}")
        addresses = bytes((form.header,)) + self.source + self.destination + self.stamp
        rest = self.type + self.command + self.data + bytes((END,))
        return addresses + _packed(sum_of(addresses) + sum_of(rest), checksum) + rest

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

    @property
    def answers(self) -> tuple[bytes, bytes]:
        """Of an answer: stamp and checksum of the order."""
        return self.data[:STAMP], self.data[STAMP:ANSWERED]

    @property
    def body(self) -> bytes:
        """Of an answer: the content behind that; empty: it is a receipt."""
        return self.data[ANSWERED:]

    def receipt(self, stamp: bytes, form: Form = FORM) -> Frame:
        """Of an order that came: the addresses swapped, and its stamp and checksum. `stamp`: when it came."""
        return fitting(self.destination, self.source, stamp, form.answer, self.command, self.stamp + self.checksum)

    def alert(self, stamp: bytes, cause: str, form: Form = FORM) -> Frame:
        """To the source of an order that came, on behalf of its destination: what failed, in words."""
        words = cause.replace("\n", " ").encode("ascii", "backslashreplace")[: form.longest - HEAD - ANSWERED - 1]
        return replace(self.receipt(stamp, form), command=form.alert, data=self.stamp + self.checksum + words)


def fitting(source: bytes, destination: bytes, stamp: bytes, type: bytes, command: bytes, data: bytes,
            checksum: bytes = b"") -> Frame:  # fmt: skip
    """A frame of fields that are known to fit, without a look at them: the server makes five an order."""
    frame = object.__new__(Frame)
    frame.__dict__.update(
        source=source, destination=destination, stamp=stamp, type=type, command=command, data=data, checksum=checksum
    )
    return frame


def sum_of(data: bytes) -> int:
    """The sum of all bytes. Adler-32 has that of few in its lower half, ten times as fast as `sum`."""
    if len(data) <= _ADDED:
        return adler32(data, 0) & 0xFFFF
    return sum(adler32(data[at : at + _ADDED], 0) & 0xFFFF for at in range(0, len(data), _ADDED))


def checksums(total: int) -> tuple[bytes, ...]:
    """Of both forms; `total`: with the header."""
    return tuple(_packed(total, one) for one in SUMS)


def rests(checksum: bytes, header: int) -> set[int]:
    """What a total without header may be, modulo 1000, of a frame with this checksum."""
    found = {(int.from_bytes(checksum, "big") - header) % 1000}
    return found | {(int(checksum) - header) % 1000} if checksum.isdigit() else found


def _packed(total: int, checksum: str) -> bytes:
    if checksum == "A":
        return (total & 0xFFFFFF).to_bytes(SUM, "big")
    if checksum == "B":
        return b"%03d" % (total % 1000)
    raise FrameError(f"there is no checksum {checksum!r}; there are {', '.join(SUMS)}")


class Splitter:
    """Divides what a connection brings into frames; however it was cut, the frames are the same.

    After bytes that are no frame it looks for one behind the next line feed. `bad` counts those bytes' faults by cause.
    """

    def __init__(self, checksum: str = "auto", form: Form = FORM) -> None:
        """`checksum`: A, B, or auto: the first frame that fits one of the two fixes it."""
        if checksum not in ("auto", *SUMS):
            raise FrameError(f"there is no checksum {checksum!r}; there are auto, {', '.join(SUMS)}")
        self.checksum = checksum
        self.bad: Counter[str] = Counter()
        self._form = form
        self._buffer = bytearray()
        self._looked = 0
        """No line feed is before this place, behind what is read by position."""
        self._is_lost = False
        """What comes up to the next line feed belongs to nothing."""

    @property
    def waiting(self) -> int:
        """Bytes of a frame that has not come whole."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that are whole with these bytes, in their order."""
        self._buffer += data
        frames = list[Frame]()
        at = 0
        while (step := self._next(at)) is not None:
            frame, at = step
            self._looked = 0
            if frame is not None:
                frames.append(frame)
        del self._buffer[:at]
        self._looked = max(0, self._looked - at)
        return frames

    def _next(self, at: int) -> tuple[Frame | None, int] | None:
        """A frame that begins here, or None for bytes that are none; and where to go on. None: more must come."""
        buffer, form = self._buffer, self._form
        if at == len(buffer):
            return None
        if self._is_lost:
            return self._skip(at)
        if buffer[at] != form.header:
            return self._lose("another header", at)
        if len(buffer) - at < HEAD:
            return None
        by_position = HEAD + (ANSWERED if buffer[at + HEAD - 2] == form.answer[0] else 0)
        limit = at + form.longest
        end = buffer.find(END, max(at + by_position, self._looked), limit)
        if end < 0:
            self._looked = max(at + by_position, min(len(buffer), limit))
            return None if len(buffer) < limit else self._lose("too long", at)
        frame = self._whole(memoryview(buffer)[at : end + 1].tobytes())
        return self._lose("wrong checksum", at) if frame is None else (frame, end + 1)

    def _lose(self, cause: str, at: int) -> tuple[None, int]:
        """The frame that begins here is none."""
        self.bad[cause] += 1
        return self._skip(at)

    def _skip(self, at: int) -> tuple[None, int]:
        """The next frame may begin behind any line feed."""
        end = self._buffer.find(END, at)
        self._is_lost = end < 0
        return None, len(self._buffer) if self._is_lost else end + 1

    def _whole(self, raw: bytes) -> Frame | None:
        """None: its checksum is wrong. A CR before the line feed goes if the sum is right only without it."""
        said = raw[_SUM_AT : _SUM_AT + SUM]
        total = sum_of(raw) - sum_of(said)
        kinds = SUMS if self.checksum == "auto" else (self.checksum,)
        for sum_of_all, end in ((total, -1), (total - _CR, -2)):
            if end == -2 and (raw[-2] != _CR or len(raw) < HEAD + 2):
                break
            for kind in kinds:
                if _packed(sum_of_all, kind) == said:
                    self.checksum = kind
                    return fitting(raw[1:5], raw[5:9], raw[9:31], raw[34:35], raw[35:36], raw[HEAD:end], said)
        return None
