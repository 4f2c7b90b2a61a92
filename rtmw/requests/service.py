"""Service: a handler that answers requests, in threads or in the tasks of an event loop.

A thread takes a request, runs its handler, and replies; the threads of a service take turns at waiting for the next
request. Between two values of a generator its thread looks for cancellations. Nobody waits for a client that does not
read: its calls are given up when its queue stays full for ROOM_S, and how they ended is told once there is room.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import sys
import threading
import warnings
import weakref
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

from rtmw import shm
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_of
from rtmw.errors import ClosedError, LeaseExpired, LimitReached, RtmwError, ServiceTaken, ValueMismatch
from rtmw.locks import STARTING_S, claimed
from rtmw.observe.views import program
from rtmw.profiles import STATUS
from rtmw.publisher import Publisher
from rtmw.qos import is_whole
from rtmw.requests import wire
from rtmw.requests.wire import (
    CANCEL,
    FAILED,
    IN_LOOP,
    IN_THREAD,
    LAST,
    SERVER,
    InThread,
    Message,
    Readers,
    left_of,
)
from rtmw.subscriber import Subscriber, is_async
from rtmw.types import ANY

__all__ = ["Service", "ServiceStats"]

Q = TypeVar("Q")
R = TypeVar("R")

TICK_S: Final = 0.1
"""Seconds between looks for clients that have gone, and for another server."""
SAY_S: Final = 1.0
"""Seconds after which a server says once more that it serves."""
MEET_S: Final = 1.0
"""Seconds for which the first reply to a client waits for its reader, which may be on another host; and for which a
service looks for one on other hosts, if a node runs here."""
LOOK_S: Final = 0.01
"""Seconds between looks for a reader that is waited for."""
ROOM_S: Final = 0.1
"""Seconds for which a reply waits while its client leaves UNREAD_MOST others unread."""
_MOST_WORKERS: Final = 1024
_ERROR_MOST: Final = 4096
"""Characters of an error that a reply has."""

log = logging.getLogger("rtmw")


@dataclass(frozen=True)
class ServiceStats:
    """Counters of a service since it was opened. Each request that it took ends as one of served, failed, cancelled,
    expired, unread and refused, or is among waiting and running."""

    served: int
    """Calls that were answered: by their one value, or by a stream to its end."""
    failed: int
    """Calls whose handler raised, or gave what cannot travel."""
    cancelled: int
    """Calls that their client gave up before or while they were served, or that `close` ended."""
    expired: int
    """Calls whose timeout was over. Where their client gives up first, they are `cancelled`."""
    unread: int
    """Calls whose answer nobody was there to read, or whose client left too many replies unread."""
    refused: int
    """Requests that are none: damaged, without a value, or made twice."""
    waiting: int
    """Requests that wait for a worker at present."""
    running: int
    """Calls whose handler runs at present."""
    clients: int
    """Client processes that it has answered, and that are still there."""


class _Client:
    """The way back to one client process."""

    is_left = False
    """Its reader was not there at the last tick."""
    is_full = False
    """It had no room the last time: the next reply only tries."""

    def __init__(self, publisher: Publisher[Any], readers: Readers) -> None:
        self.publisher, self.publish, self.is_there = publisher, publisher.publish, readers.are_there
        self.has_met = self.is_there()
        """Its reader has been there."""
        self.owed: deque[tuple[Message, float]] = deque(maxlen=wire.UNREAD_MOST)
        """Last replies that had no room, and until when somebody waits for them."""

    def is_gone(self) -> bool:
        """Whether the client's reader was there, and is no more."""
        is_there = self.is_there()
        self.has_met |= is_there
        return self.has_met and not is_there


class _Call(wire.Within):
    """A request that is not over. `Service._accept` makes it, and sets what has no default here."""

    key: tuple[int, int]
    """Its client, and its number there."""
    value: Any
    client: _Client

    is_cancelled = False
    refusal: ValueMismatch | None = None
    """The class refuses the value, or the message is damaged."""
    task: asyncio.Task[None] | None = None

    is_unread = False
    """Its client has gone, as the last look has shown."""
    look_s = 0.0
    """When it is looked next whether the client is there; 0: it was not asked yet."""


