"""Key and id of a record: what lies between its head and its data.

0          1         2            4           6      8
| kind of  | kind of | length of  | length of | zero | key | id | zeros up to a multiple of eight |
| the key  | the id  | the key    | the id    |      |
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

__all__ = ["LONGEST", "AutomaticId", "Label", "pack_labels", "unpack_labels"]

Label = str | bytes | int
"""The types of a key or an id."""


class AutomaticId(NamedTuple):
    """An id that a client gives an append of which its program has given none, to find it again. Nobody is shown it."""

    producer: bytes
    """16 random bytes."""
    sequence: int


LONGEST: Final = 4096
_HEAD: Final = struct.Struct("<BBHHH")
_SEQUENCE: Final = struct.Struct("<16sQ")
_NONE, _BYTES, _TEXT, _NUMBER, _AUTOMATIC = range(5)


def _pack(what: str, label: Label | None) -> tuple[int, bytes]:
    match label:
        case None:
            return _NONE, b""
        case bytes():
            kind, packed = _BYTES, label
        case str():
            try:
                kind, packed = _TEXT, label.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{what}={label!r} is not possible: it has a surrogate, which is no text") from None
        case bool():
            raise TypeError(f"{what}={label!r} is not possible; it is text, bytes or a whole number")
        case int():
            kind, packed = _NUMBER, label.to_bytes(label.bit_length() // 8 + 1, "little", signed=True)
        case _:
            raise TypeError(f"{what}={label!r} is not possible; it is text, bytes or a whole number")
    if len(packed) > LONGEST:
        raise ValueError(f"a {what} of {len(packed)} bytes is not possible; at most {LONGEST} are")
    return kind, packed


def pack_labels(key: Label | None, id: Label | AutomaticId | None) -> bytes | None:
    """The bytes of both; None: there is neither. Raises TypeError, ValueError."""
    if key is None and id is None:
        return None
    key_kind, key_bytes = _pack("key", key)
    id_kind, id_bytes = (_AUTOMATIC, _SEQUENCE.pack(*id)) if isinstance(id, AutomaticId) else _pack("id", id)
    packed = _HEAD.pack(key_kind, id_kind, len(key_bytes), len(id_bytes), 0) + key_bytes + id_bytes
    return packed + bytes(-len(packed) % 8)


def _unpack(kind: int, packed: bytes) -> Label | None:
    match kind:
        case 1:
            return packed
        case 2:
            return packed.decode()
        case 3:
            return int.from_bytes(packed, "little", signed=True)
        case _:  # none, or an automatic id
            return None


def unpack_labels(packed: bytes) -> tuple[Label | None, Label | None]:
    """Key and id of the bytes between head and data, which the log has checked."""
    if not packed:
        return None, None
    key_kind, id_kind, key_size, id_size, _ = _HEAD.unpack_from(packed)
    between = _HEAD.size + key_size
    return _unpack(key_kind, packed[_HEAD.size : between]), _unpack(id_kind, packed[between : between + id_size])
