"""The letters of a batch as they go out: in their order, and as many as may go together in one frame."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias, cast

from rtmw.transfer.client.bodies import packed
from rtmw.transfer.client.group import MOST_BYTES, MOST_TOGETHER
from rtmw.transfer.client.options import SendOptions, goes_together
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.messages import Run, Send

__all__ = ["Alone", "Frame", "pieces"]


class Alone(NamedTuple):
    """A letter that goes by itself."""

    send: Send
    has_files: bool


Frame: TypeAlias = list[Run]
"""Letters that go out together."""


def pieces(to: str, bodies: Sequence[Any], options: SendOptions) -> list[Frame | Alone]:
    """What goes out one after the other. Raises as Sender.send does for a body that cannot be sent, with its index."""
    packs = [body if body.__class__ is bytes else _pack(to, body, options, at) for at, body in enumerate(bodies)]
    return list(_frames(_letters(to, packs, options)))


def _pack(to: str, body: Any, options: SendOptions, at: int) -> bytes | Alone:
    """Bytes: of a BUF."""
    with _naming(at):
        kind, data, has_files = packed(body)
        if kind is Kind.BUF:
            return data
        return Alone(Send(0, options.header(to, kind, len(data), has_files), b"", data), has_files)


@contextmanager
def _naming(at: int) -> Generator[None]:
    """Errors within it say of which body they are."""
    try:
        yield
    except Exception as error:
        error.add_note(f"That is bodies[{at}]; nothing was sent.")
        raise


def _letters(to: str, packs: Sequence[bytes | Alone], options: SendOptions) -> Iterator[Run | Alone]:
    """Letters that follow each other with one header are runs, each of which has room in a frame."""
    known: dict[int, tuple[Header, int]] = {}
    at = 0
    for size, same in groupby(packs, _size):
        found = tuple(same)
        if size is None:
            yield from cast("tuple[Alone, ...]", found)
        else:
            bodies = cast("tuple[bytes, ...]", found)
            header, most = known.get(size) or known.setdefault(size, _header(to, size, options, at))
            if len(bodies) <= most:
                yield Run(header, bodies)
            else:
                yield from _cut(header, bodies, most)
        at += len(found)


def _size(pack: bytes | Alone) -> int | None:
    return len(pack) if pack.__class__ is bytes else None


def _header(to: str, size: int, options: SendOptions, at: int) -> tuple[Header, int]:
    """Of bodies of this size; and how many of them have room in a frame, 0: each goes by itself."""
    with _naming(at):
        header = options.header(to, Kind.BUF, size, has_files=False)
    return header, min(MOST_TOGETHER, MOST_BYTES // size) if goes_together(header) else 0


def _cut(header: Header, bodies: tuple[bytes, ...], most: int) -> Iterator[Run | Alone]:
    if not most:
        yield from (Alone(Send(0, header, b"", body), has_files=False) for body in bodies)
        return
    for begin in range(0, len(bodies), most):
        yield Run(header, bodies[begin : begin + most])


def _frames(letters: Iterable[Run | Alone]) -> Iterator[Frame | Alone]:
    frame: Frame = []
    room, space = MOST_TOGETHER, MOST_BYTES
    for letter in letters:
        if isinstance(letter, Alone):
            if frame:
                yield frame
            yield letter
            frame, room, space = [], MOST_TOGETHER, MOST_BYTES
            continue
        count = len(letter.bodies)
        size = count * letter.header.length
        if count > room or size > space:
            yield frame
            frame, room, space = [], MOST_TOGETHER, MOST_BYTES
        frame.append(letter)
        room, space = room - count, space - size
    if frame:
        yield frame
