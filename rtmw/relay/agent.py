"""`rtmw.Agent`: a program that gives orders to others through a relay, and takes theirs (R1, R7, R9).

    program ── send ──► (rows of its folder) ──► frames ──► relay ──► frames ──► (rows of its folder) ──► iteration

An agent has one thread of its own, which keeps a connection to the relay, sends what is open again after T1, and
confirms what has come. With a folder, orders of both directions are rows of one log, and a row is on the disk before
the frame or the receipt leaves that depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, cast
from weakref import WeakSet, WeakValueDictionary

import rtmw
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.errors import ClosedError, ForkedError, MessageTooLarge, RtmwError, TypeMismatch
from rtmw.qos import check_seconds, limited
from rtmw.relay.frame import (
    ANSWERED,
    LONGEST_DATA,
    N1_MOST,
    STAMP,
    Filter,
    Frame,
    Hello,
    Kind,
    Packet,
    Stamps,
    Welcome,
    frame_of,
    given_address,
    readable,
)
from rtmw.relay.line import Heard, Line, words_of
from rtmw.relay.state import KNOWN_LEAST
from rtmw.types import int32, int64
from rtmw.waiting import Signal

__all__ = ["Agent", "Dispatch", "DispatchState", "Order"]

log = logging.getLogger("rtmw.relay")

WINDOW: Final = 1024
"""Orders to one destination that the relay has not answered; later ones wait here, so their T1 does not run yet."""
AHEAD: Final = 1024
"""With a folder: orders that have come and were not taken. Beyond them nothing is confirmed, so senders notice."""
AHEAD_MOST: Final = 16_384
"""Orders in memory that have come and were not taken. Beyond them no other one is known: it comes again."""
KNOWN_BYTES: Final = 256 << 20
"""With a folder: of its log, after which ids that have come are no longer known, but for the last AHEAD."""
TRIM_AFTER, SEGMENT, ALERTS = 4096, "8M", 1024
"""Rows; of the log, whose segments go whole; alerts that are kept."""
CLOSE_S: Final = 5.0
_FAILED: Final = re.compile(r"(?:^|: )(UNCONFIRMED|UNDELIVERED|EXPIRED), ")
Key = tuple[bytes, bytes, bytes]
"""Source, stamp and digest: foreign agents may stamp whole seconds, so the content counts."""


class DispatchState(Enum):
    """What has become of an order. All but WAITING and STORED are ends; a late receipt may still correct a failure.

    WAITING: the relay has not answered yet. STORED: it keeps the order for a recipient that is away. DELIVERED: the
    recipient has confirmed it; of a subject: it is stored for all who follow. REFUSED: it is not stored, and has no
    effect. EXPIRED: its lifetime was over before it was sent on. UNDELIVERED: it was never sent to the recipient, and
    never will be, so it is safe to do otherwise. UNCONFIRMED: it was sent, and the recipient may have it. UNANSWERED:
    the relay has not answered within T1·(N1+1), and may have it.
    """

    WAITING = "WAITING"
    STORED = "STORED"
    DELIVERED = "DELIVERED"
    REFUSED = "REFUSED"
    EXPIRED = "EXPIRED"
    UNDELIVERED = "UNDELIVERED"
    UNCONFIRMED = "UNCONFIRMED"
    UNANSWERED = "UNANSWERED"


_OPEN: Final = (DispatchState.WAITING, DispatchState.STORED)


@dataclass
class Entry:
    """A row of an agent's log: ORDER to be sent, its END; CAME, an order for this agent, and OVER, it was handled."""

    kind: str
    head: bytes
    """The first 35 bytes of the order's frame, as `Frame.head` has them; END and OVER have those of their order."""
    body: bytes = b""
    at: int64 = 0
    """ORDER: wall time in nanoseconds. OVER: the position of the CAME row of the order."""
    priority: int32 = -1
    """-1: none."""
    lifetime: float = 0.0


