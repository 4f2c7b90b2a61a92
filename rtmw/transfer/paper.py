"""The paper's form of header and body (T1): a length says what the body is, and a FILE is `"source,destination"`.

The paper names the fields and gives no layout; docs/formats/transfer-format.md fixes one. What the form cannot say is
refused, and never bent: names with a comma, the level CONSUMED, priorities, times that are no whole seconds.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from rtmw.transfer.address import Address
from rtmw.transfer.fields import Fields, packed_text
from rtmw.transfer.header import MOST_PARTS, Content, Delivery, File, Header, Kind, Level, pack_body

__all__ = ["pack_paper", "unpack_paper"]

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
