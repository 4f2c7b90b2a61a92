"""Frames of the protocol between two cores, as bytes: docs/formats/transfer-format.md. They are read strictly.

A core opens a stream of a session for what it sends, with the purpose `PURPOSE`, and the peer answers on the same
stream. `ref` names an offer on one stream; each OFFER has a larger one than those before it. A run has ids of one
incarnation, or letters with one header. `Chain` is the chain of hashes over what was sent.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from xxhash import xxh3_128, xxh3_128_digest

from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.fields import Fields, check_range, packed_text
from rtmw.transfer.header import MOST_PARTS, Header, Kind, pack_sized_header, unpack_sized_header
from rtmw.transfer.records import LARGEST_INLINE, TransferId, TransferState, is_letter

__all__ = [
    "HASH",
    "MOST_ARRIVING",
    "MOST_OFFERS",
    "START",
    "ZERO",
    "Ack",
    "Ask",
    "Cancel",
    "Chain",
    "Frame",
    "Frames",
    "Go",
    "Later",
    "LetterRun",
    "Mark",
    "Offer",
    "Part",
    "Piece",
    "Raw",
    "Ready",
    "Report",
    "Restart",
    "Seen",
    "Settled",
    "Terms",
    "Whole",
    "pack",
    "value_of",
]


HASH: Final = 16
"""Bytes of a value of the chain: XXH3 with 128 bits."""
MOST_OFFERS: Final = 256
"""Largest number of offers without an answer on a stream."""
MOST_ARRIVING: Final = 4 * MOST_OFFERS
"""Largest number of transfers of one peer that are arriving, also from streams before: more are put off."""
ZERO: Final = bytes(HASH)
"""The value before the first block."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a core, in bytes, but for the seconds. Both cores have the same block; the others are its own."""

    block: int = 8 << 20
    """Bytes between two marks: a restart reads as many, and at most as many and the window are sent again."""
    piece: int = 1 << 20
    window: int = 8 << 20
    """Bytes that may be on their way beyond the last block that is durable at the receiver."""
    eager: int = 64 << 10
    """Bytes of a body: up to this size it follows its OFFER at once."""
    rest: float = 1.0
    """Seconds until what the receiver cannot take now is offered again."""

    @property
    def reach(self) -> int:
        """Bytes from what is durable at the receiver to the last one that may be sent: a whole block has to fit."""
        return self.block + self.window


class Mark(NamedTuple):
    """Up to here all is the same on both sides. `position` is the end of a block, or 0."""

    position: int = 0
    value: bytes = ZERO
    before: bytes = ZERO
    """The value one block earlier: reading that block again shows whether it is still the same."""


START: Final = Mark()
"""Nothing was sent yet."""


