"""Client: calls a service, once or for a stream of replies, from threads and from event loops.

All clients of one service in a process share a line: one topic for replies, on which each call has its number. No
thread is kept for it. Of the callers that wait, one leads: it takes the replies of all, until its own call is over, and
looks now and then whether the server still lives. A leader may stand still, as a task does whose loop is blocked: the
others take replies, too, when they have waited for long.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Generic, Self, TypeVar, overload

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_of
from rtmw.errors import CallFailed, ClosedError, LeaseExpired, LimitReached, NoServer, RtmwError, ValueMismatch
from rtmw.matching import LongWait, WaitLog
from rtmw.profiles import STATUS
from rtmw.qos import check_seconds
from rtmw.requests import wire
from rtmw.requests.wire import CANCEL, FAILED, IN_LOOP, IN_THREAD, LAST, Envelope, InLoop, InThread
from rtmw.waiting import Signal

__all__ = ["Client", "ClientStats", "Stream"]

Q = TypeVar("Q")
R = TypeVar("R")

WATCH_S: Final = 0.05
"""Seconds between looks whether the server lives, while somebody waits."""
LEAD_S: Final = 0.25
"""Seconds after which who waits looks by itself whether somebody leads."""
SHORTEST_S: Final = 0.001
"""Seconds that who waits sleeps at least."""
LOOK_S: Final = 0.01
"""Seconds between looks for a server that is waited for."""


@dataclass(frozen=True)
class ClientStats:
    """Counters of all clients of the service in this process since the first of them was opened."""

    calls: int
    """Calls and streams that were begun."""
    waiting: int
    """Calls and streams that are not over."""
    late: int
    """Replies that were dropped, for their call was over."""
    server: str
    """The program that serves; empty: none."""


_NOTHING: Final[Any] = object()


class _Call:
    """A call, and what has come of it. `_Line.begin` makes it, and sets what has no default here."""

    owner: Client[Any, Any]
    number: int
    end: float
    server: int
    arrived: deque[Any] | None
    """Values of a stream that its caller has not got; None: it is no stream."""
    value: Any = _NOTHING
    """The last one that came of it."""
    error: Exception | None = None
    is_over = False
    leads = False
    """Who led has ended, and this caller is to go on."""

    def is_ready(self) -> bool:
        """There is something for its caller."""
        return self.is_over or bool(self.arrived)

    def last(self) -> Any:
        """The last value. CallFailed, NoServer."""
        if self.error is not None:
            raise self.error
        if self.value is _NOTHING:
            raise CallFailed("the handler ended without a value; a stream may be empty, and is got by `stream`")
        return self.value


class _Line:
    """What the clients of one service in a process share. Any thread, any event loop."""

    def __init__(self, domain: Domain, name: str, request: Envelope, reply: Envelope) -> None:
        self.name, self.domain = name, domain
        self.kind, self.packed, self._unpacked = request.kind, request.packed, reply.unpacked
        self.wraps = request.unpacked is not None
        """Values of requests do not travel as they are."""
        self.users = self.begun = self.late = self.server = 0
        """`server`: the identity of who serves; 0: nobody."""
        self.program = ""
        """The program that serves, or did."""
        self.calls: dict[int, _Call] = {}
        self._numbers = itertools.count(1)
        self._lead: dict[int, _Call] = {}
        """The call that leads, under 0. A handler of a signal may raise behind any call of a function, so who leads is
        read here, and not from what a function returned; it is taken back before another one is called."""
        self._looking, self._signal = threading.Lock(), Signal()
        self._followers: dict[_Call, None] = {}
        """Callers that wait while another one leads."""
        self._announced = 0, False
        """Who said last that it serves: its identity, and whether it is on another host."""
        self._types: dict[int, bool] = {}
        """Whether a type of the region is that of the requests, by the type's number in the region."""
        self._next_look_s = 0.0
        self._holds_s = 0.0
        """Until when the last look for the server holds, unless another one says that it serves."""
        self._said = 0
        """The sequence of the message by which the server said so."""
        self._taking = threading.RLock()
        """Held while replies are taken and given to their calls, so that those of a call keep their order; by a thread
        that leads also while it waits for them."""
        self._waiter = 0
        """The thread that waits for replies, and holds that lock; a handler of a signal may call within it."""
        self._uncancelled: set[int] = set()
        """Calls that are over, of which the server could not be told, for its queue was full."""
        with ExitStack() as opened:
            try:
                self.publisher = opened.enter_context(
                    wire.publisher(wire.request_topic(name), request, domain, **wire.PUBLISHES)
                )
                self.id = self.publisher.identity
                topic = wire.reply_topic(name, self.id)
                self._replies = opened.enter_context(wire.subscriber(topic, reply, domain, **wire.SUBSCRIBES))
                topic = wire.server_topic(name)
                self._servers = opened.enter_context(wire.subscriber(topic, reply, domain, **STATUS.subscriber))
            except LimitReached as error:
                raise wire.limit_reached(name, error) from error
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()

    def end(self, owner: Client[Any, Any]) -> None:
        """Calls of a client that was closed are over."""
        for call in list(self.calls.values()):
            if call.owner is owner:
                self._give_up(call, owner.closed_error())
        self._signal.notify()

    # Who serves.

    def look(self, said: shm.Sample[Any] | None = None) -> int:
        """Who serves? 0: nobody. One that says so and is not heard, or the other way round, is none. `said`: what was
        taken already of what servers say."""
        for number in list(self._uncancelled):
            if not self._cancel(number):
                break
        with self._looking:
            self._holds_s = monotonic() + WATCH_S
            while (said := said or self._servers.take()) is not None:
                if said.sequence > self._said and (program := wire.announced(said)) is not None:
                    self._said, self.program = said.sequence, program
                    self._announced = said.publisher, said._pid == 0
                said = None
            identity, is_far = self._announced
            if identity and not self._is_there(identity, is_far):  # who publishes there next says so again
                self._announced = identity, is_far = 0, False
            self.server = server = identity if self._is_heard() else 0
            return server

    def _is_there(self, identity: int, is_far: bool) -> bool:
        """The server publishes that it serves; of one on another host the node does, while it is there."""
        region = self.domain.region
        life = region.topic_life(wire.server_topic(self.name))
        rows = shm.living(shm.publishers(region, life)) if life else ()
        return any(is_far or region.identity(row.identity) == identity for row in rows)

    def _is_heard(self) -> bool:
        """Somebody subscribes to the requests as a server does, or a node; not only what takes any type."""
        region = self.domain.region
        life = region.topic_life(wire.request_topic(self.name))
        rows = shm.living(shm.subscribers(region, life)) if life else []
        if any(row.type not in self._types for row in rows):
            kind = self.kind
            known = region.types().items()
            self._types |= {life: type == (kind.name, kind.description) for life, type in known}
        return any(self._types.get(row.type, False) for row in rows)

    def why_none(self) -> str:
        """Why there is no server, as far as that is known."""
        if unmatched := (*self._servers.stats().unheard, *self.publisher.stats().refused):
            return f"service {self.name!r} has no server of these types: {'; '.join(unmatched)}"
        return f"nobody serves {self.name!r} in domain {self.domain.id}; a server may come later (`Client.wait`)"

    def no_server(self, call: _Call | None = None) -> NoServer:
        """`call`: its server was there when it began."""
        if call is None:
            return NoServer(self.why_none())
        return NoServer(f"the server of {self.name!r} has ended since the call began; what it did is not known")

    def _watch(self, now: float) -> None:
        """Look whether the server lives; calls to one that does not fail, unless their replies are here already."""
        self._next_look_s = now + WATCH_S
        self.look()
        if all(call.server == self.server for call in list(self.calls.values())):
            return
        with self._taking:
            self._drain()
            for call in list(self.calls.values()):
                if call.server != self.server:  # read behind the call, which may have begun since that look
                    self._finish(call, self.no_server(call))
        self._signal.notify()

    # Calls.

    def begin(self, owner: Client[Any, Any], now: float, end: float, arrived: deque[Any] | None = None) -> _Call:
        """A call whose request is published next. `arrived`: it is a stream. NoServer."""
        server, said = self.server, self._servers.take()
        if said is not None or not server or now >= self._holds_s:
            server = self.look(said)  # while nobody waited, another server may have come
        if not server:
            raise self.no_server()
        if not self.calls:
            self._next_look_s = now + WATCH_S
        self.begun = number = next(self._numbers)
        self.calls[number] = call = _Call()
        call.owner, call.number, call.end, call.server, call.arrived = owner, number, end, server, arrived
        return call

    def lead_once(self, call: _Call, seconds: float) -> None:
        """A thread takes one reply, if nobody leads."""
        lead = self._lead
        try:
            if lead.setdefault(0, call) is call:
                self._take(seconds)
        finally:
            if 0 in lead and lead[0] is call:
                del lead[0]
                if self._followers:
                    self._pass_on()
        if not call.is_over:
            wire.run(self.wait, call, IN_THREAD)

    async def ask(self, call: _Call, value: Any, way: InThread) -> None:
        """Publish the request; waits while the queue of the server is full. TimeoutError, NoServer, MessageError."""
        message = self.id, call.number, 0, "", self.packed(value)
        while not await way.publish(self.publisher, message, call.end):
            self._check_full(call)

    def _check_full(self, call: _Call) -> None:
        if self.look() != call.server:
            raise self.no_server(call)
        self._check_time(call, "; ".join(self.publisher.stats().in_the_way))

    def _check_time(self, call: _Call, why: str = "") -> float:
        """Seconds that are left of a call. TimeoutError."""
        left = call.end - monotonic()
        if left <= 0:
            served_by = f", which {self.program} serves" if self.program else ""
            told = f"no answer of service {self.name!r}{served_by}, within the timeout"
            raise TimeoutError(f"{told}; its requests wait: {why}" if why else told)
        return left

    def leave(self, call: _Call) -> None:
        """The call is over for its caller. Does not block, and takes no lock: a garbage collector may call it."""
        if self.calls.pop(call.number, None) is not None:
            call.is_over = True
            self._cancel(call.number)

    def _cancel(self, number: int) -> bool:
        """Tell the server that nobody waits for this call. False: it has no room, and is told later."""
        self._uncancelled.add(number)
        with suppress(RtmwError):
            if self.publisher._try(0.0, (self.id, number, CANCEL, "", None)) is True:
                self._uncancelled.discard(number)
        return number not in self._uncancelled

    async def wait(self, call: _Call, way: InThread) -> None:
        """Return when there is something for the caller. TimeoutError, ClosedError."""
        lead = self._lead
        while not call.is_ready():
            try:
                await (self._lead_call if self._may_lead(call) else self._follow)(call, way)
            finally:
                leads = 0 in lead and lead[0] is call
                if leads:
                    del lead[0]
                self._followers.pop(call, None)
                if leads or call.leads:
                    call.leads = False
                    self._pass_on()
            if leads and not call.is_ready():
                self._check_time(call)

    def _may_lead(self, call: _Call) -> bool:
        """A caller is among the followers before it tries for the last time: who leads now sees it, or has ended."""
        if self._lead.setdefault(0, call) is call:
            return True
        self._followers[call] = None
        return self._lead.setdefault(0, call) is call

    def _pass_on(self) -> None:
        """Another one leads next."""
        for other in list(self._followers):
            if not other.is_ready():
                other.leads = True
                return self._signal.notify()

    async def _follow(self, call: _Call, way: InThread) -> None:
        """Wait for who leads. It may stand still: a task whose loop does not run. Replies expire with the call, so this
        one looks before the end of a short call, too, unless a thread takes them just now."""
        seconds = min(self._check_time(call) / 2 + SHORTEST_S, LEAD_S)
        is_met = await way.reached(self._signal, lambda: call.leads or call.is_ready(), seconds)
        if not is_met and self._waiter in (0, threading.get_ident()):
            self._drain()
            if (now := monotonic()) >= self._next_look_s:
                self._watch(now)

    async def _lead_call(self, call: _Call, way: InThread) -> None:
        while not call.is_ready() and (now := monotonic()) < call.end:
            seconds = min(WATCH_S, call.end - now)
            if now >= self._next_look_s:
                self._watch(now)
            elif not isinstance(way, InLoop):
                self._take(seconds)
            elif not self._drain():
                await way.arrival(self._replies, seconds)

    def _take(self, seconds: float) -> None:
        """Wait in this thread for a reply, and give it to its call."""
        with self._taking:
            self._waiter = threading.get_ident()
            try:
                sample = wire.received(self._replies, seconds, self._lose)
            finally:
                self._waiter = 0
            if sample is not None:
                self._hand_over(sample)

    def _drain(self) -> bool:
        """Take all replies that are there. Were there any?"""
        found = False
        with self._taking:
            while (sample := wire.taken(self._replies, self._lose)) is not None:
                found = True
                self._hand_over(sample)
        return found

    def _hand_over(self, sample: shm.Sample[Any]) -> None:
        """Give a reply to its call."""
        error: Exception | None = None
        try:
            client, number, flags, told, value = sample.value
            if value is None:
                value = _NOTHING
            elif self._unpacked is not None:
                value = self._unpacked(value)
            if flags & FAILED:
                error = CallFailed(told)
        except ValueMismatch as mismatch:  # the class refuses the value
            client, number, _, _ = wire.head_of(sample.data)
            flags, value, error = LAST, _NOTHING, mismatch
        call = self.calls.get(number)
        if call is None or client != self.id:
            self.late += 1
            return
        if value is not _NOTHING:
            if call.arrived is None:
                call.value = value
            else:
                call.arrived.append(value)
        if flags & LAST:
            self.calls.pop(number, None)
            call.error, call.is_over = error, True
        elif call.arrived is not None and len(call.arrived) > wire.UNREAD_MOST:
            told = f"its caller left {wire.UNREAD_MOST} replies unread, and the call was given up"
            self._give_up(call, CallFailed(told))
        if self._followers:
            self._signal.notify()

    def _finish(self, call: _Call, error: Exception | None) -> None:
        self.calls.pop(call.number, None)
        call.error, call.is_over = error, True

    def _lose(self, error: LeaseExpired) -> None:
        """This process stood still, and replies are gone, nobody knows to which calls."""
        for call in list(self.calls.values()):
            told = f"this process stood still, and {error.missed} replies to it are gone"
            self._give_up(call, CallFailed(told))
        self._signal.notify()

    def _give_up(self, call: _Call, error: Exception) -> None:
        call.error = error
        self.leave(call)

    def stats(self) -> ClientStats:
        program = self.program if self.look() else ""
        return ClientStats(self.begun, len(self.calls), self.late, program)