def _id(source: bytes, stamp: bytes) -> str:
    return f"{readable(source)}/{stamp.decode('ascii', 'backslashreplace').strip()}"


class Dispatch:
    """An order that was sent. Any thread, and any event loop; `await` is `wait` for a task."""

    def __init__(self, agent: Agent, packet: Packet) -> None:
        self.id: Final = _id(packet.frame.source, packet.frame.stamp)
        self._agent, self._packet, self._position = agent, packet, -1
        self._expires = CLOCK.monotonic() + packet.lifetime if packet.lifetime else math.inf
        self._said = DispatchState.WAITING, ""
        self._signal = Signal()
        self._tries = 0
        self._is_recovered = False
        self._timer: asyncio.TimerHandle | None = None
        """Its T1 runs: it was sent, and has no answer."""

    @property
    def state(self) -> DispatchState:
        return self._said[0]

    @property
    def cause(self) -> str:
        """Why it is not delivered, in words."""
        return self._said[1]

    def wait(self, timeout: float | None = None) -> DispatchState:
        """The state in which it has ended. TimeoutError: it has not within `timeout` seconds (None: no limit), and goes
        on. ClosedError: the agent was closed before."""
        check_seconds("timeout", timeout)
        self._agent._check_process()
        if not self._signal.wait(self._is_over, timeout):
            raise TimeoutError(f"order {self.id} is {self.state.name} after {timeout} s; it goes on")
        return self._outcome()

    def __await__(self) -> Generator[Any, None, DispatchState]:
        self._agent._check_process()
        return self._ended().__await__()

    async def _ended(self) -> DispatchState:
        await self._signal.reached(self._is_over, None)
        return self._outcome()

    def _is_over(self) -> bool:
        return self.state not in _OPEN or self._agent._is_over

    def _outcome(self) -> DispatchState:
        if self.state in _OPEN:
            raise ClosedError(f"order {self.id} is {self.state.name}, and {self._agent._why_over()}")
        return self.state

    def _become(self, state: DispatchState, cause: str = "") -> None:
        self._said = state, cause
        self._signal.notify()

    def __repr__(self) -> str:
        to, cause = readable(self._packet.frame.destination), f": {self.cause}" if self.cause else ""
        return f"<rtmw.Dispatch {self.id} to {to} {self.state.name}{cause}>"


class Order:
    """An order or an answer for this agent."""

    def __init__(self, agent: Agent, frame: Frame, position: int = -1, *, redelivered: bool = False) -> None:
        self._agent, self._frame, self._position = agent, frame, position
        self._key: Key = frame.source, frame.stamp, frame.digest
        self.id: Final = _id(frame.source, frame.stamp)
        self.sender: Final = readable(frame.source)
        self.to: Final = readable(frame.destination)
        """This agent, or the subject."""
        self.stamp: Final = frame.stamp
        is_answer = frame.type == b"A"
        self.command: Final = frame.command.decode("latin-1")
        self.body: Final = frame.body if is_answer else frame.data
        self.answers: Final = _id(agent._address, frame.data[:STAMP]) if is_answer else None
        """The id of the dispatch that it answers; None: it is an order."""
        self.redelivered: Final = redelivered
        """It came before a restart of this program, which may have handled it."""

    def answer(self, body: bytes) -> Dispatch:
        """Sends an answer with content; it is stored and confirmed as an order is. Errors as of Agent.send."""
        frame = self._frame
        data = frame.receipt(frame.stamp).data + _bytes_of(body, LONGEST_DATA - ANSWERED)
        answer = Frame(self._agent._address, frame.source, bytes(STAMP), b"A", frame.command, data)
        dispatch = self._agent._begin(Packet(Kind.ANSWER, answer))
        self._agent._enqueue(self._agent._over, self)
        return dispatch

    def __repr__(self) -> str:
        return f"<rtmw.Order {self.id} {self.command} {len(self.body)} bytes>"


