"""Letters that a program sends as one batch: those that went out, and what has become of them.

They go out in their order, and as many together as may go in one frame (`pieces`). One thread or task waits for all of
them, and looks at the tables of their groups (`group.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from rtmw.errors import BatchTimeout
from rtmw.transfer.client.bodies import packed
from rtmw.transfer.client.group import MOST_BYTES, MOST_TOGETHER, Group
from rtmw.transfer.client.options import SendOptions, goes_together
from rtmw.transfer.client.transfer import Transfer
from rtmw.transfer.client.waiting import Deadline
from rtmw.transfer.errors import TransferError, TransferRefused
from rtmw.transfer.header import Header, Kind, Level
from rtmw.transfer.messages import Run, Send

if TYPE_CHECKING:
    from rtmw.transfer.client.sender import Sender

__all__ = ["Alone", "pieces", "send_batch", "send_batch_async"]


class Alone(NamedTuple):
    """A letter that goes by itself."""

    send: Send
    has_files: bool


Frame: TypeAlias = list[Run]
"""Letters that go out together."""


def pieces(to: str, bodies: Sequence[Any], options: SendOptions) -> list[Frame | Alone]:
    """Return what goes out one after the other. Raises what Sender.send does for a wrong body, with its index."""
    packs = [body if body.__class__ is bytes else _pack(to, body, options, at) for at, body in enumerate(bodies)]
    return list(_frames(_letters(to, packs, options)))


def _pack(to: str, body: Any, options: SendOptions, at: int) -> bytes | Alone:
    """Return the bytes of a BUF, or a letter that goes by itself."""
    with _naming(at):
        kind, data, has_files = packed(body)
        if kind is Kind.BUF:
            return data
        return Alone(Send(0, options.header(to, kind, len(data), has_files), b"", data), has_files)


@contextmanager
def _naming(at: int) -> Generator[None]:
    """Errors within the block say of which body they are."""
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
    """Return the header of bodies of this size, and how many of them have room in a frame; 0: each goes by itself."""
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


class Batch:
    """The letters of one call. Raises what Sender.send does for a body that cannot be sent; then nothing was sent."""

    def __init__(self, sender: Sender, to: str, bodies: Iterable[Any], options: SendOptions) -> None:
        options.check()
        if isinstance(bodies, bytes | bytearray | memoryview | str):
            raise TypeError(f"bodies={bodies!r:.40} is one body; write [body] for a batch of one")
        given = list(bodies)
        self.pieces = pieces(to, given, options)
        """What goes out one after the other."""
        self._sender, self._count = sender, len(given)
        self._level, self.deadline = Level(options.wait), Deadline(options.timeout)
        self._sent: list[Transfer] = []
        self._groups: list[Group] = []
        self._alone: list[Transfer] = []

    # ---- what goes out ----

    def put(self, frame: Frame, waits: bool) -> bool:
        """Send these letters. False: too much is unanswered. `waits`: for room in the queue of the core."""
        sender = self._sender
        group = sender._line.requests.begin_runs(sender, frame, waits)
        if group is None:
            return False
        self._groups.append(group)
        end = 0
        for header, bodies in frame:
            begin, end = end, end + len(bodies)
            self._sent += [Transfer(sender, header, (group, at)) for at in range(begin, end)]
        return True

    def add(self, transfer: Transfer) -> None:
        """Add a letter that went out by itself."""
        self._alone.append(transfer)
        self._sent.append(transfer)

    @contextmanager
    def telling(self) -> Generator[None]:
        """Errors within the block have the letters that went out."""
        try:
            yield
        except TransferError as error:
            error.transfers = tuple(self._sent)
            raise
        except TimeoutError as error:
            raise self._late() from error

    def check(self, in_time: bool) -> None:
        if not in_time:
            raise self._late()

    def _late(self) -> BatchTimeout:
        sent, count = len(self._sent), self._count
        rest = f", and {count - sent} were not sent" if sent < count else ""
        when = "in time" if self.deadline.timeout is None else f"within {self.deadline.timeout} s"
        words = f"not all letters have become {self._level.name} {when}; {sent} of {count} go on{rest}"
        return BatchTimeout(words, tuple(self._sent))

    # ---- what has become of it ----

    def is_over(self) -> bool:
        """Has each letter reached the level, or will never; or is nothing more heard of them? In any thread."""
        level = self._level
        if level is Level.NONE or self._sender._closed:
            return True
        are_over = all(group.all_over(level) for group in reversed(self._groups))
        return are_over and all(one._is_over(level) for one in self._alone)

    def result(self) -> list[Transfer]:
        """Return the letters of a batch that is over. TransferError: some will not reach the level. ClosedError."""
        level = self._level
        if level is not Level.NONE and (self._alone or not all(group.all_reached(level) for group in self._groups)):
            errors = [error for one in self._sent if (error := one._error(level)) is not None]
            if errors:
                raise self._failure(errors) from errors[0]
        return self._sent

    def _failure(self, errors: list[Exception]) -> TransferError:
        words = f"{len(errors)} of {self._count} letters will not be {self._level.name}; the first one: {errors[0]}"
        are_refused = all(isinstance(one, TransferRefused) for one in errors)
        return TransferRefused(words) if are_refused else TransferError(words)


def send_batch(sender: Sender, to: str, bodies: Iterable[Any], options: SendOptions) -> list[Transfer]:
    """See Sender.send_many."""
    batch, line = Batch(sender, to, bodies, options), sender._line
    with batch.telling():
        for piece in batch.pieces:
            if isinstance(piece, Alone):
                transfer = Transfer(sender, piece.send.header, has_files=piece.has_files)
                sender._hand_over(transfer, piece.send, batch.deadline)
                batch.add(transfer)
                continue
            while not batch.put(piece, waits=True):
                batch.check(line.wait_until(line.requests.has_room, batch.deadline.left))
        batch.check(batch.is_over() or line.wait_until(batch.is_over, batch.deadline.left))
        return batch.result()


async def send_batch_async(sender: Sender, to: str, bodies: Iterable[Any], options: SendOptions) -> list[Transfer]:
    """Send the letters as `send_batch` does, for a task."""
    batch, line = Batch(sender, to, bodies, options), sender._line
    with batch.telling():
        for piece in batch.pieces:
            if isinstance(piece, Alone):
                transfer = Transfer(sender, piece.send.header, has_files=piece.has_files)
                await sender._hand_over_async(transfer, piece.send, batch.deadline)
                batch.add(transfer)
                continue
            while not batch.put(piece, waits=False):
                batch.check(await line.until(line.requests.has_room, batch.deadline.left))
        batch.check(batch.is_over() or await line.until(batch.is_over, batch.deadline.left))
        return batch.result()
