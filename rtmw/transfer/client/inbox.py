"""`rtmw.Inbox`: takes the letters of a service, and hands over each as a `rtmw.Letter`.

Callers that wait share one Take, which waits at the core (`Taking`). Each answer puts its letters where every caller
finds them, and the first caller to come has the first letter. A Take for which nobody waits any more is given up, so
the core hands over nothing to nobody; letters that were on their way by then are ahead of the next call. Letters that
the tasks of an event loop consume in one turn are settled by one request (`Settling`).
"""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self

import rtmw
from rtmw.closing import Closing
from rtmw.errors import ClosedError
from rtmw.notebook import ShownByFields
from rtmw.qos import check_seconds
from rtmw.transfer.address import Address, Life, Reach
from rtmw.transfer.client.bodies import unpacked
from rtmw.transfer.client.line import Line, new_life
from rtmw.transfer.client.waiting import Deadline, Pending, error_in
from rtmw.transfer.errors import TransferError
from rtmw.transfer.header import Delivery, File, Header, Kind, unpack_body
from rtmw.transfer.messages import Handed, Join, Leave, Message, Settle, Settled, Take
from rtmw.transfer.records import NEVER_LOGGED, Spooled, TransferId, TransferState
from rtmw.types import resolve

if TYPE_CHECKING:
    from rtmw.transfer.client.sender import Sender

__all__ = ["Inbox", "InboxStats", "Letter"]


