"""Header and body of a transfer as bytes (T1, T3, T4, T8), in two forms: docs/formats/transfer-format.md.

Ours says by a byte what the body is, and has a length of 64 bits. The paper's has a signed length of 32 bits that
says both: above 0 is BUF, 0 is FILE, -1 is COMPOSITE. Both are read strictly: what was not written by `pack` is
refused.

The paper names its fields and gives no layout; the page fixes one. A FILE is `"source,destination"` there. What that
form cannot say is refused, and never bent: names with a comma, the level CONSUMED, priorities, times that are no whole
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from rtmw.transfer.address import Address
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.fields import Fields, check_range, packed_text

__all__ = [
    "LENGTH",
    "Content",
    "Delivery",
    "File",
    "Header",
    "Kind",
    "Level",
    "header_of",
    "is_alike",
    "pack_body",
    "pack_paper",
    "pack_sized_header",
    "resized",
    "unpack_body",
    "unpack_header",
    "unpack_paper",
    "unpack_sized_header",
]


VERSION: Final = 1
MOST_PARTS: Final = 1024
LARGEST: Final = (1 << 63) - 1
"""Bytes of a body."""
LONGEST_NS: Final = (1 << 63) - 1

_HEAD: Final = Struct("<BBBBBBHQQQ")
LENGTH: Final = 8
"""Offset in a header of its length, which takes 8 bytes."""


class Kind(IntEnum):
    """The kind of a body."""

    BUF = 1
    FILE = 2
    COMPOSITE = 3

    __hash__ = int.__hash__  # that of Enum is Python


class Level(IntEnum):
    """The level of acknowledgement that a sender waits for."""

    NONE = 0
    ACCEPTED = 1
    """The core of this host has it; with Delivery.LOG on its disk."""
    SENT = 2
    """The core of the receiver has all bytes; with Delivery.LOG on its disk."""
    DELIVERED = 3
    """It was handed to the process that receives."""
    CONSUMED = 4
    """That process is done with it."""

    __hash__ = int.__hash__


class Delivery(IntEnum):
    """Classes of reliability."""

    SMALL_RAW = 0
    """No bookkeeping; errors are told as events."""
    NORMAL = 1
    """Reliable while no core fails."""
    LOG = 2
    """Survives crashes, and goes on where it was."""

    __hash__ = int.__hash__


@dataclass(frozen=True, slots=True)
class File:
    """A file that is sent: its path here, and its path below the receiver's folder (empty: its name)."""

    source: str
    destination: str = ""

    def __post_init__(self) -> None:
        for what, path in (("source", self.source), ("destination", self.destination)):
            if "\0" in path:
                raise ValueError(f"{what}={path!r} is not possible: it has a zero byte")
        if not self.source:
            raise ValueError("source='' is not possible; name the file that is to be sent")


Content: TypeAlias = bytes | File | tuple[bytes | File, ...]
"""BUF, FILE, or the parts of a COMPOSITE."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header before a body."""

    to: Address
    kind: Kind
    length: int
    """Bytes of the body. The body of a FILE is its two names, and not the file."""
    level: Level = Level.ACCEPTED
    delivery: Delivery = Delivery.NORMAL
    priority: int = 0
    lifetime_ns: int = 0
    """0: for ever."""
    timeout_ns: int = 0
    """How long the sender waits for `level`; 0: without a limit."""
    packed: bytes = field(default=b"", init=False, repr=False, compare=False)
    """The header as bytes, once it was packed."""

    def __post_init__(self) -> None:
        check_range("priority", self.priority, 7)
        check_range("lifetime_ns", self.lifetime_ns, LONGEST_NS)
        check_range("timeout_ns", self.timeout_ns, LONGEST_NS)
        check_range("length", self.length, LARGEST)
        if self.length == 0:
            raise ValueError("an empty body is not possible: a length of 0 says FILE in the paper's form; send a byte")
        if self.delivery is Delivery.SMALL_RAW and self.level > Level.ACCEPTED:
            raise ValueError(
                f"SMALL_RAW is not acknowledged, so nobody can wait until it is {self.level.name}; wait for ACCEPTED, "
                "or use Delivery.NORMAL"
            )

    def pack(self) -> bytes:
        """Return the header as bytes. Raises ValueError, if the address is too long."""
        if not self.packed:
            to = packed_text(str(self.to), "the address")
            numbers = VERSION, self.kind, self.level, self.delivery, self.priority, 0, len(to) - 2
            data = _HEAD.pack(*numbers, self.length, self.lifetime_ns, self.timeout_ns) + to[2:]
            object.__setattr__(self, "packed", data)
        return self.packed


