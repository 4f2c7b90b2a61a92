"""Letters that a program sends as one batch: those that went out, and what has become of them.

One thread or task waits for all of them, and looks at the tables of their groups (`group.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rtmw.errors import BatchTimeout
from rtmw.transfer.client.deadline import Deadline
from rtmw.transfer.client.group import Group
from rtmw.transfer.client.options import SendOptions
from rtmw.transfer.client.pieces import Alone, Frame, pieces
from rtmw.transfer.client.transfer import Transfer
from rtmw.transfer.errors import TransferError, TransferRefused
from rtmw.transfer.header import Level

if TYPE_CHECKING:
    from rtmw.transfer.client.sender import Sender

__all__ = ["Batch", "send_batch", "send_batch_async"]


class Batch:
    """Of one call. Raises as Sender.send does for a body that cannot be sent; then nothing was sent."""

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
        """These letters go out. False: too much is unanswered. `waits`: for room in the queue of the core."""
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
        """A letter went out by itself."""
        self._alone.append(transfer)
        self._sent.append(transfer)

    @contextmanager
    def telling(self) -> Generator[None]:
        """Errors within it have the letters that went out."""
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
        """Each letter has reached the level, or never will; or nothing more is heard of them. In any thread."""
        level = self._level
        if level is Level.NONE or self._sender._closed:
            return True
        are_over = all(group.all_over(level) for group in reversed(self._groups))
        return are_over and all(one._is_over(level) for one in self._alone)

    def result(self) -> list[Transfer]:
        """Of a batch that is over. TransferError: some letters will not reach the level. ClosedError."""
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
    """The same for a task."""
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