_lines: dict[tuple[int, str, int, int], _Line] = {}
_lock = threading.Lock()
_dropped: deque[_Line] = deque()
"""Lines of clients that were dropped without `close`."""


def _after_fork() -> None:
    """The child opens its own."""
    global _lock
    _lock = threading.Lock()
    _lines.clear()
    _dropped.clear()


os.register_at_fork(after_in_child=_after_fork)


def _line_of(domain: Domain, name: str, request: Envelope, reply: Envelope) -> _Line:
    key = id(domain), name, request.kind.identity, reply.kind.identity
    with _lock:
        line = _lines.get(key)
        if line is None or line.publisher.closed:
            line = _lines[key] = _Line(domain, name, request, reply)
        line.users += 1
    _settle()
    return line


def _give_back(line: _Line) -> None:
    with _lock:
        line.users -= 1
        if line.users:
            return
        for key in [key for key, one in _lines.items() if one is line]:
            del _lines[key]
    line.close()


def _drop(line: _Line) -> None:
    """A garbage collector calls it for a client that was not closed, perhaps in a thread that has the lock."""
    _dropped.append(line)
    _settle()


def _settle() -> None:
    """Give back the lines of clients that were dropped. Whoever has the lock does so afterwards."""
    while _dropped and _lock.acquire(blocking=False):
        _lock.release()
        with suppress(IndexError, RtmwError):
            _give_back(_dropped.popleft())