class _Options(TypedDict, total=False):
    workers: int
    domain: int | Domain | None


Handler: TypeAlias = Callable[[Q], R | Iterator[R] | Awaitable[R] | AsyncIterator[R]]


class Service(Closing, Generic[Q, R]):
    """Answers the requests under a name, which one program of a domain and its hosts does at a time.

    - `name`: of its topics NAME/request and NAME/reply/…; as a topic is called.
    - `handler`: is called with the value of a request, and returns that of the reply, or yields the replies of a
      stream. Where nobody waits any more, a generator is closed at its next `yield`. `async def`: it runs in tasks of
      the running event loop, and is cancelled.
    - `request`, `reply`: types, as of Publisher.
    - `workers`: calls that are served at a time, each in a thread, or in a task.
    - `domain`: as of Publisher.

    What a handler raises is logged with its traceback, and is CallFailed for the client.

    Errors: ServiceTaken, and those of Publisher; TypeError for an async handler without a running event loop.
    """

    @overload
    def __init__(
        self, name: str, handler: Handler[Q, R], *, request: type[Q], reply: type[R], **options: Unpack[_Options]
    ) -> None: ...
    @overload
    def __init__(
        self: Service[Any, Any],
        name: str,
        handler: Callable[[Any], Any],
        *,
        request: Any = ...,
        reply: Any = ...,
        **options: Unpack[_Options],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        handler: Callable[[Any], Any],
        *,
        request: Any = bytes,
        reply: Any = bytes,
        workers: int = 1,
        domain: int | Domain | None = None,
    ) -> None:
        if not callable(handler):
            raise TypeError(f"{handler!r} cannot be the handler of a service; give a function of a request's value")
        if not is_whole(workers, 1, _MOST_WORKERS):
            raise ValueError(
                f"workers={workers!r} is not possible; it must be a whole number from 1 to {_MOST_WORKERS}"
            )
        wire.check_name(name)
        self.name = name
        """The name of the service that was given."""
        self._handler, self._workers = handler, workers
        self._request, self._reply = wire.envelope("Request", request), wire.envelope("Reply", reply)
        self._unpacked, self._packed = self._request.unpacked, self._reply.packed
        self._wraps = self._reply.unpacked is not None
        self._loop = _running_loop(handler) if is_async(handler) else None
        self._domain = domain_of(domain)
        self._count: Counter[str] = Counter()
        self._clients: dict[int, _Client] = {}
        self._calls: dict[tuple[int, int], _Call] = {}
        self._waiting: deque[_Call] = deque()
        self._turn, self._books = threading.Lock(), threading.Lock()
        self._identity = 0
        self._told: set[int] = set()
        """Other servers of the name, of which the log has a line."""
        self._tidy_s = self._say_s = 0.0
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._tasks: set[asyncio.Task[None]] = set()
        with ExitStack() as opened:
            self._open(opened)
            self._opened = opened.pop_all()
        self._domain.adopt(self)
        if self._loop is not None:
            self._add_task(self._take_requests(), copy_context())
        work = weakref.ref(self), self._turn, self._stopped
        for _ in range(self._workers if self._loop is None else 0):
            thread = threading.Thread(target=_serve, args=work, name=f"rtmw {name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    # Opening and closing.

    def _open(self, opened: ExitStack) -> None:
        """Opens the service: it hears requests before it says that it serves."""
        topic, asked, region = wire.server_topic(self.name), wire.request_topic(self.name), self._domain.region
        try:
            self._others = opened.enter_context(Subscriber(topic, ANY, domain=self._domain, history=1))
            self._claim(opened)
            self._requests = opened.enter_context(
                wire.subscriber(asked, self._request, self._domain, **wire.SUBSCRIBES)
            )
            self._sign = wire.publisher(topic, self._reply, self._domain, **STATUS.publisher)
        except LimitReached as error:
            raise wire.limit_reached(self.name, error) from error
        self._identity = self._sign.identity
        opened.callback(self._sign.close, forget=True)
        mine = f"{program(region.names().get(os.getpid(), '?'))} (pid {os.getpid()}) on {socket.gethostname()}"
        self._says = self._identity, 0, SERVER, mine, None
        self._say()

    def _say(self) -> None:
        """Again and again: a client that has lost the way to its server waits for what is new."""
        self._sign.publish(self._says)
        self._say_s = monotonic() + SAY_S

    def _claim(self, opened: ExitStack) -> None:
        """Take the name: on this host, and on others, which are asked if a node runs here. ServiceTaken."""
        digest = blake2b(self.name.encode(), digest_size=16).hexdigest()
        held = claimed(f"rtmw-service-{self._domain.region.nonce:016x}-{digest}", STARTING_S)
        if held is not None:
            opened.enter_context(held)
        has_node = any(program(name) == "rtmw node" for name in self._domain.region.names().values())
        who = self._who_serves(0.0 if held is not None and not has_node else MEET_S)
        if held is None or who:
            raise ServiceTaken(
                f"service {self.name!r} of domain {self._domain.id} is served by {who or 'a program that starts'}; end "
                "that, or use another name. One program serves a name, with any number of `workers`; work that many "
                "programs share goes through rtmw.Inbox"
            )

    def _who_serves(self, seconds: float) -> str:
        """The program that says so, and is still there; empty: none does within these seconds."""
        end = monotonic() + seconds
        while True:
            with suppress(TimeoutError):
                sample = self._others.receive(max(0.0, min(TICK_S, end - monotonic())))
                if (who := self._another(sample)) is not None:
                    return who
            if monotonic() >= end:
                return ""

    def _another(self, sample: shm.Sample[Any]) -> str | None:
        """The program of another server that says here that it serves. None: it is none, or has ended. What comes from
        another host is there while a node publishes it."""
        others, who = wire.publishing(self._domain, self._others.topic), wire.announced(sample)
        is_there = any(one != self._identity and (sample._pid == 0 or one == sample.publisher) for one in others)
        return who if is_there else None

    def close(self) -> None:
        """Serve no more: clients that wait get NoServer. Waits for a handler that runs in a thread, unless called from
        one; tasks are cancelled. Any thread."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        with suppress(RtmwError):  # of a child of fork(), say
            self._sign.close(forget=True)
            self._requests.close()  # a thread that waits is woken
        for task in list(self._tasks):
            with suppress(RuntimeError):  # the loop was closed
                task.get_loop().call_soon_threadsafe(task.cancel)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        for client in list(self._clients.values()):
            client.publisher.close()
        self._opened.close()

    def stats(self) -> ServiceStats:
        """Counters since it was opened."""
        queue, count, waiting = self._requests.stats(), self._count, len(self._waiting)
        return ServiceStats(
            *(count["served"], count["failed"], count["cancelled"], count["expired"] + queue.expired, count["unread"]),
            *(count["refused"], waiting + queue.waiting, len(self._calls) - waiting, len(self._clients)),
        )

    def __repr__(self) -> str:
        return f"<rtmw.Service {self.name!r}{', closed' if self._stopped.is_set() else ''}>"

    def __del__(self) -> None:
        if hasattr(self, "_opened") and not self._stopped.is_set() and not sys.is_finalizing():
            self.close()
            log.warning("service %r is served no more: its Service was dropped without close()", self.name)
            warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, stacklevel=2, source=self)

    # What threads and tasks share. Whoever takes requests has the turn.

    def _accept(self, sample: shm.Sample[Any]) -> _Call | None:
        """The call that a request begins. None: it cancels one, or is none."""
        refusal = None
        try:
            number, call_number, flags, _, value = sample.value
            key = number, call_number
            has_value = value is not None
            if has_value and self._unpacked is not None:
                value = self._unpacked(value)
        except ValueMismatch as error:
            number, call_number, _, _ = wire.head_of(sample.data)
            key, flags, value, has_value, refusal = (number, call_number), 0, None, True, error
        if flags & CANCEL:
            self._cancel(key)
            return None
        client = None
        if has_value and number and key not in self._calls:
            client = self._clients.get(number) or self._way_to(number)
        if client is None:
            self._add("refused")
            return None
        ends_ns = sample._ends_ns
        self._calls[key] = call = _Call()
        call.key, call.value, call.client, call.end = key, value, client, ends_ns / 1e9 if ends_ns else math.inf
        if refusal is not None:
            call.refusal = refusal
        return call

    def _look(self) -> bool:
        """Let the requests that are there wait: a call and its cancellation may be among them. Were there any?"""
        if monotonic() >= self._tidy_s:
            self._tidy()
        found = False
        while len(self._waiting) < wire.UNREAD_MOST and (sample := self._requests.take()) is not None:
            found = True
            if (call := self._accept(sample)) is not None:
                self._waiting.append(call)
        return found

    def _next_waiting(self) -> _Call | None:
        """The first call that somebody still waits for; None: there is none."""
        while self._waiting:
            call = self._waiting.popleft()
            if self._is_wanted(call):
                return call
        return None

    def _is_wanted(self, call: _Call) -> bool:
        """Does anybody wait for this call? One that nobody waits for is over."""
        if fate := self._fate(call):
            del self._calls[call.key]
            self._add(fate)
        return not fate

    def _cancel(self, key: tuple[int, int]) -> None:
        call = self._calls.get(key)
        if call is not None:
            call.is_cancelled = True
            if call.task is not None:
                call.task.cancel()

    def _way_to(self, number: int) -> _Client | None:
        topic, options = wire.reply_topic(self.name, number), wire.PUBLISHES | {"max_blocking": ROOM_S}
        try:
            publisher = wire.publisher(topic, self._reply, self._domain, **options)
        except RtmwError as error:
            log.warning("service %r cannot answer a client: %s", self.name, error)
            return None
        self._clients[number] = client = _Client(publisher, Readers(publisher, self._reply.kind, self._domain))
        return client

    def _note(self, error: Exception) -> None:
        """Log what the taking of requests has raised."""
        if isinstance(error, LeaseExpired):
            log.warning("service %r: %s", self.name, error)
        elif not isinstance(error, ClosedError):
            log.error("service %r goes on after an error of its own", self.name, exc_info=error)

    def _add(self, what: str) -> None:
        with self._books:
            self._count[what] += 1

    def _fate(self, call: _Call) -> str:
        """How the call is over before it has ended; empty: it goes on."""
        if call.is_cancelled or self._stopped.is_set():
            return "cancelled"
        now = monotonic()
        if now >= call.end:
            return "expired"
        if not call.look_s:
            call.look_s = now + TICK_S
        elif now >= call.look_s:
            call.look_s = now + TICK_S / 2
            call.is_unread = call.client.is_gone()
        return "unread" if call.is_unread else ""

    def _failure(self, call: _Call, error: BaseException) -> Message:
        """The reply for what a handler raised, which is logged here."""
        text = _told(error)
        if call.refusal is not error:
            log.error("service %r: its handler raised %s", self.name, text, exc_info=error)
        return (*call.key, LAST | FAILED, text, None)

    def _ended(self, call: _Call, message: Message, was_sent: bool) -> None:
        """Count how a call has ended. What its client has no room for is kept, or that it was given up."""
        what = "unread"
        if was_sent:
            what = "failed" if message[2] & FAILED else "served"
        elif call.client.has_met:
            if not message[2] & LAST:
                told = f"the client left {wire.UNREAD_MOST} replies unread, and the call was given up"
                message = *call.key, LAST | FAILED, told, None
            call.client.owed.append((message, call.end))
        with self._books:
            self._count[what] += 1

    def _tidy(self) -> None:
        """Let go of calls that nobody waits for any more, since behind those that wait may be a cancellation, and of
        clients that have gone; pay what is owed, and see whether another one serves."""
        self._tidy_s = monotonic() + TICK_S
        if self._tidy_s >= self._say_s:
            self._say()
        self._waiting = deque(filter(self._is_wanted, list(self._waiting)))
        for call in list(self._calls.values()):
            if call.task is not None and self._fate(call):
                call.task.cancel()
        busy = {client for client, _ in list(self._calls)}
        for number, client in list(self._clients.items()):
            while client.owed and self._pay(client):
                client.owed.popleft()
            was_left, client.is_left = client.is_left, number not in busy and not client.is_there()
            if was_left and client.is_left:  # for a tick, so that who looks on finds its topic
                self._clients.pop(number).publisher.close()
        sample = self._others.take()
        if sample is not None and sample.publisher not in self._told and (who := self._another(sample)) is not None:
            self._told.add(sample.publisher)
            log.error("service %r has another server, and clients hear either: %s", self.name, who)

    def _pay(self, client: _Client) -> bool:
        message, end = client.owed[0]
        if monotonic() >= end or client.is_gone():
            return True
        client.is_full = client.publisher._try(0.0, message, lifetime=left_of(end)) is not True
        return not client.is_full

    # How a call is served, in a thread or in a task.

    def _run(self, call: _Call) -> None:
        """In a thread: what a handler returns is published at once, if its client has room; all else by a coroutine,
        which takes longer."""
        client, token = call.client, wire.serving.set(call)
        make: Callable[[Any], Any] = self._handler
        if call.refusal is None and client.has_met and not client.is_full and not client.owed:
            try:
                made: Any = self._handler(call.value)
                if not hasattr(made, "__next__"):
                    number, call_number = call.key
                    packed = self._packed(made) if made is None or self._wraps else made
                    message, left = (number, call_number, LAST, "", packed), call.end - monotonic()
                    sent = client.publish(message, lifetime=left if 0.0 < left < math.inf else left_of(call.end))
                    client.is_full = not sent
                    call.is_over = True
                    self._ended(call, message, sent)
                    self._calls.pop(call.key, None)
                    return wire.serving.reset(token)
                make = partial(_given, made)
            except BaseException as error:  # SystemExit too, with which Python ends a thread in silence
                make = partial(_raise, error)
        try:
            self._answer(call, IN_THREAD, make).send(None)
        except StopIteration:  # a coroutine of a thread is never suspended
            wire.serving.reset(token)
        return None

    async def _answer(self, call: _Call, way: InThread, make: Callable[[Any], Any]) -> None:
        """Serve a call, and count how it ends. `make`: the handler, or what gives what it has made."""
        try:
            try:
                if call.refusal is not None:
                    raise call.refusal
                made = make(call.value)
                if hasattr(made, way.step):
                    return await self._stream(call, made, way)
                if way is IN_LOOP:
                    made = await made
                message = *call.key, LAST, "", self._packed(made)
                sent = await self._send(call, message, way)
            except BaseException as error:  # SystemExit too, with which Python ends a thread in silence
                if way is IN_LOOP and isinstance(error, asyncio.CancelledError) and self._fate(call):
                    raise
                message = self._failure(call, error)
                sent = await self._send(call, message, way)
            self._ended(call, message, sent)
        except BaseException as error:
            if way is IN_LOOP and isinstance(error, asyncio.CancelledError):
                raise  # its task is cancelled, which counts it when it ends
            if not self._stopped.is_set():
                log.exception("service %r: a call has ended, and its client is not told", self.name)
            self._add("failed")
        finally:
            call.is_over = True
            self._calls.pop(call.key, None)

    async def _stream(self, call: _Call, steps: Any, way: InThread) -> None:
        was_sent, fate, message = True, "", (*call.key, LAST, "", None)
        try:
            while was_sent and not fate:
                try:
                    value = next(steps) if way is IN_THREAD else await anext(steps)
                except (StopIteration, StopAsyncIteration):
                    break
                message = *call.key, 0, "", self._packed(value)
                was_sent = await self._send(call, message, way)
                if way is IN_THREAD:
                    self._look_between()
                fate = self._fate(call)
        finally:
            if way is IN_THREAD:
                getattr(steps, "close", bool)()
            else:
                await getattr(steps, "aclose", partial(asyncio.sleep, 0))()
        if not was_sent:
            return self._ended(call, message, False)
        if fate:
            return self._add(fate)
        message = *call.key, LAST, "", None
        return self._ended(call, message, await self._send(call, message, way))

    async def _send(self, call: _Call, message: Message, way: InThread) -> bool:
        """False: nobody reads it, or there is no room. Errors of a value that cannot travel."""
        client, until = call.client, min(call.end, monotonic() + MEET_S)
        while not client.has_met and monotonic() < until and not client.is_there():
            await way.sleep(LOOK_S)
        client.has_met = client.has_met or client.is_there()
        if client.is_full or client.owed:
            sent = client.publisher._try(0.0, message, lifetime=left_of(call.end)) is True
        else:
            sent = await way.publish(client.publisher, message, call.end)
        client.is_full = not sent
        return sent and client.has_met

    # In threads.

    def _next(self) -> _Call | None:
        """A call to serve, for the thread that has the turn; None: there was none for TICK_S."""
        try:
            self._look()
            call = self._next_waiting() if self._waiting else None
            return call or self._accept(self._requests.receive(TICK_S))
        except TimeoutError:
            return None
        except Exception as error:
            self._note(error)
            self._stopped.wait(TICK_S)
            return None

    def _look_between(self) -> None:
        """Take requests while a generator runs, for there may be cancellations among them."""
        if self._turn.acquire(blocking=False):
            try:
                self._look()
            except Exception as error:
                self._note(error)
            finally:
                self._turn.release()

    # In tasks of an event loop.

    def _add_task(self, work: Coroutine[Any, Any, None], context: Context) -> asyncio.Task[None]:
        assert self._loop is not None
        task = self._loop.create_task(work, name=f"rtmw {self.name}", context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _take_requests(self) -> None:
        """Take requests until the service is closed, which it is when its loop ends: nobody serves them any more."""
        try:
            while not self._stopped.is_set():
                try:
                    found = self._look()
                    if len(self._waiting) >= wire.UNREAD_MOST:
                        await asyncio.sleep(TICK_S)
                    elif not found:
                        await IN_LOOP.arrival(self._requests, TICK_S)
                    self._start()
                except ClosedError:
                    return
                except Exception as error:
                    self._note(error)
                    await asyncio.sleep(TICK_S)
        finally:
            self.close()

    def _start(self) -> None:
        """Serve what waits with the workers that are free."""
        while len(self._calls) - len(self._waiting) < self._workers and not self._stopped.is_set():
            call = self._next_waiting()
            if call is None:
                return
            context = copy_context()
            context.run(wire.serving.set, call)
            call.task = self._add_task(self._answer(call, IN_LOOP, self._handler), context)
            call.task.add_done_callback(partial(self._end_task, call))

    def _end_task(self, call: _Call, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs none of its code."""
        if task.cancelled():
            self._add(self._fate(call) or "cancelled")
        self._calls.pop(call.key, None)
        self._start()


def _serve(of: weakref.ref[Service[Any, Any]], turn: threading.Lock, stopped: threading.Event) -> None:
    """A thread serves calls, until the service is closed or nobody has it any more: one thread waits for a request, the
    others for their turn, and hold no reference to it meanwhile."""
    while not stopped.is_set():
        turn.acquire()  # `with` takes three times as long; no signal's handler runs in these threads
        try:
            service = of()
            call = None if service is None else service._next()
        finally:
            turn.release()
        if service is None:
            return
        if call is not None:
            service._run(call)
        del service, call  # its value is not kept until the next one comes


def _given(made: Any, _: object) -> Any:
    return made


def _raise(error: BaseException, _: object) -> None:
    raise error


def _told(error: BaseException) -> str:
    """Type and text of an error, made such that they travel, whatever its class does and however long they are."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception as other:
        text = f"{type(error).__name__}, whose text is none: {type(other).__name__}"
    cut = f" … ({len(text)} characters; the log of the server has all)" if len(text) > _ERROR_MOST else ""
    return f"{text[:_ERROR_MOST]}{cut}".encode("utf-8", "replace").decode()


def _running_loop(handler: object) -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise TypeError(
            f"{handler!r} is async, and runs in tasks of an event loop, but none runs here; open the Service in a "
            "coroutine, or give it a function that is not async"
        ) from None