def _bytes_of(body: Any, most: int) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeMismatch(f"body is of {type(body).__name__}; an order carries bytes, so encode it")
    found = bytes(cast("bytes", body))
    if len(found) > most:
        raise MessageTooLarge(f"body has {len(found)} bytes; an order carries {most} at most")
    return found


_agents: WeakSet[Agent] = WeakSet()


def _after_fork() -> None:
    for agent in _agents:
        agent._lock = threading.RLock()  # a thread that is not in the child may hold the other one
        agent._line.leave()


os.register_at_fork(after_in_child=_after_fork)


class _Lane:
    """Orders to one destination: those that were not sent yet, and how many were sent and are not answered."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[bytes, Dispatch] = OrderedDict()
        """By stamp."""
        self.flying = 0


class Agent(Closing):
    """Gives orders to other agents through a relay, and takes theirs: `for order in agent`.

    `address`: 1 to 4 ASCII characters, `hex:` and 8 digits, or four bytes. `server`: where the relay listens,
    `HOST:PORT` or `unix:PATH`; `listen`: where this agent listens for a relay that connects to it, `ADDRESS:PORT`; one
    of them, or both. `keys`: a folder with node.pem and ca.pem, for TLS. `folder`: of this agent alone; with it orders
    that are not answered survive the program, and an order that came is confirmed when it is on the disk; without it,
    when the program takes it. `t1`, `n1`: an order is sent again after so many seconds, and so often at most.
    Errors: ValueError, TypeError, FrameError, KeysError, NodeError, LogError and its kind.
    """

    def __init__(
        self, address: str | bytes, *, server: str | None = None, listen: str | None = None,
        keys: str | os.PathLike[str] | None = None, folder: str | os.PathLike[str] | None = None,
        t1: float = 10.0, n1: int = 3,
    ) -> None:  # fmt: skip
        self._address = given_address(address, "address")
        if server is None and listen is None:
            needs = "server='127.0.0.1:7460' or 'unix:relay.sock', where its relay listens"
            raise ValueError(f"neither server nor listen is given; an agent needs {needs}")
        check_seconds("t1", t1, "above 0")
        if limited(t1) is None:
            raise ValueError(f"t1={t1!r} is not possible; an order is sent again after so many seconds")
        if type(n1) is not int or not 0 <= n1 <= N1_MOST:
            raise ValueError(f"n1={n1!r} is not possible; it is a number from 0 to {N1_MOST}")
        self._t1, self._n1 = float(t1), n1
        self._process, self._lock, self._closed = os.getpid(), threading.RLock(), False
        self._failure: Exception | None = None
        self._stamps, self._counts = Stamps(), Counter[str]()
        self._calls, self._is_called = deque[partial[None]](), False
        """Work that the program's threads leave to the thread of the loop; whether that was told of it."""
        self._came: deque[Order] = deque()
        """Orders that have come and that the program has not taken."""
        self._changed, self._alerts = Signal(), deque[str](maxlen=ALERTS)
        # what follows belongs to the thread of the loop
        self._open: dict[bytes, Dispatch] = {}
        """Orders that have no end, by stamp, in their order."""
        self._ended: WeakValueDictionary[bytes, Dispatch] = WeakValueDictionary()
        """Orders that have ended, by stamp, while the program refers to them: their outcome may still be corrected."""
        self._lanes = defaultdict[bytes, _Lane](_Lane)
        self._follows: dict[tuple[bytes, bytes], Packet] = {}
        self._known: OrderedDict[Key, int] = OrderedDict()
        """Orders that have come: the position of their rows, or 0; -1: not confirmed yet."""
        self._held: deque[Order] = deque()
        """Beyond AHEAD: not logged yet."""
        self._ahead = 0
        """With a folder: those that are in its log, and were not taken."""
        self._unhandled: dict[int, Order] = {}
        """With a folder: those that have come and are not over, by position."""
        self._log: rtmw.Log[Entry] | None = None
        self._appended, self._newest = 0, 0
        """Rows since the last trim; the position of the last ORDER that has entered."""
        self._behind: asyncio.Queue[tuple[rtmw.Appended, Callable[[], None]]] = asyncio.Queue()
        """Calls that wait until a row is on the disk."""
        self._stopping = asyncio.Event()
        hello, heard = Hello(self._address, self._t1, n1), Heard(self._welcomed, self._heard, self._count, self._alert)
        self._line = Line(hello, heard, server, listen, keys)
        self._loop = asyncio.new_event_loop()
        try:
            if folder is not None:
                self._recover(Path(folder))
        except BaseException:
            self._loop.close()
            self._line.unlisten()
            raise
        name = f"rtmw agent {readable(self._address)}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _agents.add(self)

    # ---- the program's threads ----

    def send(
        self, to: str | bytes, body: bytes, *, command: str = "I", priority: int | None = None,
        lifetime: float | None = None,
    ) -> Dispatch:  # fmt: skip
        """Sends an order to an agent, a group or a subject. Never waits for the network; with a folder the order is on
        the disk when this returns.

        `priority`: from 0 to 7, where the rules allow it; None: theirs. `lifetime`: seconds for which it makes sense.
        Errors, after which nothing is sent: FrameError, TypeError, ValueError, MessageTooLarge, ClosedError, LogFull.
        LogFailed: the outcome is unknown.
        """
        check_seconds("lifetime", lifetime, "above 0")
        if priority is not None and (type(priority) is not int or not 0 <= priority <= 7):
            raise ValueError(f"priority={priority!r} is not possible; it is a number from 0 to 7, or None")
        if not isinstance(command, str) or len(command) != 1 or not command.isascii():
            raise ValueError(f"command={command!r} is not possible; it is one ASCII character, such as 'I'")
        data = _bytes_of(body, LONGEST_DATA)
        frame = Frame(self._address, given_address(to, "to"), bytes(STAMP), b"O", command.encode(), data)
        return self._begin(Packet(Kind.ORDER, frame, priority, float(limited(lifetime) or 0)))

    def _begin(self, packet: Packet) -> Dispatch:
        """Sends it with a stamp."""
        with self._lock:  # stamps, rows and frames have one order
            self._check_open()
            packet = packet._replace(frame=replace(packet.frame, stamp=self._stamps()))
            dispatch = Dispatch(self, packet)
            terms = {"priority": -1 if packet.priority is None else packet.priority, "lifetime": packet.lifetime}
            try:
                row = self._row("ORDER", packet.frame, body=packet.frame.data, at=CLOCK.wall_ns(), **terms)
            except rtmw.LogFull:
                self._enqueue(self._trim)
                raise
            self._counts["sent"] += 1
            if row is None:
                self._enqueue(self._enter, dispatch)
            else:
                dispatch._position = row.position
                self._enqueue(self._behind.put_nowait, (row, partial(self._enter, dispatch)))
        if row is not None:
            row.resolve()
        return dispatch

    def subscribe(self, subject: str | bytes, *, source: str = "*", command: str = "*") -> None:
        """Follows a subject, for good: orders to it come to this agent, also those of times when it is away, if the
        relay keeps them for it. `source`, `command`: only of these; `*`: of any. A relay that denies it alerts."""
        self._follow(Kind.FOLLOW, subject, Filter(source, command).checked())

    def unsubscribe(self, subject: str | bytes, *, source: str = "*", command: str = "*") -> None:
        """Ends what `subscribe` with these arguments has begun, in this process or an earlier one."""
        self._follow(Kind.UNFOLLOW, subject, Filter(source, command))

    def _follow(self, kind: Kind, subject: str | bytes, filter: Filter) -> None:
        to = given_address(subject, "subject")
        with self._lock:
            self._check_open()
            packet = Packet(kind, Frame(self._address, to, self._stamps(), b"O", b"I", filter.encode()))
            self._enqueue(self._say_always, packet)

    def alerts(self) -> list[str]:
        """What the relay has told since the last call that is about no `Dispatch` of this process, in words."""
        return [self._alerts.popleft() for _ in range(len(self._alerts))]

    def stats(self) -> dict[str, int]:
        """Counts since the agent was made, by what they count, and by cause: `sent`, `DELIVERED`, `received`, …"""
        with self._lock:
            return dict(self._counts)

    def __iter__(self) -> Generator[Order]:
        """Orders, as they come; ends when the agent is closed. An order is over when the loop asks for the next one, or
        when it is answered: of an agent with a folder, those that are not over come again behind a restart."""
        while not self._is_over:
            if (order := self._taken()) is None:
                self._changed.wait(self._has_come, None)
            else:
                yield order
                self._enqueue(self._over, order)
        self._check_failure()

    async def __aiter__(self) -> AsyncGenerator[Order]:
        """Yields orders to a task, as `__iter__` does to a thread."""
        while not self._is_over:
            if (order := self._taken()) is None:
                await self._changed.reached(self._has_come, None)
            else:
                yield order
                self._enqueue(self._over, order)
        self._check_failure()

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise ClosedError(f"{self!r} takes no more orders: {self._why_over()}") from self._failure

    def _has_come(self) -> bool:
        return bool(self._came) or self._is_over

    def _taken(self) -> Order | None:
        self._check_process()
        try:
            order = self._came.popleft()
        except IndexError:
            return None
        self._enqueue(self._was_taken, order)
        return order

    def close(self) -> None:
        """What has been sent may leave for a second; orders that have no end go on with the folder, or are lost.
        Idempotent."""
        with self._lock:
            if self._closed or os.getpid() != self._process:
                return
            self._closed = True
            self._enqueue(self._stopping.set)
        self._thread.join(CLOSE_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def _is_over(self) -> bool:
        return self._closed or self._failure is not None

    def _why_over(self) -> str:
        return f"its agent has failed: {self._failure}" if self._failure is not None else "its agent was closed"

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ForkedError(f"{self!r} was made before fork(), and belongs to the parent; make one in the child")

    def _check_open(self) -> None:
        self._check_process()
        if self._is_over:
            raise ClosedError(f"{self!r} is used after its end: {self._why_over()}")

    def _enqueue(self, call: Callable[..., None], *given: object) -> None:
        """Calls are made in their order, in the thread of the loop."""
        with self._lock:
            self._calls.append(partial(call, *given))
            if not self._is_called:
                self._is_called = True
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self._make_calls)

    def _make_calls(self) -> None:
        self._is_called = False  # no lock: a handler of a signal that closes waits for this thread, and may hold it
        try:
            while self._calls:
                self._calls.popleft()()
        except Exception as error:
            self._fail(error)  # the loop would only log it

    def __repr__(self) -> str:
        return f"<rtmw.Agent {readable(self._address)}>"

    # ---- the thread of the loop ----

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        except Exception as error:
            self._fail(error)
        finally:
            self._loop.close()
            if self._log is not None:
                with suppress(rtmw.LogError):  # whoever waited for the disk was told
                    self._log.close()
            self._closed = True
            for dispatch in self._open.values():
                dispatch._signal.notify(all=True)
            self._changed.notify(all=True)

    def _fail(self, error: Exception) -> None:
        """The agent ends, and whoever waits is told."""
        self._failure = error
        log.error("%r ends: %s", self, error)
        self._stopping.set()

    async def _work(self) -> None:
        """Until `close`. Raises LogFailed: nothing more can be kept."""
        works = [self._stopping.wait(), self._sync(), *self._line.works()]
        tasks: list[asyncio.Task[Any]] = [self._loop.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await self._sync(until=self._behind.empty)
        finally:
            await self._line.close(tasks)

    # ---- its log ----

    def _row(self, kind: str, frame: Frame, **fields: Any) -> rtmw.Appended | None:
        """None: this agent has no folder."""
        if self._log is None:
            return None
        self._appended += 1
        return self._log.append(Entry(kind, frame.head, **fields))

    async def _sync(self, until: Callable[[], bool] = lambda: False) -> None:
        """Calls what waits for rows, in their order. Raises LogFailed."""
        while not until():
            row, call = await self._behind.get()
            await row.resolve_async()
            call()

    def _note(self, kind: str, frame: Frame, at: int = 0) -> None:
        """Writes a row that may be missing: without it, what is over comes again at the next start, harmlessly."""
        try:
            self._row(kind, frame, at=at)
            if self._appended >= TRIM_AFTER:
                self._trim()
        except RtmwError as error:
            self._not_logged(error)

    def _trim(self) -> None:
        """Rows go that nothing needs."""
        if self._log is not None:
            open = (one._position for one in self._open.values())
            needed = [next(iter(found), self._newest) for found in (self._known.values(), self._unhandled, open)]
            self._appended = 0
            self._log.trim(max(0, min(self._newest, *needed)))

    def _not_logged(self, error: RtmwError) -> None:
        """A disk that is full may have room again. Of one that has failed the log takes nothing more."""
        if isinstance(error, rtmw.LogFull):
            self._count("not logged: the disk is full")
            self._trim()
        else:
            self._fail(error)

    def _recover(self, folder: Path) -> None:
        """Before the thread begins. Raises LogError and its kind, and OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log = rtmw.Log(folder, Entry, sync=False, segment=SEGMENT)
        try:
            self._log.trim(0)  # takes the lock, and cuts what a killed program has left
            for record in self._log.read():
                self._redo(record.value, record.position)
        except BaseException:
            self._log.close()
            raise
        self._came.extend(self._unhandled.values())
        self._ahead = len(self._came)
        for dispatch in list(self._open.values()):
            self._enter(dispatch)

    def _redo(self, entry: Entry, position: int) -> None:
        frame = frame_of(entry.head, entry.body)
        if entry.kind == "ORDER":
            if frame.source != self._address:
                raise rtmw.LogError(
                    f"this folder is of agent {readable(frame.source)}, and not of {readable(self._address)}; each "
                    "agent needs a folder of its own"
                )
            self._stamps.follow(frame.stamp)
            kind, priority = Kind.ANSWER if frame.type == b"A" else Kind.ORDER, entry.priority
            dispatch = Dispatch(self, Packet(kind, frame, None if priority < 0 else priority, entry.lifetime))
            dispatch._expires -= (CLOCK.wall_ns() - entry.at) / 1e9
            dispatch._position, dispatch._is_recovered = position, True
            self._open[frame.stamp], self._newest = dispatch, position  # the newest has the last stamp, and stays
        elif entry.kind == "END":
            self._open.pop(frame.stamp, None)
        elif entry.kind == "CAME":
            order = self._unhandled[position] = Order(self, frame, position, redelivered=True)
            self._know(order, position)
        else:
            self._unhandled.pop(entry.at, None)

    # ---- orders of this agent ----

    def _welcomed(self, welcome: Welcome) -> None:
        """What has no answer is sent again: the relay knows it by its id."""
        with self._lock:
            self._stamps.follow(welcome.highest)
        ours, its = self._t1 * (self._n1 + 1), welcome.t2 * (welcome.n2 + 1)
        if ours <= its:
            self._alert(
                f"this agent gives up after T1·(N1+1) = {ours:g} s, and its relay after T2·(N2+1) = {its:g} s, so an "
                "order may still arrive when it is UNANSWERED: raise t1 or n1 of the agent"
            )
        for packet in self._follows.values():
            self._line.say(packet)
        for dispatch in self._open.values():
            if dispatch._tries:
                self._write(dispatch)
        self._pump()

    def _say_always(self, packet: Packet) -> None:
        """Sends a packet now and after each welcome, since the relay may not have heard it."""
        self._follows[packet.frame.destination, packet.frame.data] = packet
        self._line.say(packet)

    def _enter(self, dispatch: Dispatch) -> None:
        frame = dispatch._packet.frame
        self._open[frame.stamp] = dispatch
        self._newest = max(self._newest, dispatch._position)
        self._lanes[frame.destination].waiting[frame.stamp] = dispatch
        if dispatch._expires < math.inf:
            self._loop.call_later(dispatch._expires - CLOCK.monotonic(), self._expire, frame.stamp)
        self._pump()

    def _pump(self) -> None:
        """Sends what may leave for the first time. What waits for room here leaves behind answers that come."""
        for lane in self._lanes.values():
            while lane.waiting and lane.flying < WINDOW and self._line.is_clear:
                _, dispatch = lane.waiting.popitem(last=False)
                if len(dispatch._packet.frame.data) > self._line.longest:
                    words = f"its relay takes {self._line.longest} bytes at most"
                    self._finish(dispatch, DispatchState.REFUSED, words)
                else:
                    lane.flying += 1
                    self._try(dispatch)

    def _try(self, dispatch: Dispatch) -> None:
        dispatch._tries += 1
        dispatch._timer = self._loop.call_later(self._t1, self._overdue, dispatch._packet.frame.stamp)
        if self._line.is_clear:
            self._write(dispatch)

    def _write(self, dispatch: Dispatch) -> None:
        packet = dispatch._packet
        if dispatch._expires < math.inf:
            packet = packet._replace(lifetime=max(1e-6, dispatch._expires - CLOCK.monotonic()))
        self._count("frames")
        self._line.say(packet)

    def _overdue(self, stamp: bytes) -> None:
        dispatch = self._open[stamp]
        if dispatch._tries <= self._n1:
            self._try(dispatch)
        else:
            seconds = self._t1 * (self._n1 + 1)
            words = f"the relay has not answered within {seconds:g} s, and may have it"
            self._finish(dispatch, DispatchState.UNANSWERED, words)

    def _expire(self, stamp: bytes) -> None:
        """Ends an order that no process has sent as EXPIRED. If one has, the relay says what becomes of the order."""
        dispatch = self._open.get(stamp)
        if dispatch is not None and not dispatch._tries and not dispatch._is_recovered:
            self._finish(dispatch, DispatchState.EXPIRED, "its lifetime was over before there was a relay")
            del self._lanes[dispatch._packet.frame.destination].waiting[stamp]

    def _finish(self, dispatch: Dispatch, state: DispatchState, cause: str = "") -> None:
        frame = dispatch._packet.frame
        del self._open[frame.stamp]
        self._ended[frame.stamp] = dispatch
        self._count(state.name)
        if dispatch._is_recovered and state is not DispatchState.DELIVERED:
            self._alert(f"{dispatch.id}: {cause}")
        self._note("END", frame)
        dispatch._become(state, cause)
        self._land(dispatch)

    def _land(self, dispatch: Dispatch) -> None:
        """Takes in that an order has an answer: its T1 stops, and another one may leave."""
        if dispatch._timer is not None:
            dispatch._timer.cancel()
            dispatch._timer = None
            self._lanes[dispatch._packet.frame.destination].flying -= 1
            self._pump()

    # ---- what the relay says ----

    def _heard(self, packet: Packet) -> None:
        kind, frame = packet.kind, packet.frame
        if kind in (Kind.ORDER, Kind.ANSWER):
            self._take_in(replace(frame, type=b"A" if kind is Kind.ANSWER else b"O"))
        elif kind is Kind.RECEIPT:
            self._correct(frame, DispatchState.DELIVERED, "")
        elif kind is Kind.ALERT:
            self._correct(frame, _state_in(words_of(packet)), words_of(packet))
        elif kind is Kind.NOTICE:
            dispatch = self._open.get(frame.answers[0])
            if dispatch is not None and dispatch.state is DispatchState.WAITING:
                dispatch._become(DispatchState.STORED, words_of(packet))
                self._land(dispatch)
        elif kind is Kind.PING:
            self._line.say(packet._replace(kind=Kind.PONG))

    def _correct(self, frame: Frame, state: DispatchState, cause: str) -> None:
        """An order has its end, or another one than it was thought to have: DELIVERED is the last."""
        stamp = frame.answers[0]
        dispatch = self._open.get(stamp)
        if dispatch is not None:
            self._finish(dispatch, state, cause)
        elif (dispatch := self._ended.get(stamp)) is not None:
            if dispatch.state not in (state, DispatchState.DELIVERED):
                self._count(f"late {state.name}")
                dispatch._become(state, cause)
        elif state is DispatchState.DELIVERED:
            self._count("receipts for nothing")
        else:
            self._alert(f"{_id(self._address, stamp)} to {readable(frame.source)}: {cause}")

    def _alert(self, words: str) -> None:
        self._count("alerts")
        self._alerts.append(words)

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    # ---- orders for this agent ----

    def _know(self, order: Order, position: int) -> None:
        known = self._known
        known[order._key] = position
        while len(known) > KNOWN_LEAST or (len(known) > AHEAD and position - next(iter(known.values())) > KNOWN_BYTES):
            known.popitem(last=False)

    def _take_in(self, frame: Frame) -> None:
        """Takes an order in. An order that comes again is confirmed again, unless its first receipt is still due."""
        order = Order(self, frame)
        if (position := self._known.get(order._key)) is not None:
            self._count("duplicates")
            if position >= 0:
                self._confirm(order)
        elif len(self._came) + len(self._held) >= AHEAD_MOST:
            self._count("not taken")
        else:
            self._know(order, -1)
            if self._log is None:
                self._hand_over(order)
            else:
                self._held.append(order)
                self._fill()

    def _fill(self) -> None:
        """Logs those that are held. One that is not logged is not known: it comes again."""
        while self._held and self._ahead < AHEAD:
            order = self._held.popleft()
            try:
                row = self._row("CAME", order._frame, body=order._frame.data)
            except RtmwError as error:
                self._not_logged(error)
                del self._known[order._key]
                continue
            assert row is not None, "this agent has a folder"
            order._position = row.position
            self._ahead += 1
            self._unhandled[row.position] = order
            self._behind.put_nowait((row, partial(self._logged, order)))

    def _logged(self, order: Order) -> None:
        self._know(order, order._position)
        self._confirm(order)
        self._hand_over(order)

    def _hand_over(self, order: Order) -> None:
        self._count("received")
        self._came.append(order)
        self._changed.notify()

    def _confirm(self, order: Order) -> None:
        with self._lock:
            receipt = order._frame.receipt(self._stamps())
        self._line.say(Packet(Kind.RECEIPT, replace(receipt, source=self._address)))

    def _was_taken(self, order: Order) -> None:
        """The program has it."""
        if self._log is None:
            self._know(order, 0)
            self._confirm(order)
        else:
            self._ahead -= 1
            self._fill()

    def _over(self, order: Order) -> None:
        """A crash before its row is on the disk hands it out again."""
        if self._unhandled.pop(order._position, None) is not None:
            self._note("OVER", order._frame, order._position)


def _state_in(words: str) -> DispatchState:
    """What an alert tells of an order. Of a group the worst: one that may have it is in the way of doing otherwise."""
    named = [*_FAILED.findall(words), "REFUSED"]
    return DispatchState[min(named, key=("UNCONFIRMED", "UNDELIVERED", "EXPIRED", "REFUSED").index)]
