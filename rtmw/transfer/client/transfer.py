"""`rtmw.Transfer`: what has become of something that was sent; and of letters that a program sends as one batch.

The letters of a batch go out in their order, and as many together as may go in one frame (`pieces`). One thread or task
waits for all of them, and looks at the tables of their groups (`group.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from rtmw.errors import BatchTimeout, ClosedError
from rtmw.qos import check_seconds
from rtmw.transfer.client.bodies import packed
from rtmw.transfer.client.group import LOST, MOST_BYTES, MOST_TOGETHER, REACHED, Group
from rtmw.transfer.client.options import SendOptions, goes_together
from rtmw.transfer.client.waiting import Deadline, Pending
from rtmw.transfer.errors import TransferError, TransferRefused, error_of
from rtmw.transfer.header import Delivery, Header, Kind, Level
from rtmw.transfer.messages import Accepted, Advanced, Alter, Move, Run, Send
from rtmw.transfer.records import ENDED, TransferId, TransferState

if TYPE_CHECKING:
    from rtmw.transfer.client.group import Place
    from rtmw.transfer.client.sender import Sender
    from rtmw.transfer.client.transaction import Transaction

__all__ = ["Alone", "Progress", "Transfer", "pieces", "send_batch", "send_batch_async"]


@dataclass(frozen=True)
class Progress:
    """How far a transfer has come: HELD, on its way to the core of this host; from then on, to that of its receiver."""

    state: TransferState
    bytes: int
    """While HELD: bytes of the body that the core of this host has. Then: bytes of the content that the core of the
    receiver has, as far as that has said so. A letter up to 64 KiB is there as a whole, or not at all. With
    `service/*`, it is the receiver that has least.
    """
    total: int
    """While HELD: the bytes of the body, where files are only named. Then: those of the content, files included."""

    @property
    def share(self) -> float:
        """The share of its bytes that is there, from 0 to 1; 1 for an empty file."""
        return self.bytes / self.total if self.total else 1.0


class Transfer:
    """Made by `Sender.send`. It is followed while the program keeps it. Any thread."""

    _has_files = False
    _ids: tuple[TransferId, ...] = ()
    _states: Mapping[TransferId, TransferState] = MappingProxyType({})
    _most: Mapping[TransferId, Level] = MappingProxyType({})
    _advanced: Mapping[TransferId, Advanced] = MappingProxyType({})
    _cause = ""
    _failure: Exception | None = None
    _callbacks: tuple[Callable[[Progress], object], ...] = ()
    _pending: Pending | None = None
    _transaction: Transaction | None = None
    _twins: Sequence[Transfer] = ()
    """The transfers of one id, this one too: they live together, and are told the same. Empty: there is no other."""

    def __init__(self, sender: Sender, header: Header, place: Place | None = None, *, has_files: bool = False) -> None:
        self._sender, self._header = sender, header
        self._place = place
        """The place of a letter that went out with others: what has become of it stands there."""
        if has_files:
            self._has_files = True

    def _look(self) -> None:
        """Look at its place among others, before anybody is told how it is."""
        if self._place is None:
            return
        group, index = self._place
        self._failure = group.error_of(index)
        found = group.state_of(index)
        if found is not None:
            id, state, level, self._cause = found
            self._ids, self._states, self._most = (id,), {id: state}, {id: level}

    @property
    def id(self) -> TransferId | None:
        """Which transfer it is, everywhere and for ever; None: the core has not answered yet. With `service/*`, it is
        the id for the first receiver."""
        self._look()
        return self._ids[0] if self._ids else None

    @property
    def ids(self) -> tuple[TransferId, ...]:
        """The ids: one a receiver of `service/*`; else one."""
        self._look()
        return self._ids

    @property
    def state(self) -> TransferState:
        """The state, as far as this program has heard; HELD: not accepted yet. With `service/*`, the least far one."""
        self._look()
        states = list(self._states.values())
        failed = [state for state in states if state not in REACHED]
        return failed[0] if failed else min(states, key=lambda state: REACHED[state], default=TransferState.HELD)

    @property
    def cause(self) -> str:
        """Why it was refused, or is a dead letter."""
        self._look()
        return self._cause

    @property
    def progress(self) -> Progress:
        state, states, pending = self.state, self._states, self._pending
        if not states:
            return Progress(state, pending.got if pending is not None else 0, self._header.length)
        total = max((one.total for one in self._advanced.values()), default=self._header.length)
        return Progress(state, min(self._bytes_there(id, total) for id in states), total)

    def _bytes_there(self, id: TransferId, total: int) -> int:
        if self._most.get(id, Level.NONE) >= Level.SENT:
            return total
        known = self._advanced.get(id)
        return known.bytes if known is not None else 0

    def wait(self, level: Level, timeout: float | None = None) -> bool:
        """Wait until it has reached the level: True. False: it has not within `timeout` seconds (None: no limit).

        TransferRefused, SourceChanged: it never will, and why. CoreNotRunning: there has been no core for ten seconds.
        ClosedError: its sender was closed, so nothing more is heard of it.
        """
        check_seconds("timeout", timeout)
        self._check_level(level)
        if not self._sender._line.wait_until(lambda: self._is_known(level), timeout):
            return False
        return self._outcome(level)

    async def reached(self, level: Level, timeout: float | None = None) -> bool:
        """Wait as `wait` does, for asyncio: the event loop goes on meanwhile."""
        check_seconds("timeout", timeout)
        self._check_level(level)
        if not await self._sender._line.until(lambda: self._is_known(level), timeout):
            return False
        return self._outcome(level)

    async def _over(self, level: Level, deadline: Deadline) -> bool:
        """Wait as `reached` does, for a level that its header has."""
        line = self._sender._line
        return await line.until(lambda: self._is_known(level), deadline.left) and self._outcome(level)

    def _check_level(self, level: Level) -> None:
        Header(self._header.to, self._header.kind, 1, level, self._header.delivery)

    def _is_known(self, level: Level) -> bool:
        """Is there nothing to wait for?"""
        return self._is_over(level) or self._sender._closed

    def _is_over(self, level: Level) -> bool:
        """Has it reached the level, or will it never?"""
        if self._place is not None and level is not Level.NONE:
            group, index = self._place
            return group.is_over(index, level)
        if self._failure is not None or level is Level.NONE:
            return True
        if not self._states:
            return False
        return any(state not in REACHED for state in self._states.values()) or all(
            most >= level for most in self._most.values()
        )

    def _error(self, level: Level) -> Exception | None:
        """Return why it will not reach the level; None: it has. ClosedError."""
        try:
            self._outcome(level)
        except (TransferError, ValueError) as error:
            return error
        return None

    def _outcome(self, level: Level) -> bool:
        if level is Level.NONE:
            return True
        self._look()
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        if not self._is_over(level):
            raise ClosedError(f"the sender of transfer {self.id} was closed; it goes on, and nothing is heard of it")
        if all(most >= level for most in self._most.values()):
            return True
        state = self.state
        why = f": {self._cause}" if self._cause else ""
        if state is TransferState.UNKNOWN:
            raise TransferError(
                f"transfer {self.id}: nobody knows whether it was {level.name}, because its core was started anew"
                f"{self._advice}"
            )
        raise error_of(f"transfer {self.id} is {state.name}, and will not be {level.name}{why}", self._cause)

    @property
    def _advice(self) -> str:
        is_logged = self._header.delivery is Delivery.LOG
        return "" if is_logged else "; with Delivery.LOG it would be known"

    def on_progress(self, callback: Callable[[Progress], object]) -> None:
        """Called at once, and whenever it has come further; in a thread of rtmw, so it must not block."""
        self._callbacks += (callback,)
        if self._place is not None:
            group, index = self._place
            group.watch(index, self)
        callback(self.progress)

    def cancel(self) -> bool:
        """True: nobody gets it. False: it was handed over already, or has ended; or it may be at a node that is not
        connected, and is cancelled there later, if nobody has taken it by then.
        """
        line = self._sender._line
        if self._place is not None:
            line.wait_until(lambda: self._is_over(Level.ACCEPTED), None)
        if self.state in ENDED:
            return self.state is TransferState.CANCELLED
        if self._pending is not None:
            line.wait(self._pending)
        try:
            for id in self.ids:
                line.ask(self._sender._life, Alter(id, TransferState.CANCELLED))
        except TransferRefused:
            return False
        return True

    # ---- of the sender, in the thread of the line ----

    @property
    def has_ended(self) -> bool:
        """Will nothing more be heard of it?"""
        self._look()
        over = ENDED | {TransferState.UNKNOWN}
        return self._failure is not None or (bool(self._states) and all(one in over for one in self._states.values()))

    def _accepted(self, pending: Pending) -> None:
        """Take the answer of the core."""
        if pending.error is not None:
            self._failure = pending.error
        elif isinstance(pending.answer, Accepted):
            self._ids = pending.answer.ids
            self._advanced = {one.id: one for one in pending.advanced}
            for id in self._ids:
                self._set_state(id, self._states.get(id, TransferState.ACCEPTED))
            if not self._ids:
                self._failure = TransferError(LOST)
        self._tell()

    def _set_state(self, id: TransferId, state: TransferState) -> None:
        """The core of a receiver of this node is the sender's: it has all bytes when it accepts, but those of files."""
        is_here = self._header.to.node in ("", self._sender._node) and not self._has_files
        level = Level.SENT if is_here and state is TransferState.ACCEPTED else REACHED.get(state, Level.NONE)
        self._states = {**self._states, id: state}  # others go through it meanwhile
        self._most = {**self._most, id: max(self._most.get(id, Level.NONE), level)}

    def _twin_of(self, other: Transfer) -> None:
        """Both are the same transfer, sent again with its id."""
        twins = [*(other._twins or [other]), self]
        for one in twins:
            one._twins = twins
        for id, state in other._states.items():
            self._set_state(id, state)

    def _told(self, id: TransferId, move: Move) -> bool:
        """Note that it has moved, and so have its twins. Is that news?"""
        return any([one._moved(id, move) for one in self._twins or (self,)])

    def _went_on(self, news: Advanced) -> None:
        """Note that more of it is there; so it is of its twins."""
        for one in self._twins or (self,):
            one._has_now(news)

    def _has_now(self, news: Advanced) -> None:
        before, self._advanced = self.progress, {**self._advanced, news.id: news}
        if self.progress != before:
            self._tell()

    def _moved(self, id: TransferId, move: Move) -> bool:
        state, before = move.state, self._states.get(id)
        if state is TransferState.UNKNOWN and before in ENDED:
            return False  # the core that has told its end is gone
        if state is None or (state is TransferState.UNKNOWN and self._was_undone):
            is_news = False  # its transaction is the news
            self._failure = TransferRefused(f"transfer {id} was part of a transaction that was undone")
        else:
            is_news = state is not before
            self._cause = move.cause
            self._set_state(id, state)
        self._tell()
        return is_news

    @property
    def _was_undone(self) -> bool:
        """Was it undone with its transaction, in which nobody but its sender knew of it?"""
        return self._transaction is not None and self._transaction._is_lost

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback(self.progress)

    def __repr__(self) -> str:
        return f"<rtmw.Transfer {self.id or 'not accepted yet'} to {self._header.to} {self.state.name}>"


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