class Chain:
    """The value of the chain at the end of a block is XXH3 of the value before it and of the block. It finds mistakes;
    against those who may be hostile on the way there is TLS."""

    def __init__(self, block: int, mark: Mark | None = None) -> None:
        mark = mark or START
        self.block, self.position, self.marks = block, mark.position, [mark]
        """`marks`: those that have been passed, and the one at which it began."""
        self._hash = xxh3_128(mark.value)

    def add(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            size = self.block - self.position % self.block
            self._hash.update(rest[:size])
            self.position += len(rest[:size])
            rest = rest[size:]
            if self.position % self.block == 0:
                last = self.marks[-1].value
                self.marks.append(Mark(self.position, self._hash.digest(), last))
                self._hash = xxh3_128(self.marks[-1].value)

    @property
    def value(self) -> bytes:
        """The value of all up to here; a block that has just begun counts for nothing."""
        return self._hash.digest() if self.position % self.block else self.marks[-1].value


def value_of(letters: Mapping[TransferId, bytes]) -> bytes:
    """Return XXH3 of the letters as their frame has them."""
    return xxh3_128_digest(b"".join(_packed(letters)))


def _packed(letters: Mapping[TransferId, bytes]) -> Iterator[bytes]:
    for id, body in letters.items():
        yield id.sequence.to_bytes(8, "little")
        yield body


def _pack_origin(id: TransferId) -> bytes:
    """Return all of an id but its sequence, as bytes."""
    return id.incarnation.to_bytes(8, "little") + packed_text(id.node, "the node")


def pack_ids(ids: Sequence[TransferId]) -> tuple[bytes, bytes]:
    """Return the ids as bytes; they are of one incarnation, and one at least."""
    return _pack_origin(ids[0]), struct.pack(f"<{len(ids)}Q", *(id.sequence for id in ids))


def unpack_ids(fields: Fields) -> tuple[TransferId, ...]:
    incarnation, node = fields.number(8), fields.short_text()
    count, rest = divmod(fields.left(), 8)
    if rest or not count:
        fields.wrong(f"{fields.left()} bytes of sequences, of which each has 8, and there is one at least")
    numbers: tuple[int, ...] = struct.unpack(f"<{count}Q", fields.bytes(8 * count))
    return tuple(TransferId(node, incarnation, number) for number in numbers)


def pack_letters(sender: str, header: Header, letters: Mapping[TransferId, bytes]) -> tuple[bytes, ...]:
    """Return the letters as bytes; they are of one incarnation, and one at least."""
    head = _pack_origin(next(iter(letters))) + packed_text(sender, "the sender") + pack_sized_header(header)
    return head, *_packed(letters)


def unpack_letters(fields: Fields) -> tuple[str, Header, dict[TransferId, bytes]]:
    incarnation, node = fields.number(8), fields.short_text()
    sender, header = fields.short_text(), unpack_sized_header(fields)
    if not is_letter(header):
        fields.wrong(f"a letter is a BUF of at most {LARGEST_INLINE} bytes without a lifetime; here is {header}")
    count, rest = divmod(fields.left(), 8 + header.length)
    if rest or not count:
        fields.wrong(
            f"{fields.left()} bytes of letters, of which each has {8 + header.length}, and there is one at least"
        )
    rows = struct.iter_unpack(f"<Q{header.length}s", fields.bytes(fields.left()))
    letters = {TransferId(node, incarnation, sequence): body for sequence, body in rows}
    if len(letters) < count:
        fields.wrong("a letter twice in one run")
    return sender, header, letters


PURPOSE: Final = "transfer 1"
LARGEST: Final = 8 << 20
"""Bytes of a frame. A composite of the most parts with the longest names is below it."""
LARGEST_PIECE: Final = 1 << 20
LARGEST_RAW: Final = 64 << 10

_HEAD: Final = Struct("<IBBHI")
_ID: Final = Struct("<QQ")
_PART: Final = Struct("<BQ")
_GO: Final = Struct("<QQ")
_ACK: Final = Struct("<QQQ")
_SEEN: Final = Struct("<QQ")


class Part(NamedTuple):
    """One of the parts of a transfer; a BUF or a FILE has one."""

    kind: Kind
    length: int
    """Bytes of the part; those of a file's content."""
    destination: str = ""
    """Path of a file below the receiver's folder; empty: no file."""


class Offer(NamedTuple):
    """There is a transfer. Up to `Terms.eager`, its PIECE and WHOLE follow at once; else they wait for GO."""

    ref: int
    id: TransferId
    left_ns: int
    """What is left of its lifetime; 0: it lives for ever. A duration, since the clocks of two hosts differ."""
    sender: str
    header: Header
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes of all parts, one behind the other: what positions count."""
        return sum(part.length for part in self.parts)

    @property
    def has_files(self) -> bool:
        return any(part.kind is Kind.FILE for part in self.parts)

    @property
    def fits_in_memory(self) -> bool:
        """Does it need no file at its receiver?"""
        return not self.has_files and self.size <= LARGEST_INLINE


class Ask(NamedTuple):
    """Asks for the state of a transfer that the receiver had. A REPORT answers."""

    id: TransferId


class Piece(NamedTuple):
    ref: int
    position: int
    data: bytes | memoryview


class Whole(NamedTuple):
    """All bytes were sent. `value`: that of the chain."""

    ref: int
    value: bytes


class Cancel(NamedTuple):
    """The sender does not want it any more. A REPORT answers."""

    id: TransferId


class Settled(NamedTuple):
    """The sender knows durably that transfers of one incarnation have ended so: nobody will ask for them again."""

    ids: tuple[TransferId, ...]
    state: TransferState


class Restart(NamedTuple):
    """The sender cannot confirm what GO says: the receiver drops what it has, and pieces begin at 0."""

    ref: int


class Raw(NamedTuple):
    """SMALL_RAW, whole: nobody acknowledges it."""

    sender: str
    header: Header
    body: bytes


class LetterRun(NamedTuple):
    """Several letters, whole: each is what its OFFER, PIECE and WHOLE are, and answered in the same way. They are BUFs
    of one sender with one header, and without a lifetime. `ref`: that of the first one; those of the others follow one
    after the other."""

    ref: int
    value: bytes
    """The value that `value_of` returns for the letters."""
    sender: str
    header: Header
    letters: dict[TransferId, bytes]
    """Each body as long as the header says; the ids are of one incarnation."""


class Go(NamedTuple):
    """Pieces may come, from `position` on and up to `limit`. `value`: that of the chain at the last block before it."""

    ref: int
    position: int
    limit: int
    value: bytes


class Ack(NamedTuple):
    ref: int
    received: int
    durable: int
    """Up to here it survives a restart of the receiver's core."""
    limit: int


class Report(NamedTuple):
    """Transfers of one incarnation have this state at the receiver, also unasked. ACCEPTED: they are not there; HELD: a
    part of each is."""

    ids: tuple[TransferId, ...]
    state: TransferState
    cause: str


class Later(NamedTuple):
    """It cannot be taken now; what has come stays. Offer it again after `rest_ms` milliseconds, or after READY."""

    ref: int
    rest_ms: int
    cause: str


class Ready(NamedTuple):
    """Transfers that could not be taken may be taken now."""


class Seen(NamedTuple):
    """What has come from the sender before: each incarnation, and the largest sequence of it. First on a stream, and
    said only to a sender that says in its hello that it knows this frame."""

    newest: tuple[tuple[int, int], ...]


Frame: TypeAlias = (
    Offer | Ask | Piece | Whole | Cancel | Settled | Restart | Raw | LetterRun | Go | Ack | Report | Later | Ready
    | Seen
)  # fmt: skip

_KINDS: Final[dict[int, type[Frame]]] = {
    1: Offer, 2: Ask, 3: Piece, 4: Whole, 5: Cancel, 6: Settled, 7: Restart, 8: Raw,
    9: LetterRun, 65: Go, 66: Ack, 67: Report, 68: Later, 69: Ready, 71: Seen,
}  # fmt: skip
"""Kinds from 65 on are frames of the receiver."""
_WITHOUT_REF: Final = (Ask, Cancel, Settled, Raw, Report, Ready, Seen)
_NUMBERS: Final = {frame: number for number, frame in _KINDS.items()}


def pack(frame: Frame) -> bytes:
    """Return a frame as bytes. Raises ValueError: a text is too long."""
    content = _content(frame)
    ref: int = getattr(frame, "ref", 0)
    return b"".join((_HEAD.pack(_HEAD.size + sum(map(len, content)), _NUMBERS[type(frame)], 0, 0, ref), *content))


def _content(frame: Frame) -> tuple[bytes | memoryview, ...]:
    """Return the parts of a frame behind its head; that of a PIECE is large, and copied only when they are joined."""
    match frame:
        case Offer():
            return (_pack_offer(frame),)
        case Ask(id=id) | Cancel(id=id):
            return (_pack_id(id),)
        case Piece(position=position, data=data):
            return position.to_bytes(8, "little"), data
        case Whole(value=value):
            return (value,)
        case Settled(ids=ids, state=state):
            return bytes([state]), *pack_ids(ids)
        case Raw():
            return (packed_text(frame.sender, "the sender") + pack_sized_header(frame.header) + frame.body,)
        case LetterRun():
            return frame.value, *pack_letters(frame.sender, frame.header, frame.letters)
        case Go():
            return (_GO.pack(frame.position, frame.limit) + frame.value,)
        case Ack():
            return (_ACK.pack(frame.received, frame.durable, frame.limit),)
        case Report(ids=ids, state=state, cause=cause):
            return bytes([state]), packed_text(cause, "the cause"), *pack_ids(ids)
        case Later(rest_ms=rest, cause=cause):
            return (rest.to_bytes(4, "little") + packed_text(cause, "the cause"),)
        case Seen():
            return tuple(_SEEN.pack(*one) for one in frame.newest)
        case Restart() | Ready():
            return (b"",)


def piece_size(packed: bytes) -> int:
    """Return the bytes of its source in a packed frame; 0: it is no PIECE."""
    return len(packed) - _HEAD.size - 8 if packed[4] == _NUMBERS[Piece] else 0


def _pack_id(id: TransferId) -> bytes:
    check_range("sequence", id.sequence, (1 << 64) - 1)
    return _ID.pack(id.incarnation, id.sequence) + packed_text(id.node, "the node")


def _pack_offer(offer: Offer) -> bytes:
    begin = _pack_id(offer.id) + offer.left_ns.to_bytes(8, "little")
    parts = b"".join(
        _PART.pack(part.kind, part.length) + packed_text(part.destination, "the destination") for part in offer.parts
    )
    number = len(offer.parts).to_bytes(2, "little")
    return begin + packed_text(offer.sender, "the sender") + pack_sized_header(offer.header) + number + parts


class Frames:
    """Cuts the bytes of a stream into frames. `of_sender`: frames of the sending core; else those that answer."""

    def __init__(self, *, of_sender: bool) -> None:
        self._of_sender, self._position = of_sender, 0
        self._parts: list[bytes] = []
        """Bytes that have come, and are not cut yet."""
        self._size, self._needed = 0, _HEAD.size
        """Bytes of the parts; how many there have to be before anything can be cut."""

    def feed(self, *parts: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now. Raises TransfersDamaged, with the position; no frame follows then."""
        self._parts += parts
        self._size += sum(map(len, parts))
        if self._size < self._needed:
            return
        whole, at = memoryview(b"".join(self._parts)), 0  # a large frame is put together once, and not with each part
        while True:
            self._needed = self._next_size(whole[at:])
            if len(whole) - at < self._needed:
                break
            frame = unpack(whole[at : at + self._needed], self._position, of_sender=self._of_sender)
            at += self._needed
            self._position += self._needed
            yield frame
        self._parts, self._size = [bytes(whole[at:])], len(whole) - at

    def _next_size(self, begun: memoryview) -> int:
        """Return the size of the next frame; that of a head, if not even a head has come."""
        if len(begun) < _HEAD.size:
            return _HEAD.size
        size = int.from_bytes(begun[:4], "little")
        if not _HEAD.size <= size <= LARGEST:
            raise TransfersDamaged(f"frame at {self._position}: a size of {size}", self._position)
        return size


def unpack(data: bytes | memoryview, position: int, *, of_sender: bool) -> Frame:
    """Read one whole frame. Raises TransfersDamaged."""
    fields = Fields(data, position, "frame")
    _, number, zero, zeros, ref = fields.numbers(_HEAD)
    kind = _KINDS.get(number)
    if kind is None or zero or zeros or (number < 65) != of_sender:
        fields.wrong(f"a head that cannot be: kind {number}, {zero}, {zeros}")
    if (ref == 0) != (kind in _WITHOUT_REF):
        fields.wrong(f"{kind.__name__} with the ref {ref}")
    try:
        frame = _unpacked(fields, kind, ref)
    except ValueError as error:
        fields.wrong(str(error))
    fields.end()
    return frame


def _unpacked(fields: Fields, kind: type[Frame], ref: int) -> Frame:
    frame: Frame
    if kind is Offer:
        frame = _unpack_offer(fields, ref)
    elif kind is Ask:
        frame = Ask(_unpack_id(fields))
    elif kind is Piece:
        frame = Piece(ref, fields.number(8), _piece(fields))
    elif kind is Whole:
        frame = Whole(ref, bytes(fields.bytes(HASH)))
    elif kind is Cancel:
        frame = Cancel(_unpack_id(fields))
    elif kind is Settled:
        state = TransferState(fields.number(1))
        frame = Settled(unpack_ids(fields), state)
    elif kind is Restart:
        frame = Restart(ref)
    elif kind is Raw:
        sender, header = fields.short_text(), unpack_sized_header(fields)
        frame = Raw(sender, header, _raw(fields, header))
    elif kind is LetterRun:
        frame = LetterRun(ref, bytes(fields.bytes(HASH)), *unpack_letters(fields))
    else:
        frame = _unpacked_answer(fields, kind, ref)
    return frame


def _unpacked_answer(fields: Fields, kind: type[Frame], ref: int) -> Frame:
    """Read a frame of the receiver."""
    frame: Frame
    if kind is Go:
        place, limit = fields.numbers(_GO)
        frame = Go(ref, place, limit, bytes(fields.bytes(HASH)))
    elif kind is Ack:
        frame = Ack(ref, *fields.numbers(_ACK))
    elif kind is Report:
        state, cause = TransferState(fields.number(1)), fields.short_text()
        frame = Report(unpack_ids(fields), state, cause)
    elif kind is Later:
        frame = Later(ref, fields.number(4), fields.short_text())
    else:
        frame = _unpack_seen(fields) if kind is Seen else Ready()
    return frame


def _unpack_seen(fields: Fields) -> Seen:
    if fields.left() % _SEEN.size:
        fields.wrong(f"{fields.left()} bytes of incarnations and sequences, of which each has {_SEEN.size}")
    return Seen(tuple((first, last) for first, last in _SEEN.iter_unpack(fields.bytes(fields.left()))))


def _piece(fields: Fields) -> memoryview:
    if not 0 < fields.left() <= LARGEST_PIECE:
        fields.wrong(f"a piece of {fields.left()} bytes, where 1 to {LARGEST_PIECE} are possible")
    return fields.bytes(fields.left())


def _raw(fields: Fields, header: Header) -> bytes:
    if not 0 < fields.left() <= LARGEST_RAW or fields.left() != header.length:
        fields.wrong(
            f"a body of {fields.left()} bytes; its header says {header.length}, and {LARGEST_RAW} are possible"
        )
    return bytes(fields.bytes(fields.left()))


def _unpack_id(fields: Fields) -> TransferId:
    incarnation, sequence = fields.numbers(_ID)
    return TransferId(fields.short_text(), incarnation, sequence)


def _unpack_offer(fields: Fields, ref: int) -> Offer:
    id, left, sender, header = _unpack_id(fields), fields.number(8), fields.short_text(), unpack_sized_header(fields)
    number = fields.number(2)
    if not 0 < number <= MOST_PARTS or (number > 1 and header.kind is not Kind.COMPOSITE):
        fields.wrong(f"{number} parts of a {header.kind.name}")
    parts: list[Part] = []
    for _ in range(number):
        kind, length = fields.numbers(_PART)
        parts.append(Part(Kind(kind), length, fields.short_text()))
    if any(part.kind is Kind.COMPOSITE or (part.kind is Kind.BUF) == bool(part.destination) for part in parts):
        fields.wrong("a part that is no BUF, and no FILE with a destination")
    if header.kind is not Kind.COMPOSITE and (parts[0].kind is not header.kind):
        fields.wrong(f"a {header.kind.name} whose part is a {parts[0].kind.name}")
    if any(part.kind is Kind.BUF and not part.length for part in parts):
        fields.wrong("an empty BUF")
    if sum(part.length for part in parts) >= 1 << 63:
        fields.wrong("parts of more than 2^63 bytes")
    return Offer(ref, id, left, sender, header, tuple(parts))
