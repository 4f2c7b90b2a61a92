"""The body that a program sends, and the body that a receiver gets: bytes, or a typed message like those of topics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rtmw.errors import TypeMismatch
from rtmw.transfer import header
from rtmw.transfer.header import Kind, pack_body
from rtmw.types import MessageType, resolve

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["File", "Part", "encoded", "packed", "unpacked"]


@dataclass(frozen=True, slots=True)
class File:
    """A file that is sent from where it lies: `send(to, rtmw.File("run.mcap", "in/run.mcap"))`, also among parts.

    `source`: its path; it must not be written to until it has arrived. `destination`: its path below the folder of the
    receiver's inbox, with `/` between names; None: its name.
    """

    source: str | os.PathLike[str]
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a COMPOSITE, whose parts become visible together: `send(to, [Part(head), File("table.csv")])`."""

    body: Any
    """Bytes, or a typed message."""


def packed(body: Any) -> tuple[Kind, bytes, bool]:
    """Return kind and bytes of a body, and whether it names files. Raises ValueError (empty, too many parts), and what
    Publisher.publish does: TypeMismatch, …"""
    if body.__class__ in (list, tuple):
        if not all(isinstance(part, Part | File) for part in body):
            raise TypeMismatch(f"a composite is a list of rtmw.Part and rtmw.File, and was given {body!r:.80}")
        parts = tuple(_file_of(part) if isinstance(part, File) else _bytes_of(part.body) for part in body)
        return (*pack_body(parts), any(isinstance(part, File) for part in body))
    if isinstance(body, File):
        return (*pack_body(_file_of(body)), True)
    return (*pack_body(_bytes_of(body)), False)


def encoded(body: Any) -> Any:
    """Return the bytes of a body, but a file or a composite as it is. Raises what `packed` does."""
    if body.__class__ in (bytes, list, tuple) or isinstance(body, File):
        return body
    return _bytes_of(body)


def _file_of(file: File) -> header.File:
    """Return the file as headers have it, with its absolute path. ValueError: no path that could be sent."""
    source, destination = os.fspath(file.source), file.destination
    if not source or destination == "":
        raise ValueError(f"{file!r} is not possible: name the file, and leave the destination out to keep its name")
    return header.File(os.path.abspath(source), destination or "")


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(cast("Buffer", value))
    type: MessageType = resolve(value.dtype if value.__class__.__module__ == "numpy" else value.__class__)
    if type.encode is None:
        raise TypeMismatch(f"a body is bytes or a typed message, and was given {value!r:.80}")
    return bytes(type.encode(value))


def unpacked(data: bytes, type: MessageType) -> Any:
    """Return the value of a body, of the type that the inbox was opened with."""
    return data if type.decode is None else type.decode(data)
