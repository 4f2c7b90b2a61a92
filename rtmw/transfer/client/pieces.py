"""The letters of a batch as they go out: in their order, and as many as may go together in one frame."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias, cast

from rtmw.transfer.client.bodies import packed
from rtmw.transfer.client.group import MOST_BYTES
from rtmw.transfer.client.options import SendOptions, goes_together
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.messages import Run, Send

__all__ = ["MOST_TOGETHER", "Alone", "Frame", "pieces"]

MOST_TOGETHER: Final = 128
"""Letters of a batch in one frame."""


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
    at = 0
    for size, same in groupby(packs, _size):
        found = list(same)
        if size is None:
            yield from cast("list[Alone]", found)
        else:
            with _naming(at):
                header = options.header(to, Kind.BUF, size, has_files=False)
            yield from _of_size(header, cast("list[bytes]", found))
        at += len(found)


def _size(pack: bytes | Alone) -> int | None:
    return len(pack) if pack.__class__ is bytes else None


def _of_size(header: Header, bodies: list[bytes]) -> Iterator[Run | Alone]:
    if not goes_together(header):
        yield from (Alone(Send(0, header, b"", body), has_files=False) for body in bodies)
        return
    most = min(MOST_TOGETHER, MOST_BYTES // header.length)
    for begin in range(0, len(bodies), most):
        yield Run(header, tuple(bodies[begin : begin + most]))


def _frames(letters: Iterable[Run | Alone]) -> Iterator[Frame | Alone]:
    frame: Frame = []
    room, space = MOST_TOGETHER, MOST_BYTES
    for letter in letters:
        if frame and (isinstance(letter, Alone) or len(letter.bodies) > room or _bytes(letter) > space):
            yield frame
            frame, room, space = [], MOST_TOGETHER, MOST_BYTES
        if isinstance(letter, Alone):
            yield letter
        else:
            frame.append(letter)
            room, space = room - len(letter.bodies), space - _bytes(letter)
    if frame:
        yield frame


def _bytes(run: Run) -> int:
    return len(run.bodies) * run.header.length
