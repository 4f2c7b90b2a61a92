"""SEEN: the frame in which a receiver says what has come from the sender before."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from rtmw.transfer.fields import Fields

__all__ = ["Seen"]

_ONE: Final = Struct("<QQ")


class Seen(NamedTuple):
    """Each incarnation, and the largest sequence of it. First on a stream, and said only to a sender that says in its
    hello that it knows this frame."""

    newest: tuple[tuple[int, int], ...]

    def pack(self) -> bytes:
        return b"".join(_ONE.pack(*one) for one in self.newest)

    @classmethod
    def unpack(cls, fields: Fields) -> Seen:
        if fields.left() % _ONE.size:
            fields.wrong(f"{fields.left()} bytes of incarnations and sequences, of which each has {_ONE.size}")
        return cls(tuple((first, last) for first, last in _ONE.iter_unpack(fields.bytes(fields.left()))))