def unpack_header(data: bytes | memoryview, position: int = 0) -> tuple[Header, int]:
    """Return the header at the beginning of the bytes, and how many it takes. Raises TransfersDamaged."""
    fields = Fields(data, position, "header of a transfer")
    version, kind, level, delivery, priority, zero, size, *rest = fields.numbers(_HEAD)
    if version != VERSION:
        fields.wrong(f"version {version} of the format, where {VERSION} is known; use the rtmw that wrote it")
    if zero:
        fields.wrong(f"{zero} where 0 stands in version {VERSION}")
    try:
        to = _address(str(fields.bytes(size), "utf-8"))
        return Header(
            to, Kind(kind), rest[0], Level(level), Delivery(delivery), priority, rest[1], rest[2]
        ), fields.taken()
    except ValueError as error:
        fields.wrong(str(error))


def pack_sized_header(header: Header) -> bytes:
    """Return the header with its size in 16 bits before it, as in frames. Raises ValueError."""
    data = header.pack()
    return len(data).to_bytes(2, "little") + data


def unpack_sized_header(fields: Fields) -> Header:
    """Reads a header of `pack_sized_header`. Raises TransfersDamaged."""
    return header_of(bytes(fields.bytes(fields.number(2))))


@lru_cache(maxsize=1024)
def header_of(data: bytes) -> Header:
    """Read a header that takes all these bytes; remembered, since senders repeat themselves. Raises
    TransfersDamaged."""
    header, taken = unpack_header(data)
    if taken != len(data):
        raise TransfersDamaged(f"a header of {taken} bytes in {len(data)}")
    return header


def is_alike(one: Header, other: Header) -> bool:
    """Do the headers differ in the length alone, if at all?"""
    first, second = one.pack(), other.pack()
    return first[:LENGTH] == second[:LENGTH] and first[LENGTH + 8 :] == second[LENGTH + 8 :]


def resized(header: Header, length: int) -> Header:
    """Return the header with this length of the body."""
    if header.length == length:
        return header
    data = header.pack()
    return header_of(data[:LENGTH] + length.to_bytes(8, "little") + data[LENGTH + 8 :])


def _address(written: str) -> Address:
    """Read an address, which has to be written in the one way in which `pack` writes it. Raises ValueError."""
    found = Address.parse(written)
    if str(found) != written:
        raise ValueError(f"the address {written!r} is not written as {str(found)!r}")
    return found


def kind_of(content: Content) -> Kind:
    if isinstance(content, tuple):
        return Kind.COMPOSITE
    return Kind.FILE if isinstance(content, File) else Kind.BUF


def pack_body(content: Content) -> tuple[Kind, bytes]:
    """Return the kind of a body, and its bytes. Raises ValueError: it is empty, or has too many parts."""
    if not isinstance(content, tuple):
        return kind_of(content), _simple(content)
    if not 0 < len(content) <= MOST_PARTS:
        raise ValueError(f"a composite of {len(content)} parts is not possible; it has 1 to {MOST_PARTS}")
    parts = bytearray(len(content).to_bytes(2, "little"))
    for part in content:
        data = _simple(part)
        parts += kind_of(part).to_bytes(1, "little") + len(data).to_bytes(8, "little") + data
    return Kind.COMPOSITE, bytes(parts)


def _simple(content: bytes | File) -> bytes:
    if isinstance(content, File):
        return packed_text(content.source, "source") + packed_text(content.destination, "destination")
    if not content:
        raise ValueError("an empty body is not possible: a length of 0 says FILE in the paper's form; send a byte")
    return bytes(content)


def unpack_body(kind: Kind, data: bytes | memoryview, position: int = 0) -> Content:
    """Read the content of a body. Raises TransfersDamaged."""
    fields = Fields(data, position, f"body of a {kind.name}")
    if kind is not Kind.COMPOSITE:
        return _simple_of(kind, fields)
    number = fields.number(2)
    if not 0 < number <= MOST_PARTS:
        fields.wrong(f"{number} parts, where 1 to {MOST_PARTS} are possible")
    parts: list[bytes | File] = []
    for _ in range(number):
        code = fields.number(1)
        if code not in (Kind.BUF, Kind.FILE):
            fields.wrong(f"a part of kind {code}; parts are BUF or FILE, and no composites")
        size = fields.number(8)
        parts.append(_simple_of(Kind(code), Fields(fields.bytes(size), position + fields.taken() - size, "part")))
    fields.end()
    return tuple(parts)


