"""What a program sends as a body, and what a receiver gets of it: bytes, or a typed message like those of topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rtmw.errors import TypeMismatch
from rtmw.transfer.header import Kind, pack_body
from rtmw.types import MessageType, resolve

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Part", "packed", "unpacked"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a COMPOSITE, whose parts become visible together: `send(to, [Part(head), Part(table)])`."""

    body: Any
    """Bytes, or a typed message."""


def packed(body: Any) -> tuple[Kind, bytes]:
    """Kind and bytes. Raises ValueError (empty, too many parts), and as Publisher.publish: TypeMismatch, …"""
    if body.__class__ in (list, tuple):
        if not all(isinstance(part, Part) for part in body):
            raise TypeMismatch(f"a composite is a list of rtmw.Part, and was given {body!r:.80}")
        return pack_body(tuple(_bytes_of(part.body) for part in body))
    return pack_body(_bytes_of(body))


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(cast("Buffer", value))
    type: MessageType = resolve(getattr(value, "dtype", None) or value.__class__)
    if type.encode is None:
        raise TypeMismatch(f"a body is bytes or a typed message, and was given {value!r:.80}")
    return bytes(type.encode(value))


def unpacked(data: bytes, type: MessageType) -> Any:
    """The value of a body, of the type that the inbox was opened with."""
    return data if type.decode is None else type.decode(data)
