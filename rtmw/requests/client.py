"""Client: calls a service, once or for a stream of replies, from threads and from event loops.

All clients of one service in a process share a line: one topic for replies, on which each call has its number. No
thread is kept for it. Whoever waits takes the replies of all: one thread at a time, which keeps that right while it
waits, so that the others sleep until it wakes them (`_calls.c`); while no thread does, one task of each event loop, so
that a loop that stands still keeps its own tasks alone waiting. Who takes looks now and then whether the server lives.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import weakref
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final, Generic, NoReturn, Self, TypeVar, overload

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_of
from rtmw.errors import CallFailed, ClosedError, LeaseExpired, LimitReached, NoServer, RtmwError
from rtmw.matching import LongWait, WaitLog
from rtmw.profiles import STATUS
from rtmw.qos import check_seconds
from rtmw.requests import wire
from rtmw.requests._calls import Call, Line
from rtmw.requests.wire import CANCEL, FAILED, IN_LOOP, IN_THREAD, Envelope, InThread
from rtmw.waiting import Asleep, Loop, finish_in, woken

__all__ = ["Client", "ClientStats", "Stream"]

Q = TypeVar("Q")
R = TypeVar("R")

WATCH_S: Final = 0.05
"""Seconds between looks whether the server lives, while somebody waits."""
LEAD_S: Final = 0.25
"""Seconds after which who waits looks by itself whether somebody takes replies."""
LOOK_S: Final = 0.01
"""Seconds between looks for a server that is waited for."""
GIVEN_UP: Final = CallFailed("its caller waits no more")
"""The outcome of a call that was left without an error."""


@dataclass(frozen=True)
class ClientStats:
    """Counters of all clients of the service in this process."""

    calls: int
    """Calls and streams that were begun."""
    waiting: int
    """Calls and streams that are not over."""
    late: int
    """Replies that were dropped, for their call was over."""
    server: str
    """The program that serves; empty: none."""


class _Line(Line):
    """What the clients of one service in a process share. Any thread, any event loop."""

    def __init__(self, domain: Domain, name: str, request: Envelope, reply: Envelope) -> None:
        self.name, self.domain = name, domain
        self.packed = request.packed
        self.wraps = request.unpacked is not None
        """Values of requests do not travel as they are."""
        self._decode, self._unpacked = reply.kind.decode, reply.unpacked
        self.users = 0
        """Clients that were not closed; back at 0, it is closed, and no other client gets it."""
        self.program = ""
        """The program that serves, or did."""
        self.calls: dict[int, Call] = {}
        self.heads: dict[Loop | None, Call] = {}
        """The call of each event loop that waits for a message, for which the others of that loop wait; under None,
        that of a thread which takes replies again and again. One that does not wait is none."""
        self._looking = threading.RLock()
        """A handler of a signal may call while its thread looks."""
        self._announced = 0, False
        """Who said last that it serves: its identity, and whether it is on another host."""
        self._said = 0
        """The sequence of the message by which the server said so."""
        self._uncancelled: set[int] = set()
        """Calls that are over, of which the server could not be told, for its queue was full."""
        with ExitStack() as opened:
            try:
                self.publisher = opened.enter_context(
                    wire.publisher(wire.request_topic(name), request, domain, **wire.PUBLISHES)
                )
                topic = wire.reply_topic(name, self.publisher.identity)
                self.replies = opened.enter_context(wire.subscriber(topic, reply, domain, **wire.SUBSCRIBES))
                topic = wire.server_topic(name)
                self._servers = opened.enter_context(wire.subscriber(topic, reply, domain, **STATUS.subscriber))
            except LimitReached as error:
                raise wire.limit_reached(name, error) from error
            self._opened = opened.pop_all()
        self._is_heard = wire.Readers(self.publisher, request.kind, domain).are_there
        self.publish = self.publisher.publish
        takes = self.replies.receive, self.replies.take, self._servers
        super().__init__(self.calls, *takes, self.publisher.identity, wire.UNREAD_MOST)

    def close(self) -> None:
        self._opened.close()

    def end(self, owner: Client[Any, Any]) -> None:
        """Calls of a client that was closed are over."""
        for call in list(self.calls.values()):
            if call.owner is owner:
                self.leave(call, owner.closed_error())

    # Who serves.

    def look(self) -> int:
        """Who serves? 0: nobody. One that says so and is not heard, or the other way round, is none."""
        for number in list(self._uncancelled):
            if not self._cancel(number):
                break
        with self._looking:
            self.holds_s = monotonic() + WATCH_S
            while (said := self._servers.take()) is not None:
                if said.sequence > self._said and (program := wire.announced(said)) is not None:
                    self._said, self.program = said.sequence, program
                    self._announced = said.publisher, said._pid == 0
            identity, is_far = self._announced
            there = wire.publishing(self.domain, self._servers.topic)  # of a server on another host the node is
            if identity and not (there if is_far else identity in there):  # who publishes there next says so again
                self._announced = identity, is_far = 0, False
            self.server = server = identity if self._is_heard() else 0
            return server

    def why_none(self) -> str:
        """Why there is no server, as far as that is known."""
        if unmatched := (*self._servers.stats().unheard, *self.publisher.stats().refused):
            return f"service {self.name!r} has no server of these types: {'; '.join(unmatched)}"
        return f"nobody serves {self.name!r} in domain {self.domain.id}; a server may come later (`Client.wait`)"

    def raise_no_server(self) -> NoReturn:
        raise NoServer(self.why_none())

    def _has_ended(self) -> NoServer:
        return NoServer(f"the server of {self.name!r} has ended since the call began; what it did is not known")

    def _watch(self) -> None:
        """Look whether the server lives; calls to one that does not fail, unless their replies are here already. A
        thread that takes replies watches by itself."""
        now = monotonic()
        if now < self.next_look_s or self.taker not in (0, threading.get_ident()):
            return
        self.next_look_s = now + WATCH_S
        self.look()
        if all(call.server == self.server for call in list(self.calls.values())):
            return
        if not self.take(0.0):
            self.next_look_s = now
            return
        for call in list(self.calls.values()):
            if call.server != self.server:  # read behind the call, which may have begun since that look
                self.leave(call, self._has_ended(), tells_server=False)

    # Calls.

    async def ask(self, call: Call, value: Any, way: InThread) -> None:
        """Publish the request; waits while the queue of the server is full. TimeoutError, NoServer, MessageError."""
        message = self.id, call.number, 0, "", self.packed(value)
        while not await way.publish(self.publisher, message, call.end):
            if self.look() != call.server:
                raise self._has_ended()
            self._check_time(call, "; ".join(self.publisher.stats().in_the_way))

    def _check_time(self, call: Call, why: str = "") -> float:
        """Seconds that are left of a call. TimeoutError."""
        left = call.end - monotonic()
        if left <= 0:
            served_by = f", which {self.program} serves" if self.program else ""
            told = f"no answer of service {self.name!r}{served_by}, within the timeout"
            raise TimeoutError(f"{told}; its requests wait: {why}" if why else told)
        return left

    def leave(self, call: Call, error: Exception | None = None, tells_server: bool = True) -> None:
        """The call is over for its caller, with that error, unless it was over before. Does not block, and takes no
        lock: a garbage collector may call it."""
        if self.calls.pop(call.number, None) is None:
            return
        call.outcome, wake = error or GIVEN_UP, call.wake
        if wake is not None:
            wake()
        if tells_server:
            self._cancel(call.number)

    def _cancel(self, number: int) -> bool:
        """Tell the server that nobody waits for this call. False: it has no room, and is told later."""
        self._uncancelled.add(number)
        with suppress(RtmwError):
            if self.publisher._try(0.0, (self.id, number, CANCEL, "", None)) is True:
                self._uncancelled.discard(number)
        return number not in self._uncancelled

    async def wait(self, call: Call, way: InThread) -> None:
        """Return when there is something for the caller. TimeoutError, ClosedError."""
        try:
            while not (call.outcome or call.arrived):
                left = self._check_time(call)
                self._watch()
                if way is IN_LOOP:
                    await self._wait_in_loop(call, left)
                else:
                    self._wait_in_thread(call, left)
        finally:
            if self.heads.get(call.loop) is call:
                del self.heads[call.loop]
            if call.loop not in self.heads and not (call.loop is None and self.taker):
                self.pass_on()  # also where this one was woken to take replies, and its call was over just then

    def _wait_in_thread(self, call: Call, left: float) -> None:
        asleep = Asleep()
        call.wake = asleep.wake  # before it tries: who takes now sees it at the end
        try:
            if call.outcome or call.arrived:
                return
            if self.heads.get(None) is call:  # before it tries, too: who takes instead passes that on at the end
                del self.heads[None]
            if self.take(min(left, WATCH_S)):
                self.heads[None] = call
            else:
                asleep.wait(min(left, LEAD_S))
        finally:
            call.wake = None

    async def _wait_in_loop(self, call: Call, left: float) -> None:
        from rtmw.waiting import wakeup  # where there is an event loop

        loop = asyncio.get_running_loop()
        future, call.loop = loop.create_future(), loop
        call.wake = partial(self._wake, loop, future)
        try:
            head = self.heads.get(loop, call)
            if call.outcome or call.arrived:  # another thread gave it something just before it could be woken
                return
            if head is not call and head.wake is not None:
                await woken(future, min(left, LEAD_S))
            elif self.take(0.0):
                self.heads[loop] = call
                if (
                    call.outcome or call.arrived
                ):  # else a task whose replies come at once would leave the others of its loop waiting
                    await asyncio.sleep(0)
                else:
                    await wakeup(self.replies, self.domain.region, min(left, WATCH_S), future)
            else:  # a thread takes, and wakes one task of this loop at the end
                self.heads.pop(loop, None)
                await woken(future, min(left, LEAD_S))
        finally:
            call.wake = None

    def pass_on(self) -> None:
        """Wake who takes replies next: one thread, and one task of each event loop. Whoever takes no more calls it; who
        is not woken, since a handler of a signal has raised, looks by itself."""
        told = set[Loop | None]()
        for other in list(self.calls.values()):
            wake = other.wake
            if wake is not None and other.loop not in told:
                told.add(other.loop)
                wake()

    def _wake(self, loop: Loop, future: asyncio.Future[None]) -> None:
        try:
            finish_in(loop, [future])
        except RuntimeError:  # the loop was closed: nobody waits there any more
            self.heads.pop(loop, None)
            for call in list(self.calls.values()):
                if call.loop is loop:
                    call.wake = None
                    self.leave(call)

    def lose(self, error: LeaseExpired) -> None:
        """This process stood still, and replies are gone, nobody knows to which calls."""
        for call in list(self.calls.values()):
            self.leave(call, CallFailed(f"this process stood still, and {error.missed} replies to it are gone"))

    def give_up_unread(self, call: Call) -> None:
        told = f"its caller left {wire.UNREAD_MOST} replies unread, and the call was given up"
        self.leave(call, CallFailed(told))

    def read(self, reply: Any) -> tuple[Any] | None:
        """Returns the value of what a call has got; None: it has none. Raises what it is instead, CallFailed and
        ValueMismatch."""
        if isinstance(reply, Exception):
            raise reply
        _, _, flags, text, value = self._decode(reply)
        if flags & FAILED:
            raise CallFailed(text)
        return None if value is None else (value if self._unpacked is None else self._unpacked(value),)

    def earlier(self, call: Call) -> tuple[Any]:
        """Returns the last value of a call that was ended by a reply without one. CallFailed, ValueMismatch."""
        value = None if call.value is None else self.read(call.value)
        if value is None:
            raise CallFailed("the handler ended without a value; a stream may be empty, and is got by `stream`")
        return value

    def stats(self) -> ClientStats:
        program = self.program if self.look() else ""
        return ClientStats(self.begun, len(self.calls), self.late, program)


_lines: weakref.WeakValueDictionary[tuple[int, str, int, int], _Line] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _after_fork() -> None:
    """The child opens its own."""
    global _lock
    _lock = threading.Lock()
    _lines.clear()


os.register_at_fork(after_in_child=_after_fork)


def _line_of(domain: Domain, name: str, request: Envelope, reply: Envelope) -> _Line:
    key = id(domain), name, request.kind.identity, reply.kind.identity
    with _lock:
        line = _lines.get(key)
        if line is None or not line.users or line.publisher.closed:
            line = _lines[key] = _Line(domain, name, request, reply)
        line.users += 1
        return line


class Stream(Closing, Generic[R]):
    """Made by `Client.stream`: the replies of one call, for `for` or `async for`. The first step sends the request.
    Closed before its end, or dropped as by `break`, it cancels the call."""

    def __init__(self, client: Client[Any, R], value: Any, end: float) -> None:
        self._line, self._value, self._end = client._line, value, end
        self._client = client
        self._call: Call | None = None
        self._closed = False

    async def _step(self, way: InThread) -> tuple[R] | None:
        """The next reply; None: there are no more."""
        line, call = self._line, self._call
        try:
            if call is None and not self._closed:
                self._call = call = line.begin(self._client, self._end, [])
                line.calls[call.number] = call
                await line.ask(call, self._value, way)
            while call is not None and not self._closed:
                await line.wait(call, way)
                if call.arrived:
                    value = line.read(call.arrived.pop(0))
                elif self._closed:
                    return None
                else:
                    value = line.read(call.outcome)
                    self.close()
                if value is not None:
                    return value
        except ClosedError:
            self.close()
            raise self._client.closed_error() from None
        except BaseException:
            self.close()
            raise
        return None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        step = wire.run(self._step, IN_THREAD)
        if step is None:
            raise StopIteration
        return step[0]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        step = await self._step(IN_LOOP)
        if step is None:
            raise StopAsyncIteration
        return step[0]

    def close(self) -> None:
        """Cancel what is not over yet. The next step is the end."""
        self._closed, call, self._call = True, self._call, None
        if call is not None:
            self._line.leave(call)

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()


class Client(Closing, Generic[Q, R]):
    """Calls the service of a name, which any program of the domain and its hosts may serve.

    - `name`: of the service.
    - `request`, `reply`: types, as its Service has them.
    - `domain`: as of Publisher.

    Any number of threads and tasks may call at a time. Within a handler of a Service no call is waited for longer than
    the call that the handler serves. Errors of calls: NoServer, CallFailed, TimeoutError; TypeMismatch and
    ValueMismatch of a value that cannot travel; ClosedError. Errors: those of Publisher.
    """

    @overload
    def __init__(self, name: str, *, request: type[Q], reply: type[R], domain: int | Domain | None = None) -> None: ...
    @overload
    def __init__(
        self: Client[Any, Any], name: str, *, request: Any = ..., reply: Any = ..., domain: int | Domain | None = None
    ) -> None: ...

    def __init__(
        self, name: str, *, request: Any = bytes, reply: Any = bytes, domain: int | Domain | None = None
    ) -> None:
        wire.check_name(name)
        self.name = name
        """The name of the service that was given."""
        given = domain_of(domain)
        self._shared: _Line | None = _line_of(
            given, name, wire.envelope("Request", request), wire.envelope("Reply", reply)
        )
        given.adopt(self)

    @property
    def _line(self) -> _Line:
        if self._shared is None:
            raise self.closed_error()
        return self._shared

    def closed_error(self) -> ClosedError:
        """The error of what needs an open client."""
        return ClosedError(f"service {self.name!r}: the Client was closed")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is a server. False: not within `timeout` seconds; None: no limit, and the reason is logged
        after 2 s.
        """
        check_seconds("timeout", timeout)
        end = math.inf if timeout is None else monotonic() + timeout
        line, told = self._line, WaitLog(self.name, "a server")
        waiting = LongWait(lambda: told.note(line.why_none()))
        while not line.look():
            if timeout is None:
                waiting.look()
            left = end - monotonic()
            if left <= 0:
                return False
            CLOCK.sleep(min(LOOK_S, left))
        return True

    def call(self, value: Q, timeout: float | None = 5.0) -> R:
        """The reply to a request; of several the last one. `timeout`: seconds; so long the request is valid. None:
        no limit."""
        line, now = self._shared or self._line, monotonic()
        call = line.begin(self, wire.end_of(timeout, now), None)
        try:
            line.calls[call.number] = call
            packed, left = line.packed(value) if value is None or line.wraps else value, call.end - now
            message = line.id, call.number, 0, "", packed
            if not line.publish(message, lifetime=left if 0.0 < left < math.inf else wire.left_of(call.end)):
                wire.run(line.ask, call, value, IN_THREAD)
            line.take(WATCH_S if left > WATCH_S else max(left, 0.0))
            if call.outcome is None:
                wire.run(line.wait, call, IN_THREAD)
            elif line.calls:
                line.pass_on()
            answer: R = (line.read(call.outcome) or line.earlier(call))[0]
            return answer
        except BaseException as error:
            line.leave(call)
            line.pass_on()  # a handler of a signal may have raised while this thread took replies
            if isinstance(error, ClosedError):
                raise self.closed_error() from None
            raise

    async def call_async(self, value: Q, timeout: float | None = 5.0) -> R:
        """`call`, for asyncio. Cancelled, it cancels the call."""
        line, now = self._line, monotonic()
        call = line.begin(self, wire.end_of(timeout, now), None)
        try:
            line.calls[call.number] = call
            await line.ask(call, value, IN_LOOP)
            await line.wait(call, IN_LOOP)
            answer: R = (line.read(call.outcome) or line.earlier(call))[0]
            return answer
        except ClosedError:
            raise self.closed_error() from None
        finally:
            line.leave(call)

    def stream(self, value: Q, timeout: float | None = None) -> Stream[R]:
        """The replies to a request as they come, for `for` or `async for`. `timeout`: seconds, of all."""
        return Stream(self, value, wire.end_of(timeout, monotonic()))

    def stats(self) -> ClientStats:
        """Counters of the service in this process."""
        return self._line.stats()

    def close(self) -> None:
        """Its calls and streams that are not over end with ClosedError."""
        with _lock:
            line, self._shared = self._shared, None
            if line is None:
                return
            line.users -= 1  # of clients that are dropped without `close` the line is closed when it is collected
        line.end(self)
        if not line.users:
            line.close()

    def __repr__(self) -> str:
        return f"<rtmw.Client {self.name!r}{', closed' if self._shared is None else ''}>"