def _simple_of(kind: Kind, fields: Fields) -> bytes | File:
    if kind is Kind.BUF:
        if not fields.left():
            fields.wrong("an empty BUF")
        return bytes(fields.bytes(fields.left()))
    source, destination = fields.short_text(), fields.short_text()
    fields.end()
    try:
        return File(source, destination)
    except ValueError as error:
        fields.wrong(str(error))


_PAPER_HEAD: Final = Struct("<iBBHII")
_PAPER_PART: Final = Struct("<iI")
_COMPOSITE: Final = -1
_PAPER_LARGEST: Final = (1 << 31) - 1
_SECOND_NS: Final = 1_000_000_000


def pack_paper(header: Header, content: Content) -> bytes:
    """Return header and body. `header.kind` and `length` are those of our form. ValueError: this form cannot say it."""
    if header.level > Level.DELIVERED or header.priority:
        raise ValueError("the paper's form has the levels up to DELIVERED and no priorities; use ours")
    times = [_seconds("lifetime", header.lifetime_ns), _seconds("timeout", header.timeout_ns)]
    pack_body(content)  # what is no body in our form is none here
    if isinstance(content, tuple):
        body = len(content).to_bytes(2, "little") + b"".join(
            _PAPER_PART.pack(*_length(part)) + _text(part) for part in content
        )
        length = _COMPOSITE
    else:
        body, (length, _) = _text(content), _length(content)
    to = packed_text(str(header.to), "the address")[2:]
    return _PAPER_HEAD.pack(length, header.level, header.delivery, len(to), *times) + to + body


def _seconds(what: str, time_ns: int) -> int:
    seconds, rest = divmod(time_ns, _SECOND_NS)
    if rest or seconds >= 1 << 32:
        raise ValueError(f"{what} of {time_ns} ns is not possible in the paper's form, which has whole seconds")
    return seconds


def _text(content: bytes | File) -> bytes:
    if not isinstance(content, File):
        return bytes(content)
    for path in (content.source, content.destination):
        if "," in path:
            raise ValueError(f"{path!r} has a comma, which ends a name in the paper's form; send rtmw.File in our form")
    return f"{content.source},{content.destination}".encode()


def _length(content: bytes | File) -> tuple[int, int]:
    """Return the length that says what the content is, and how many bytes it takes."""
    size = len(_text(content))
    if size > _PAPER_LARGEST:
        raise ValueError(f"a body of {size} bytes is not possible in the paper's form; at most {_PAPER_LARGEST} are")
    return (0 if isinstance(content, File) else size), size


def unpack_paper(data: bytes | memoryview, position: int = 0) -> tuple[Header, Content]:
    """Read a whole transfer: header and body. Raises TransfersDamaged."""
    fields = Fields(data, position, "transfer in the paper's form")
    length, level, delivery, size, lifetime, timeout = fields.numbers(_PAPER_HEAD)
    try:
        to = Address.parse(str(fields.bytes(size), "utf-8"))
        if str(to).encode() != bytes(data[_PAPER_HEAD.size : _PAPER_HEAD.size + size]) or level > Level.DELIVERED:
            fields.wrong("an address or a level that the form does not have")
        content = _body(fields, length)
        kind, body = pack_body(content)
        times = lifetime * _SECOND_NS, timeout * _SECOND_NS
        return Header(to, kind, len(body), Level(level), Delivery(delivery), 0, *times), content
    except ValueError as error:
        fields.wrong(str(error))


def _body(fields: Fields, length: int) -> Content:
    if length != _COMPOSITE:
        content = _paper_simple(fields, length, fields.left())
        fields.end()
        return content
    number = fields.number(2)
    if not 0 < number <= MOST_PARTS:
        fields.wrong(f"{number} parts, where 1 to {MOST_PARTS} are possible")
    parts: list[bytes | File] = []
    for _ in range(number):
        part, size = fields.numbers(_PAPER_PART)
        parts.append(_paper_simple(fields, part, size))
    fields.end()
    return tuple(parts)


def _paper_simple(fields: Fields, length: int, size: int) -> bytes | File:
    if length > 0:
        if length != size:
            fields.wrong(f"a length of {length}, and {size} bytes")
        return bytes(fields.bytes(length))
    if length < 0:
        fields.wrong(
            f"a length of {length}; it is above 0, 0 for {Kind.FILE.name}, or -1 for {Kind.COMPOSITE.name} outside"
        )
    source, comma, destination = str(fields.bytes(size), "utf-8").partition(",")
    if not comma or "," in destination:
        fields.wrong("a FILE whose body is not 'source,destination'")
    return File(source, destination)