class Stream(Closing, Generic[R]):
    """Made by `Client.stream`: the replies of one call, for `for` or `async for`. The first step sends the request.
    Closed before its end, or dropped as by `break`, it cancels the call."""

    def __init__(self, client: Client[Any, R], value: Any, end: float) -> None:
        self._line, self._value, self._end = client._line, value, end
        self._client = client
        self._call: _Call | None = None
        self._closed = False

    async def _step(self, way: InThread) -> tuple[R] | None:
        """The next reply; None: there are no more."""
        try:
            if self._call is None and not self._closed:
                self._call = self._line.begin(self._client, monotonic(), self._end, deque())
                await self._line.ask(self._call, self._value, way)
            if self._closed or self._call is None:
                return None
            await self._line.wait(self._call, way)
            if self._call.arrived:
                return (self._call.arrived.popleft(),)
            if self._call.error is not None:
                raise self._call.error
        except ClosedError:
            self.close()
            raise self._client.closed_error() from None
        except BaseException:
            self.close()
            raise
        self.close()
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
        self._closed = True
        if self._call is not None:
            self._line.leave(self._call)

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
        self._shared: _Line | None = None
        given = domain_of(domain)
        self._shared = _line_of(given, name, wire.envelope("Request", request), wire.envelope("Reply", reply))
        self._drop = weakref.finalize(self, _drop, self._shared)
        self._drop.atexit = False
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
        """Wait until there is a server; it looks a hundred times a second. False: not within `timeout` seconds; None:
        no limit, and the reason is logged after 2 s."""
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
        call = line.begin(self, now, wire.end_of(timeout, now))
        try:
            left = call.end - now
            packed = line.packed(value) if value is None or line.wraps else value
            message = line.id, call.number, 0, "", packed
            if not line.publisher.publish(message, lifetime=left if 0.0 < left < math.inf else wire.left_of(call.end)):
                wire.run(line.ask, call, value, IN_THREAD)
            line.lead_once(call, WATCH_S if left > WATCH_S else max(left, 0.0))
            answer: R = call.last()
            return answer
        except ClosedError:
            raise self.closed_error() from None
        finally:
            if not call.is_over:
                line.leave(call)

    async def call_async(self, value: Q, timeout: float | None = 5.0) -> R:
        """`call`, for asyncio. Cancelled, it cancels the call."""
        line, now = self._line, monotonic()
        call = line.begin(self, now, wire.end_of(timeout, now))
        try:
            await line.ask(call, value, IN_LOOP)
            await line.wait(call, IN_LOOP)
            answer: R = call.last()
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
        line, self._shared = self._shared, None
        if line is not None and self._drop.detach():
            line.end(self)
            _give_back(line)
            _settle()

    def __repr__(self) -> str:
        return f"<rtmw.Client {self.name!r}{', closed' if self._shared is None else ''}>"