class Letter:
    """A transfer that was handed to this process. It is redelivered, to this inbox or to another one, unless it is
    consumed; `with` (and `async with`) consumes it at the end, and gives it back after an exception.

    A letter that a transaction has taken is consumed by its COMMIT, and cannot be consumed by itself.
    """

    def __init__(self, inbox: Inbox, handed: Handed, txn: int = 0) -> None:
        self._inbox, self._handed, self._txn = inbox, handed, txn
        self._is_settled = self.header.delivery is Delivery.SMALL_RAW
        self._is_logged = handed.item < NEVER_LOGGED

    @property
    def id(self) -> TransferId:
        """Which transfer it is, everywhere and for ever: what a program remembers in its own transaction, to do
        nothing twice."""
        return self._handed.id

    @property
    def header(self) -> Header:
        """Address, level, lifetime, priority."""
        return self._handed.header

    @property
    def sender(self) -> str:
        """The name of its sender."""
        return self._handed.sender

    @property
    def redelivered(self) -> int:
        """How often it was handed over before."""
        return self._handed.redelivered

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self._handed.header.length

    def open(self) -> IO[bytes]:
        """The body, to be read from the front; above 64 KiB it lies in a file that CONSUMED frees. TransferError: the
        file is gone, because the letter was consumed, or given to another receiver.
        """
        body = self._handed.body
        if not isinstance(body, Spooled):
            return io.BytesIO(body)
        try:
            return Path(body.name).open("rb")
        except FileNotFoundError:
            raise TransferError(f"the body of {self.id} is gone; read it before the letter is consumed") from None

    def _data(self) -> bytes:
        body = self._handed.body
        if not isinstance(body, Spooled):
            return body
        with self.open() as file:
            return file.read()

    @property
    def body(self) -> Any:
        """Bytes, or a value of the inbox's type; of a FILE, its path; of a COMPOSITE, the tuple of `parts`. A body of
        more than 64 KiB is read from its file here, all of it; `open` reads it bit by bit."""
        return self.parts if self.header.kind is Kind.COMPOSITE else self.parts[0]

    @property
    def parts(self) -> tuple[Any, ...]:
        """The bodies of a COMPOSITE, in their order, with the path of each file; else the one body."""
        type = self._inbox.type
        return tuple(Path(part.source) if isinstance(part, File) else unpacked(part, type) for part in self._content())

    def _content(self) -> tuple[bytes | File, ...]:
        kind = self.header.kind
        if kind is Kind.BUF:
            return (self._data(),)
        content = unpack_body(kind, self._data())
        return content if isinstance(content, tuple) else (content,)

    @property
    def files(self) -> tuple[Path, ...]:
        """Where its files are, below the folder of the inbox; those of a COMPOSITE in a folder of their own. Whatever
        becomes of the letter, they stay.
        """
        if self.header.kind is Kind.BUF:
            return ()
        return tuple(Path(part.source) for part in self._content() if isinstance(part, File))

    # ---- what becomes of it ----

    def consume(self) -> None:
        """Consume the letter: it is done with, and never comes again; its body is freed. With Delivery.LOG, and of a
        transaction, this is on the disk when it returns. Idempotent."""
        self._settle(TransferState.CONSUMED, "")

    def refuse(self, reason: str) -> None:
        """Refuse the letter, which is not wanted; its sender is told why."""
        self._settle(TransferState.REFUSED, reason)

    def give_back(self, reason: str = "") -> None:
        """Put the letter in its place again, for any receiver. After sixteen deliveries it is a dead letter."""
        self._settle(TransferState.ACCEPTED, reason)

    def _settle(self, state: TransferState, cause: str) -> None:
        together = self._begin(state, cause)
        if together is not None and self._is_logged:
            self._inbox._line.wait_until(lambda: together.is_done, None)
            together.result(0)

    def _begin(self, state: TransferState, cause: str) -> Together | None:
        if self._txn:
            raise ValueError(f"transaction {self._txn} has taken this letter; commit or abort that")
        if self._is_settled:
            return None
        self._is_settled, together = True, Together(state, cause[:1000])
        together.items.append(self._handed.item)
        self._inbox._settling.ask(together)
        return together

    def _end_of(self, error: BaseException | None) -> tuple[TransferState, str]:
        return (TransferState.CONSUMED, "") if error is None else (TransferState.ACCEPTED, repr(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._txn:
            self._settle(*self._end_of(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Consume the letter with what else is consumed in this turn of the event loop, or give it back."""
        if self._txn or self._is_settled:
            return
        index, together = 0, None
        if error is not None:
            together = self._begin(*self._end_of(error))
        else:
            self._is_settled = True
            together, index = self._inbox._settling.add(self._handed.item)
        if together is not None and self._is_logged:
            await self._inbox._line.until(lambda: together.is_done, None)
            together.result(index)

    def __repr__(self) -> str:
        return f"<rtmw.Letter {self.id} from {self.sender!r}, {self.size} bytes>"


SETTLED_MOST: Final = 64
"""Largest number of letters in one request."""
Loop = asyncio.AbstractEventLoop


class Together:
    """The letters that one request settles. The thread of the line writes it, once it was asked."""

    __slots__ = ("_errors", "cause", "is_done", "items", "refused", "state")

    def __init__(self, state: TransferState, cause: str) -> None:
        self.state, self.cause = state, cause
        self.items: list[int] = []
        self.is_done = False
        self.refused = 0
        """Number of these letters that the core did not accept."""
        self._errors: dict[int, Exception] = {}

    def answered(self, pending: Pending) -> None:
        if pending.error is not None:
            self._errors = dict.fromkeys(range(len(self.items)), pending.error)
        elif isinstance(pending.answer, Settled):
            self._errors = {index: error_in(failed) for index, failed in pending.answer.failed}
        self.refused = len(self._errors) if pending.answer is not None else 0
        self.is_done = True

    def result(self, index: int) -> None:
        """Raise the error of a letter that was not settled, once the request is done."""
        error = self._errors.get(index)
        if error is not None:
            raise type(error)(*error.args)  # anew for each who asks: a traceback belongs to one of them


class Settling:
    """Settles letters of one inbox. `settled`: called when a request was answered, by the line's thread."""

    def __init__(self, line: Line, life: Life, settled: Callable[[Together], object]) -> None:
        self._line, self._requests, self._life, self._settled = line, line.requests, life, settled
        self._open: dict[Loop, Together] = {}
        """Letters that are consumed at the end of the turn, by event loop; under the lock of the requests."""

    def add(self, item: int) -> tuple[Together, int]:
        """Add a letter to those that this turn of the event loop consumes. Returns them, and the letter's index."""
        loop = asyncio.get_running_loop()
        with self._requests.lock:
            together = self._open.get(loop)
            if together is None:
                together = self._open[loop] = Together(TransferState.CONSUMED, "")
                loop.call_soon(self._send, loop)
            together.items.append(item)
            index = len(together.items) - 1
            if index + 1 >= SETTLED_MOST:
                self._send(loop)
        return together, index

    def send(self) -> None:
        """Send all that was gathered, now."""
        with self._requests.lock:
            for loop in list(self._open):
                self._send(loop)

    def _send(self, loop: Loop) -> None:
        with self._requests.lock:
            together = self._open.pop(loop, None)
            if together is not None:
                with suppress(Exception):  # its tasks raise it
                    self.ask(together)

    def ask(self, together: Together) -> None:
        """Send a request. Raises what keeps it from being sent, which is its end."""

        def answered(pending: Pending) -> None:
            together.answered(pending)
            self._settled(together)

        message = Settle(together.state, together.cause, tuple(together.items))
        pending = Pending(self._life, message, on_done=answered)
        try:
            self._requests.begin(pending)
        except Exception as error:
            pending.error = error
            together.answered(pending)
            self._line.changed.notify()
            raise


TAKEN_MOST: Final = 64
"""Largest number of letters that are asked for at a time, when many come."""


class Taking:
    """Takes letters for one inbox; any thread. `came`: called with the number of each letter, by the line's thread."""

    def __init__(self, line: Line, life: Life, came: Callable[[int], None]) -> None:
        self._line, self._life, self._came = line, life, came
        self._lock = threading.Lock()
        """Protects the fields below; nobody waits under it."""
        self._callers: dict[Pending, int] = {}
        """Takes without an answer, and how many callers wait for each."""
        self._most = 1
        self.ahead: deque[Handed] = deque()
        """Letters that were handed over, and that no call has got."""

    @contextmanager
    def asked(self, *, waits: bool) -> Generator[Pending]:
        """Ask for one caller, which waits within the block. `waits`: the core answers when a letter comes; else now."""
        pending = self._begin(waits)
        try:
            yield pending
        finally:
            self._leave(pending)

    def is_over(self, pending: Pending) -> bool:
        """Is there nothing to wait for, because an answer has come, or a letter of another one?"""
        return pending.is_done or bool(self.ahead)

    @property
    def left(self) -> list[Pending]:
        """Takes without an answer for which nobody waits."""
        with self._lock:
            return [pending for pending, callers in self._callers.items() if not callers]

    def _begin(self, waits: bool) -> Pending:
        with self._lock:
            pending = next(filter(_is_open, self._callers), None) if waits else None
            is_new = pending is None
            if pending is None:
                take = Take(0, self._most, int(waits))
                pending = Pending(self._life, take, on_done=self._answered, on_handed=self._came)
            self._callers[pending] = self._callers.get(pending, 0) + 1
        if is_new:
            self._ask(pending)
        return pending

    def _ask(self, pending: Pending) -> None:
        try:
            self._line.requests.begin(pending)
        except Exception as error:
            pending.fail(error)  # others may wait for it by now
            self._line.changed.notify()
            raise

    def _leave(self, pending: Pending) -> None:
        with self._lock:
            if pending not in self._callers:
                return  # it was answered
            self._callers[pending] -= 1
            gives_up = not self._callers[pending] and _is_open(pending)
        if gives_up:
            self._line.requests.give_up(pending)

    def _answered(self, pending: Pending) -> None:
        """Take an answer, in the thread of the line. More letters are asked for while as many come, and one by one when
        they are few: what one inbox holds, the others do not have."""
        letters = [handed for handed in pending.first if isinstance(handed, Handed)]
        assert isinstance(pending.message, Take), "only those are asked here"
        with self._lock:
            self._callers.pop(pending, None)
            self._most = min(TAKEN_MOST, 2 * self._most) if len(letters) == pending.message.most else 1
        self.ahead.extend(letters)


def _is_open(pending: Pending) -> bool:
    """Does it wait at the core, for whoever comes?"""
    return isinstance(pending.message, Take) and bool(pending.message.waits) and not pending.is_given_up


ANSWER_S: Final = 1.0
"""Seconds that a call waits for what a core says at once, if nothing stops it."""


@dataclass(frozen=True)
class InboxStats(ShownByFields):
    """Counters of an inbox since it was opened."""

    received: int
    """Letters that were handed to the program."""
    bytes: int
    """Bytes of the bodies of these letters."""
    redelivered: int
    """Number of these letters that had been delivered before."""
    waiting: int
    """Letters that were handed to this process, and that it has not taken yet."""
    refused: int
    """Answers to letters that the core did not accept: the letter had ended meanwhile."""


def _checked(folder: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder. Raises ValueError."""
    found = Path(folder).absolute()
    if not found.is_dir():
        raise ValueError(f"folder={os.fspath(folder)!r} is not possible: there is no such folder; make it first")
    return str(found)


class Inbox(Closing):
    """Takes the letters of a service, the highest priority first, and within a priority in the order in which they
    were sent. Several inboxes of a service share its letters.

    `service`: the name to which senders send. `type`: see Subscriber; None: bytes. `folder`: where
    files arrive, a folder that is there; without one, files wait until another inbox has one. `domain`: see
    Publisher. `wait`: see Sender. Closed, what it has not consumed goes to others. Any thread, and any event loop.
    Errors: ValueError, UnsupportedType, CoreNotRunning, and those of Domain.
    """

    def __init__(
        self,
        service: str,
        *,
        type: Any = None,
        folder: str | os.PathLike[str] | None = None,
        domain: int | rtmw.Domain | None = None,
        wait: float | None = None,
    ) -> None:
        if Address.parse(service) != Address(service, Reach.ANY):
            raise ValueError(f"service={service!r} is not possible; an inbox has the name of a service alone")
        self.service, self._life = service, new_life()
        self._folder = "" if folder is None else _checked(folder)
        self._held: dict[int, None] = {}
        """Numbers of what is logged, was handed over, and not settled. Written by the thread of the line."""
        self.type = resolve(bytes if type is None else type)
        self._counting = threading.Lock()
        self._received = self._bytes = self._redelivered = self._refused = 0
        self._closed = False
        self._line = Line.for_member(domain, wait)
        self._taking = Taking(self._line, self._life, self._handed)
        self._settling = Settling(self._line, self._life, self._settled)
        self._line.enter(self, wait)

    # ---- taking ----

    def take(self, timeout: float | None = None) -> Letter | None:
        """The next letter; None: there is none within `timeout` seconds (0: at this moment; None: no limit).
        ClosedError. CoreNotRunning: there has been no core for ten seconds.
        """
        check_seconds("timeout", timeout)
        deadline, letter = Deadline(timeout), self._next()
        if letter is None and deadline.is_over:
            return self._take_now()
        while letter is None and not deadline.is_over:
            with self._taking.asked(waits=True) as pending:
                self._line.wait_until(partial(self._taking.is_over, pending), deadline.left)
            if pending.is_done or pending.is_given_up:
                self._answered_at_once(pending)
            letter = self._next()
        return letter

    def _take_now(self) -> Letter | None:
        while True:
            with self._taking.asked(waits=False) as pending:
                self._answered_at_once(pending)
            letter = self._next()
            if letter is not None or not pending.first:
                return letter

    def _answered_at_once(self, pending: Pending) -> None:
        """Wait for the answer of the core. One that has not answered within ANSWER_S is stopped, and what it answers
        later is ahead of the next call. Raises what it has said, and CoreNotRunning."""
        while not self._line.wait_until(lambda: pending.is_done, ANSWER_S):
            if self._line.core is not None:
                return
        pending.result()

    async def take_async(self, timeout: float | None = None) -> Letter | None:
        """Take the next letter as `take` does, for asyncio. A cancelled call loses nothing: a letter that was on its
        way to it is the next one."""
        check_seconds("timeout", timeout)
        deadline, letter = Deadline(timeout), self._next()
        if letter is None and deadline.is_over:
            return await self._take_now_async()
        while letter is None and not deadline.is_over:
            with self._taking.asked(waits=True) as pending:
                await self._line.until(partial(self._taking.is_over, pending), deadline.left)
            if pending.is_done or pending.is_given_up:
                await self._answered_at_once_async(pending)
            letter = self._next()
        return letter

    async def _take_now_async(self) -> Letter | None:
        while True:
            with self._taking.asked(waits=False) as pending:
                await self._answered_at_once_async(pending)
            letter = self._next()
            if letter is not None or not pending.first:
                return letter

    async def _answered_at_once_async(self, pending: Pending) -> None:
        """Wait as `_answered_at_once` does, for a task."""
        while not await self._line.until(lambda: pending.is_done, ANSWER_S):
            if self._line.core is not None:
                return
        pending.result()

    def _next(self) -> Letter | None:
        """Return the next letter that is ahead; None: there is none. ClosedError: the letters are for others by now."""
        if self._closed:
            raise ClosedError("used after close()")
        letter = self._pop()
        return None if letter is None else self._counted(letter)

    def _pop(self) -> Letter | None:
        """Return the first letter that is ahead; None: there is none. Any thread."""
        try:
            return Letter(self, self._taking.ahead.popleft())
        except IndexError:
            return None

    def _counted(self, letter: Letter) -> Letter:
        with self._counting:
            self._received += 1
            self._bytes += letter.size
            self._redelivered += letter.redelivered > 0
        return letter

    def _take_in(self, sender: Sender, txn: int) -> Letter | None:
        """Take a letter for `Transaction.take`. Letters that are here ahead, or on their way to nobody, go back first,
        so that the order holds. It does not wait for a letter, and so not for a thread that does."""
        if sender._line is not self._line:
            raise ValueError("the inbox is of another domain than the sender of the transaction")
        for left in self._taking.left:
            self._line.wait(left)
        while (ahead := self._pop()) is not None:
            ahead.give_back("taken in a transaction instead")
        pending = self._line.requests.begin(Pending(self._life, Take(txn, 1, 0)))
        self._line.wait(pending)
        letters = [Letter(self, handed, txn) for handed in pending.first if isinstance(handed, Handed)]
        return self._counted(letters[0]) if letters else None

    def __iter__(self) -> Iterator[Letter]:
        return self

    def __next__(self) -> Letter:
        """The next letter; StopIteration after close()."""
        try:
            letter = self.take()
        except ClosedError:
            raise StopIteration from None
        assert letter is not None, "without a timeout there is a letter"
        return letter

    def __aiter__(self) -> AsyncIterator[Letter]:
        return self

    async def __anext__(self) -> Letter:
        """The next letter; StopAsyncIteration after close()."""
        try:
            letter = await self.take_async()
        except ClosedError:
            raise StopAsyncIteration from None
        assert letter is not None, "without a timeout there is a letter"
        return letter

    # ---- what happens ----

    def stats(self) -> InboxStats:
        return InboxStats(self._received, self._bytes, self._redelivered, len(self._taking.ahead), self._refused)

    def close(self) -> None:
        """Letters that it has not consumed go to other inboxes, or wait. Idempotent."""
        if not self._closed:
            self._closed = True
            self._settling.send()
            self._line.leave(self._life, Leave())
            self._taking.ahead.clear()

    # ---- in the thread of the line ----

    def _told(self, message: Message) -> None:
        """Nothing is told to inboxes that they have not asked for."""

    @property
    def _join(self) -> Join:
        """The message by which it joins the core of this moment."""
        return Join(1, self.service, self._folder, tuple(self._held))

    def _handed(self, item: int) -> None:
        if item < NEVER_LOGGED:
            self._held[item] = None

    def _settled(self, together: Together) -> None:
        for item in together.items:
            self._held.pop(item, None)
        self._refused += together.refused

    def _core_changed(self) -> None:
        """Letters of the core before that were not logged are gone; those that were logged still belong to this
        inbox."""

    def __repr__(self) -> str:
        return f"<rtmw.Inbox {self.service!r}{', closed' if self._closed else ''}>"
