"""Runs in frames, as bytes: ids of one incarnation, and letters with one header."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from xxhash import xxh3_128_digest

from rtmw.transfer.fields import Fields, packed_text
from rtmw.transfer.header import Header, pack_sized_header, unpack_sized_header
from rtmw.transfer.records import LARGEST_INLINE, TransferId, is_letter

__all__ = ["pack_ids", "pack_letters", "unpack_ids", "unpack_letters", "value_of"]


def value_of(letters: Mapping[TransferId, bytes]) -> bytes:
    """XXH3 of the letters as their frame has them."""
    return xxh3_128_digest(b"".join(_packed(letters)))


def _packed(letters: Mapping[TransferId, bytes]) -> Iterator[bytes]:
    for id, body in letters.items():
        yield id.sequence.to_bytes(8, "little")
        yield body


def _pack_origin(id: TransferId) -> bytes:
    """All of an id but its sequence."""
    return id.incarnation.to_bytes(8, "little") + packed_text(id.node, "the node")


def pack_ids(ids: Sequence[TransferId]) -> tuple[bytes, bytes]:
    """Of one incarnation; one at least."""
    return _pack_origin(ids[0]), struct.pack(f"<{len(ids)}Q", *(id.sequence for id in ids))


def unpack_ids(fields: Fields) -> tuple[TransferId, ...]:
    incarnation, node = fields.number(8), fields.short_text()
    count, rest = divmod(fields.left(), 8)
    if rest or not count:
        fields.wrong(f"{fields.left()} bytes of sequences, of which each has 8, and there is one at least")
    numbers: tuple[int, ...] = struct.unpack(f"<{count}Q", fields.bytes(8 * count))
    return tuple(TransferId(node, incarnation, number) for number in numbers)


def pack_letters(sender: str, header: Header, letters: Mapping[TransferId, bytes]) -> tuple[bytes, ...]:
    """Of one incarnation; one at least."""
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
