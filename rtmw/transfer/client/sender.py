"""`rtmw.Sender`: sends to services, and follows what becomes of it.

A body that is larger than a block goes out as a chain, under a window (T5): so it may be larger than the pool. The
sender drives the chain, and begins it anew when another core is there. `Chain` decides the next step without waiting;
`send_chain` and `send_chain_async` wait, asleep or in an event loop. `News` has what has gone wrong with the transfers
of a sender, for the thread that goes through it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import rtmw
from rtmw.closing import Closing
from rtmw.log import Label
from rtmw.notebook import ShownByFields
from rtmw.transfer.address import Address
from rtmw.transfer.client.bodies import encoded, packed
from rtmw.transfer.client.group import RESTARTED, Groups
from rtmw.transfer.client.line import Line, new_life
from rtmw.transfer.client.options import LETTER_HEADERS, SendOptions
from rtmw.transfer.client.transaction import Transaction
from rtmw.transfer.client.transfer import Transfer, send_batch, send_batch_async
from rtmw.transfer.client.waiting import NEVER, Deadline, Pending
from rtmw.transfer.duplicates import pack_once
from rtmw.transfer.errors import TransactionAborted
from rtmw.transfer.frames import BLOCK, WINDOW
from rtmw.transfer.header import Delivery, Header, Level
from rtmw.transfer.messages import Advanced, Ask, Join, Leave, Message, More, Move, Moves, Send, Undone
from rtmw.transfer.records import AbortCause, TransferId, TransferState
from rtmw.waiting import Asleep, Met, woken

__all__ = ["Sender", "SenderStats", "TransferEvent"]


MOST_EVENTS: Final = 4096


@dataclass(frozen=True)
class TransferEvent:
    """Something went another way than that of a transfer that is consumed."""

    id: TransferId | None
    """None: the event is of a transaction that was undone, or of what was not accepted."""
    state: TransferState | None
    """None: see `id`. Letters of a transaction that was undone are no events of their own."""
    cause: str


class News:
    """The last events of one sender. Any thread."""

    def __init__(self) -> None:
        self._events: queue.Queue[TransferEvent | None] = queue.Queue(MOST_EVENTS)
        self.lost = 0
        """Events that nobody took in time."""

    def put(self, event: TransferEvent) -> None:
        self._put(event)

    def end(self) -> None:
        """End the events: none will come any more."""
        self._put(None)

    def _put(self, event: TransferEvent | None) -> None:
        while True:
            try:
                self._events.put_nowait(event)
                return
            except queue.Full:
                self._events.get_nowait()
                self.lost += 1

    def __iter__(self) -> Iterator[TransferEvent]:
        """Yield each event once, as it happens, until the end."""
        while True:
            event = self._events.get()
            if event is None:
                self._events.put(None)  # for the next thread
                return
            yield event

    def __len__(self) -> int:
        return self._events.qsize()


AGAIN_S: Final = 0.001
"""Seconds after which a task looks again whether there is room."""


def first_block(send: Send) -> Send:
    return Send(send.txn, send.header, send.once, send.data[:BLOCK])


def _steps(line: Line, pending: Pending, send: Send) -> Generator[Message | Met, bool, None]:
    """Yield the next message; the answer says whether it could be sent. Or yield a condition to wait for."""
    start, offset = line.start, BLOCK
    while not pending.is_done:
        changed = _has_changed(line, pending)  # before the look, so that what comes during it is a change
        if line.core is not None and line.start != start:
            start, offset, pending.got = line.start, 0, 0
        has_room = offset - pending.got < WINDOW * BLOCK and offset < len(send.data)
        if line.core is None or not has_room:
            yield changed
            continue
        data = send.data[offset : offset + BLOCK]
        sent = yield (More(data) if offset else first_block(send))
        if sent:
            offset += len(data)


@contextmanager
def _giving_up(line: Line, pending: Pending) -> Generator[None]:
    """Whoever leaves the block by an error sends no more, which the core is told: it keeps what has come of a body."""
    try:
        yield
    except BaseException:
        line.requests.give_up(pending)
        raise


def send_chain(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    """Send the chain, until it is answered. TimeoutError, CoreNotRunning."""
    with _giving_up(line, pending):
        _send(line, pending, send, deadline)


def _send(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    steps = _steps(line, pending, send)
    message = next(steps, None)
    while message is not None and not pending.is_done:
        if callable(message):
            if not line.wait_until(message, deadline.left):
                raise _late(pending, send, deadline)
            message = next(steps, None)
        else:
            sent = line.requests.put(pending, message, waits=True)
            if not sent and deadline.is_over:
                raise _late(pending, send, deadline)
            message = _next(steps, sent)


async def send_chain_async(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    """Send the chain as `send_chain` does, for a task."""
    with _giving_up(line, pending):
        await _send_async(line, pending, send, deadline)


async def _send_async(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    steps = _steps(line, pending, send)
    message = next(steps, None)
    while message is not None and not pending.is_done:
        if callable(message):
            if not await line.until(message, deadline.left):
                raise _late(pending, send, deadline)
            message = next(steps, None)
        else:
            sent = line.requests.put(pending, message, waits=False)
            if not sent and deadline.is_over:
                raise _late(pending, send, deadline)
            if not sent:
                await asyncio.sleep(AGAIN_S)
            message = _next(steps, sent)


def _has_changed(line: Line, pending: Pending) -> Met:
    """Return a condition: since now more was taken, it is answered, or another core is there."""
    got, start = pending.got, line.start
    return lambda: pending.is_done or pending.got != got or line.start != start


def _late(pending: Pending, send: Send, deadline: Deadline) -> TimeoutError:
    return TimeoutError(f"{pending.got} of {len(send.data)} bytes were taken within {deadline.timeout} s")


def _next(steps: Generator[Message | Met, bool, None], sent: bool) -> Message | Met | None:
    try:
        return steps.send(sent)
    except StopIteration:
        return None


_GOOD: Final = frozenset({TransferState.ACCEPTED, TransferState.SENT, TransferState.DELIVERED, TransferState.CONSUMED})


@dataclass(frozen=True)
class SenderStats(ShownByFields):
    """Counters of a sender since it was opened."""

    sent: int
    """Transfers that it gave to the core."""
    bytes: int
    """Bytes of the bodies of these transfers."""
    refused: int
    """Transfers that the core did not accept."""
    states: dict[TransferState, int]
    """How often a transfer has come to each state, as far as this program has heard."""
    followed: int
    """Transfers that the program still keeps, and that have not ended."""
    unanswered: int
    """Requests of this process that the core has not answered yet."""
    events_lost: int
    """Events that nobody took in time."""


class Sender(Closing):
    """Sends transfers to services, on this host and on others. Any thread, and any event loop.

    `name`: who it is, for receivers and tools. `domain`: see Publisher. What it sends waits for a receiver if there
    is none. `wait`: seconds to wait for the domain and its node, if they are not there yet; math.inf: for ever; None: a
    second for the node, and the domain is made. Errors: ValueError; CoreNotRunning: no node of this host serves
    transfers; and those of Domain.
    """

    def __init__(self, name: str, *, domain: int | rtmw.Domain | None = None, wait: float | None = None) -> None:
        Address.parse(name)
        self.name, self._join, self._life = name, Join(0, name), new_life()
        self._followed: weakref.WeakValueDictionary[TransferId, Transfer] = weakref.WeakValueDictionary()
        self._groups = Groups()
        self._transactions: weakref.WeakValueDictionary[int, Transaction] = weakref.WeakValueDictionary()
        self._news = News()
        self._states: Counter[TransferState] = Counter()
        self._sent = self._bytes = self._refused = 0
        self._lock = threading.Lock()
        self._closed = False
        self._line = Line.for_member(domain, wait)
        self._line.enter(self, wait)

    # ---- sending ----

    def send(
        self,
        to: str,
        body: Any,
        *,
        delivery: Delivery = Delivery.NORMAL,
        wait: Level = Level.ACCEPTED,
        lifetime: float | None = None,
        timeout: float | None = None,
        priority: int = 0,
        id: Label | None = None,
    ) -> Transfer:
        """Sends it, and returns as soon as it has reached the level `wait`. `to`: `service` (any of its receivers),
        `service/pid` (one), `service/*` (each of this moment); `@node` behind it for another node. `body`: bytes, a
        typed message as of Publisher, an rtmw.File, or a list of rtmw.Part and rtmw.File, which become visible
        together. `delivery`: its class of reliability. `lifetime`: seconds for which it waits for a receiver.
        `timeout`: seconds for which this call waits, for room among the requests without an answer, for the core to
        take a large body, and for the level together. None, or math.inf: no limit. `priority`: 0 to 7; 7 first. `id`:
        text, bytes or a whole number, which makes the send idempotent: if one of the last 65,536 sends with an id by
        a sender of this name has this one, nothing is sent, and the answer is that transfer. With Delivery.LOG that
        holds over crashes; else while the core lives. TransferRefused: it was not accepted, will never reach the
        level, or something else has this id. SourceChanged: a file was written to before it was sent. TimeoutError:
        it has not reached the level yet, and goes on; or the core did not take it in time, and it will not be sent.
        ValueError, TypeMismatch: nothing was sent. CoreNotRunning: there has been no core for ten seconds; what a
        core has taken goes on.
        """
        if body.__class__ is not bytes:
            body = encoded(body)
        if body.__class__ is bytes and lifetime is None and id is None:
            header = LETTER_HEADERS[to, len(body), wait, delivery, priority, priority.__class__, timeout]
            if header is not None:  # it goes out with what other threads send while the core is at work
                return self._send_with_others(header, body, Deadline(timeout))
        options = SendOptions(delivery, wait, lifetime, timeout, priority, id)
        transfer, send, level = self._prepare(to, body, 0, options)
        deadline = Deadline(timeout)
        self._hand_over(transfer, send, deadline)
        if level is not Level.NONE and not transfer.wait(level, deadline.left):
            raise deadline.goes_on(transfer, level)
        return transfer

    def _send_with_others(self, header: Header, body: bytes, deadline: Deadline) -> Transfer:
        level, requests = header.level, self._line.requests
        waits = None if level is Level.NONE else Asleep()
        while (place := requests.join_others(self, header, body, waits, deadline)) is None:
            self._wait_for_room(deadline)
        letter = Transfer(self, header, place)
        if waits is not None:
            waits.wait(deadline.left)
            if place[0].lowest < level and not letter.wait(level, deadline.left):
                raise deadline.goes_on(letter, level)
        return letter

    async def send_async(
        self,
        to: str,
        body: Any,
        *,
        delivery: Delivery = Delivery.NORMAL,
        wait: Level = Level.ACCEPTED,
        lifetime: float | None = None,
        timeout: float | None = None,
        priority: int = 0,
        id: Label | None = None,
    ) -> Transfer:
        """Send as `send` does, without blocking the event loop. If it is cancelled, the transfer may be sent or not."""
        if body.__class__ is not bytes:
            body = encoded(body)
        if body.__class__ is bytes and lifetime is None and id is None:
            header = LETTER_HEADERS[to, len(body), wait, delivery, priority, priority.__class__, timeout]
            if header is not None:  # it goes out with what else is sent in this turn of the event loop
                level, deadline = header.level, NEVER if timeout is None else Deadline(timeout)
                while (found := self._line.requests.gather(self, header, body, level is not Level.NONE)) is None:
                    await self._look_for_room(deadline)
                place, waits = found
                letter = Transfer(self, header, place)
                if waits is not None:
                    await (waits if timeout is None else woken(waits, deadline.left or 0.0))
                    if place[0].lowest < level and not await letter._over(level, deadline):
                        raise deadline.goes_on(letter, level)
                return letter
        return await self._send_alone(to, body, SendOptions(delivery, wait, lifetime, timeout, priority, id))

    async def _send_alone(self, to: str, body: Any, options: SendOptions) -> Transfer:
        transfer, send, level = self._prepare(to, body, 0, options)
        deadline = Deadline(options.timeout)
        await self._hand_over_async(transfer, send, deadline)
        if level is not Level.NONE and not await transfer.reached(level, deadline.left):
            raise deadline.goes_on(transfer, level)
        return transfer

    def _send_in(self, txn: int, to: str, body: Any, options: SendOptions) -> Transfer:
        """Send for `Transaction.send`."""
        transfer, send, _ = self._prepare(to, body, txn, options)
        self._hand_over(transfer, send, Deadline(options.timeout))
        return transfer

    def send_many(
        self,
        to: str,
        bodies: Iterable[Any],
        *,
        delivery: Delivery = Delivery.NORMAL,
        wait: Level = Level.ACCEPTED,
        lifetime: float | None = None,
        timeout: float | None = None,
        priority: int = 0,
    ) -> list[Transfer]:
        """Sends a letter for each body, in their order, and returns when each of them has reached the level `wait`.

        Each is a transfer of its own, with the options of `send`, and no id. Bodies up to 4,095 bytes go to the core
        together, which takes a fraction of the time of a `send` for each. ValueError, TypeMismatch and so on: a body
        cannot be sent; its index is a note of the error, and nothing was sent. The other errors have `transfers`, the
        letters that were sent: in order, from the first one on. TransferRefused: all letters are over, and some were
        not accepted or will never reach the level; it says how many, and why the first one. TransferError: the same,
        and of some nobody knows whether they were accepted, or their source has changed. BatchTimeout, a
        TimeoutError: not all have reached the level within `timeout` seconds; those that were sent go on, the rest
        will not be sent. CoreNotRunning: there has been no core for ten seconds.
        """
        options = SendOptions(delivery, wait, lifetime, timeout, priority, None)
        return send_batch(self, to, bodies, options)

    async def send_many_async(
        self,
        to: str,
        bodies: Iterable[Any],
        *,
        delivery: Delivery = Delivery.NORMAL,
        wait: Level = Level.ACCEPTED,
        lifetime: float | None = None,
        timeout: float | None = None,
        priority: int = 0,
    ) -> list[Transfer]:
        """Send as `send_many` does, for asyncio: the event loop goes on meanwhile. After a cancelled call, none, some
        or all of the letters are sent, from the first one on."""
        options = SendOptions(delivery, wait, lifetime, timeout, priority, None)
        return await send_batch_async(self, to, bodies, options)

    def _hand_over(self, transfer: Transfer, send: Send, deadline: Deadline) -> None:
        """Send all of a transfer; of a large body, all is at the core when this returns. TimeoutError."""
        self._wait_for_room(deadline)
        pending = self._begin(transfer, send, deadline)
        if pending.is_chain:
            send_chain(self._line, pending, send, deadline)

    async def _hand_over_async(self, transfer: Transfer, send: Send, deadline: Deadline) -> None:
        """Send all of a transfer as `_hand_over` does, for a task."""
        while (pending := self._try_begin(transfer, send)) is None:
            await self._look_for_room(deadline)
        if pending.is_chain:
            await send_chain_async(self._line, pending, send, deadline)

    def _prepare(self, to: str, body: Any, txn: int, options: SendOptions) -> tuple[Transfer, Send, Level]:
        options.check()
        kind, data, has_files = packed(body)
        header = options.header(to, kind, len(data), has_files)
        once = b"" if options.id is None else pack_once(options.id, str(header.to), kind, data)
        transfer = Transfer(self, header, has_files=has_files)
        return transfer, Send(txn, header, once, data), header.level

    def _wait_for_room(self, deadline: Deadline) -> None:
        has_room = self._line.requests.has_room
        if not has_room() and not self._line.wait_until(has_room, deadline.left):
            raise deadline.no_room()

    async def _look_for_room(self, deadline: Deadline) -> None:
        """Wait a moment for room; the task looks itself. TimeoutError."""
        self._line.check_core()
        if deadline.is_over:
            raise deadline.no_room()
        await asyncio.sleep(AGAIN_S)

    def _begin(self, transfer: Transfer, send: Send, deadline: Deadline) -> Pending:
        pending = self._asked(transfer, send)
        self._line.requests.begin(pending, deadline.left)
        self._went_out(1, len(send.data))
        return pending

    def _try_begin(self, transfer: Transfer, send: Send) -> Pending | None:
        pending = self._asked(transfer, send)
        if not self._line.requests.try_begin(pending):
            return None
        self._went_out(1, len(send.data))
        return pending

    def _asked(self, transfer: Transfer, send: Send) -> Pending:
        pending = Pending(self._life, first_block(send), len(send.data) > BLOCK, partial(self._answered, transfer))
        transfer._pending = pending
        return pending

    def _went_out(self, letters: int, size: int) -> None:
        with self._lock:
            self._sent, self._bytes = self._sent + letters, self._bytes + size

    def transaction(self) -> Transaction:
        """A new transaction: what is sent and taken in it becomes valid together, when it is committed."""
        made = Transaction(self)
        self._transactions[made.number] = made
        return made

    # ---- what happens ----

    def events(self) -> Iterator[TransferEvent]:
        """Transfers of this sender that went wrong, as it happens; it ends when the sender is closed.

        They were refused, have expired, were cancelled, are dead letters or unknown, or their transaction was undone.
        Each comes once; the last 4,096 are kept.
        """
        return iter(self._news)

    def stats(self) -> SenderStats:
        with self._lock:
            followed = sum(not transfer.has_ended for transfer in list(self._followed.values()))
            followed += len(self._groups.going())
            counted = self._sent, self._bytes, self._refused, dict(self._states), followed
            return SenderStats(*counted, self._line.requests.unanswered, self._news.lost)

    def close(self) -> None:
        """Accepted transfers go on; open transactions are undone. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._line.leave(self._life, Leave())
        self._news.end()

    @property
    def _node(self) -> str:
        return self._line.node

    # ---- in the thread of the line ----

    def _told(self, message: Message) -> None:
        """Take a frame of the core that answers no request."""
        if isinstance(message, Moves):
            for move in message.moves:
                for id in move.ids:
                    self._pass_on(id, move)
                    self._moved(id, move)
        elif isinstance(message, Advanced):
            if (transfer := self._followed.get(message.id)) is not None:
                transfer._went_on(message)
        elif isinstance(message, Undone):
            self._transactions.pop(message.txn, None)
            self._undone(message.txn, AbortCause(message.cause))

    def _pass_on(self, id: TransferId, move: Move) -> bool:
        """Tell the letter that it has moved, if the program keeps it. Is that news to it?"""
        transfer = self._followed.get(id)
        if transfer is not None:
            return transfer._told(id, move)
        place = self._groups.find(id)
        return place is not None and place[0].told(place[1], move)

    def _answered(self, transfer: Transfer, pending: Pending) -> None:
        """Take the answer of the core to a Send."""
        transfer._accepted(pending)
        for id in transfer.ids:
            before = self._followed.get(id)
            if before is not None and before is not transfer:
                transfer._twin_of(before)  # it was sent again with the same id
            self._followed[id] = transfer
        if pending.error is not None:
            self._went_wrong(pending.error)

    def _went_wrong(self, error: Exception) -> None:
        """Note that the core has refused a Send."""
        self._refused += 1
        if not isinstance(error, TransactionAborted):  # that the transaction was undone is an event
            self._news.put(TransferEvent(None, None, str(error)))

    def _moved(self, id: TransferId, move: Move) -> None:
        state = move.state
        if state is None:
            return  # its transaction was undone, which is the event; or rolled back, as its program has asked
        self._states[state] += 1
        if state not in _GOOD:
            cause = move.cause or (RESTARTED if state is TransferState.UNKNOWN else "")
            self._news.put(TransferEvent(id, state, cause))

    def _undone(self, txn: int, cause: AbortCause) -> None:
        self._news.put(TransferEvent(None, None, f"transaction {txn} was undone: {cause.name}"))

    def _core_changed(self) -> None:
        """Ask the new core for the states of logged transfers; those that were not logged are UNKNOWN now."""
        for transaction in list(self._transactions.values()):
            if transaction._core_changed():
                self._undone(transaction.number, AbortCause.RESTART)
        followed = [id for id, transfer in list(self._followed.items()) if not transfer.has_ended]
        for id in followed + self._groups.going():
            self._line.requests.begin(Pending(self._life, Ask(id), on_done=self._said))

    def _said(self, pending: Pending) -> None:
        """Take the answer of another core, how a letter is. A state that the core before has told is no event again."""
        for news in pending.advanced:
            self._told(news)
        if isinstance(pending.answer, Moves):
            for move in pending.answer.moves:
                if self._pass_on(move.ids[0], move):
                    self._moved(move.ids[0], move)

    def __repr__(self) -> str:
        return f"<rtmw.Sender {self.name!r}{', closed' if self._closed else ''}>"
