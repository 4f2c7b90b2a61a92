"""A program's sessions with the nodes of a replicated log: requests to the master, whoever it is, and their answers.

    program's threads and loops ── begin ──► requests of a turn ──► master      (this module's thread and loop)
                                ◄── woken ── answers of a turn  ◄──
    a reader                    ◄── frames ─ FedReader ◄────────── any node

The program has a session with each node that it names, and each tells whom it takes for the master, in which epoch. The
highest epoch counts. What has no answer is sent to a new master again, in its order, with the same ids and the same
`since`: so nothing is appended twice (rule 11 of docs/design/replication.md).
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import uvloop

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.durable_log.log import PersistQueue
from rtmw.errors import (
    ClosedError,
    ForkedError,
    LogDamaged,
    LogError,
    LogFailed,
    LogFull,
    LogLocked,
    NotPermitted,
    SessionError,
)
from rtmw.log import Label, Reader, Watch
from rtmw.net.session.carrier import Carrier
from rtmw.net.session.hello import Hello, Terms
from rtmw.net.session.session import Session
from rtmw.net.session.sockets import Backoff
from rtmw.replica import requests as r
from rtmw.replica.requests import Ask, Heard, Refusal, Welcome
from rtmw.replica.words import Reply
from rtmw.waiting import Asleep, Signal, Waiting

if TYPE_CHECKING:
    from rtmw.net.security.identity import Identity
    from rtmw.net.session.session import Stream

__all__ = ["Call", "Connection", "FedReader", "Way", "error_of"]

OPEN_MOST: Final = 4096
OPEN_BYTES: Final = 32 << 20
"""Requests without an answer, and their bytes; beyond either an append waits."""
LEASE_S: Final = 3.0
"""Readers leave a node of which nothing is heard for so long; appends leave it as soon as another one is master."""
AGAIN_S: Final = 0.05
"""A node that cannot tell is asked again after so long, if there is no news."""
AGAIN_LONGEST_S: Final = 0.2
"""And after so long, at most, if it cannot tell again and again."""
LOOK_S: Final = 0.1
LONGEST_S: Final = 0.5
"""Between two tries to reach a node, at most."""
CLOSE_S: Final = 5.0
"""`close` waits so long for answers."""
AHEAD: Final = 2 << 20
"""Bytes that a reader fetches ahead."""
CREDIT: Final = 256 << 20
"""Bytes of all streams of a session that may come unread, as many as all its streams together may have: readers that
their program leaves alone keep no answer from coming."""


class Call:
    """A request, from its beginning to its answer."""

    __slots__ = (
        *("begun", "data", "future", "goes_anywhere", "heard", "id", "labels", "link", "records", "since", "ticket"),
        *("until", "waiter", "was_resent", "was_sent"),
    )

    def __init__(self, ticket: int, data: bytes, records: int = 0, goes_anywhere: bool = False) -> None:
        self.ticket, self.data, self.records, self.goes_anywhere = ticket, data, records, goes_anywhere
        self.heard: Heard | None = None
        self.link: Link | None = None
        self.was_sent = self.was_resent = False
        self.waiter: Asleep | None = None
        self.future: asyncio.Future[None] | None = None
        """One of the two; `until`: when the future ends without an answer."""
        self.begun = self.until = 0.0
        self.id: Label | None = None
        self.labels, self.since = b"", 0
        """What an append is found by."""


class Link:
    """A session with one node, and the stream of requests in it."""

    def __init__(self, place: str, session: Session, stream: Stream) -> None:
        self.place, self.session, self.stream = place, session, stream
        self.welcome: Welcome | None = None
        self.epoch, self.master = 0, ""
        self.out = list[Call]()
        """Requests that wait until the stream is not behind; another node may get them yet."""
        stream.on_room = self.write

    def write(self) -> None:
        if self.out and not self.stream.is_behind:
            out, self.out = self.out, []
            with suppress(SessionError):  # it is over: they are sent again in another one
                self.stream.put(b"".join([call.data for call in out]))

    @property
    def node(self) -> str:
        return "" if self.welcome is None else self.welcome.node


@dataclass(frozen=True)
class Way:
    """Where the nodes are, and how they are reached."""

    places: tuple[str, ...]
    keys: Path | None = None
    insecure: bool = False

    def identity(self) -> Identity | None:
        if self.keys is None:
            return None
        from rtmw.net.security.identity import Identity  # a program without TLS needs no package for it

        return Identity.load(self.keys)


class Connection(Closing):
    """Any thread and any event loop, but for what says otherwise. One thread of its own."""

    def __init__(self, name: str, way: Way, timeout: float | None) -> None:
        """The first welcome is there when this returns. Raises SessionError, LogError, NotPermitted, KeysError."""
        self.name, self.way, self.timeout = name, way, timeout
        self.known = 0
        """The highest commit point that a node has told."""
        self.welcome: Welcome | None = None
        self._is_over = self._is_told = False
        self._owner = os.getpid()
        self._lock = threading.Lock()
        """Protects the calls."""
        self._calls: dict[int, Call] = {}
        """Those without an answer, in their order."""
        self._unsent = list[Call]()
        self._bytes = self._appended = self._size = 0
        self._tickets = count()
        self.room, self._began = Signal(), Signal()
        # what follows belongs to the thread of the loop
        self._identity = way.identity()
        self._links = list[Link]()
        self._master: Link | None = None
        self._again = Backoff(AGAIN_S, AGAIN_LONGEST_S)
        """Until all that goes to the master is sent to a node again that could not tell."""
        self._why: dict[str, str] = {}
        """By place: why there is no session with it."""
        self._refused: dict[str, Heard] = {}
        self._fetching = set[asyncio.Task[None]]()
        self._reading: dict[Stream, Link] = {}
        """Streams of readers."""
        self._loop = uvloop.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"rtmw log {name}", daemon=True)
        self._thread.start()
        try:
            self._wait_for_welcome()
        except BaseException:
            self.close()
            raise

    def _wait_for_welcome(self) -> None:
        begun = CLOCK.monotonic()
        self._began.wait(lambda: self.welcome is not None or len(self._refused) == len(self.way.places), self.timeout)
        if self.welcome is not None:
            return
        said = sorted(self._refused.values(), key=lambda heard: heard.position == Refusal.NO_LOG)
        if said and (said[0].position != Refusal.NO_LOG or len(said) == len(self.way.places)):
            raise error_of(self.name, said[0])  # one of a node that has the log, or of all: others may be its members
        waited = CLOCK.monotonic() - begun
        raise SessionError(f"log {self.name}: no node of it was reached within {waited:.3g} s: {self._state()}")

    def _state(self) -> str:
        """How it is with each node, for people."""
        told = {place: "no answer" for place in self.way.places} | self._why
        links = list(self._links)
        told |= {one.place: f"connected, it takes {one.master or 'nobody'} for the master" for one in links}
        unnamed = {one.master for one in links} - {one.node for one in links} - {""}
        more = [f"name the place of {', '.join(sorted(unnamed))}, too"] if unnamed and len(links) == len(told) else []
        return "; ".join([f"{place}: {words}" for place, words in told.items()] + more)

    # ---- the program's threads and loops ----

    def ticket(self) -> int:
        """The number of a new call."""
        return next(self._tickets) % 0xFFFFFFFF + 1

    def check(self) -> None:
        if self._owner != os.getpid():
            raise ForkedError(f"log {self.name}: connected by the parent of this process; connect in this one, too")
        if self._is_over:
            raise ClosedError(f"log {self.name}: used after close()")

    @property
    def is_full(self) -> bool:
        """An append waits until `room` tells. After close(), and in a child of fork, nothing waits: it is refused."""
        is_full = len(self._calls) >= OPEN_MOST or self._bytes >= OPEN_BYTES
        return is_full and not self._is_over and self._owner == os.getpid()

    def submit(self, call: Call) -> None:
        """Puts a call on its way; the caller has set who waits for it."""
        self.check()
        call.heard = None
        with self._lock:
            self._calls[call.ticket] = call
            self._unsent.append(call)
            self._bytes += len(call.data)
            self._appended += call.records
            self._size += len(call.data) if call.records else 0
            tell, self._is_told = not self._is_told, True
        if tell:
            try:
                self._loop.call_soon_threadsafe(self._flush)
            except RuntimeError:  # closed meanwhile
                self.check()
                raise

    def wait(self, call: Call, timeout: float | None) -> Heard:
        """Submits a call, and waits for its answer in this thread. TimeoutError."""
        timeout = self.timeout if timeout is None else timeout
        begun = call.begun = CLOCK.monotonic()
        if self.is_full and not self.room.wait(lambda: not self.is_full, timeout):
            raise self._late(call)
        waiter = call.waiter = Asleep()
        self.submit(call)
        waiter.wait(None if timeout is None else timeout - (CLOCK.monotonic() - begun))
        return call.heard or self._give_up(call)

    async def wait_async(self, call: Call) -> Heard:
        """Submits a call, and waits for its answer in an event loop, which runs meanwhile. TimeoutError."""
        begun = call.begun = CLOCK.monotonic()
        if self.is_full and not await self.room.reached(lambda: not self.is_full, self.timeout):
            raise self._late(call)
        call.until = begun + self.timeout if self.timeout is not None else float("inf")
        future = call.future = asyncio.get_running_loop().create_future()
        self.submit(call)
        await future
        return call.heard or self._give_up(call)

    def _give_up(self, call: Call) -> Heard:
        with self._lock:
            if self._calls.pop(call.ticket, None) is not None:
                self._bytes -= len(call.data)
        if call.heard is not None:  # just now
            return call.heard
        raise self._late(call)

    def _late(self, call: Call) -> Exception:
        outcome = "the outcome is unknown" if call.was_sent else "nothing was sent"
        if self._is_over:
            return LogFailed(f"log {self.name}: closed before an answer came; {outcome}", 0, 0)
        waited = CLOCK.monotonic() - call.begun
        return TimeoutError(f"log {self.name}: no answer within {waited:.3g} s, {outcome}: {self._state()}")

    def ask(self, ask: Ask, body: bytes = b"", *, anywhere: bool = False, timeout: float | None = None) -> Heard:
        """A request and its answer, DONE or one of RESOLVE. Raises what the node refuses with, and TimeoutError."""
        ticket = self.ticket()
        call = Call(ticket, r.pack_request(ask, ticket, self.known, body), 0, anywhere)
        heard = self.wait(call, timeout)
        if heard.reply in (Reply.REFUSED, Reply.FULL):
            raise error_of(self.name, heard)
        return heard

    def counted(self) -> tuple[int, int, PersistQueue]:
        """Records and bytes that were appended, and what has no answer."""
        with self._lock:
            oldest = next((call.begun for call in self._calls.values()), CLOCK.monotonic())
            waiting = PersistQueue(len(self._calls), self._bytes, CLOCK.monotonic() - oldest)
            return self._appended, self._size, waiting

    def close(self) -> None:
        """Waits for answers, a few seconds at most, and ends the sessions."""
        if self._is_over or self._owner != os.getpid():
            return
        is_within = threading.current_thread() is self._thread  # which has collected a log that nobody closed
        if not is_within and self.welcome is not None:
            self.room.wait(lambda: not self._calls, CLOSE_S)
        self._is_over = True
        self.soon(self._stopping.set)
        if not is_within:
            self._thread.join()

    def soon(self, call: Callable[..., object], *arguments: object) -> None:
        """The thread of the loop calls this, unless it has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    # ---- the thread of the loop ----

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # which ends tries of addresses, too
            try:
                runner.run(self._serve())
            finally:
                self._is_over = True
                self._finish(list(self._calls.values()))
                self._began.notify(all=True)
                self.room.notify(all=True)

    async def _serve(self) -> None:
        program = f"{os.path.basename(sys.argv[0])[:60]} {os.getpid()}".replace(",", " ")
        hello = Hello(uuid4(), CLOCK.wall_ns(), capabilities=frozenset({r.CAPABILITY, f"program={program}"}))
        terms = Terms(lease=LEASE_S, session_credit=CREDIT, ack_delay=r.ACK_DELAY_S)
        async with Carrier(
            hello.node, identity=self._identity, insecure=self.way.insecure, terms=terms, hello=hello
        ) as carrier:
            works = [self._loop.create_task(self._keep(carrier, place)) for place in self.way.places]
            works.append(self._loop.create_task(self._look()))
            await self._stopping.wait()
            for work in (*works, *self._fetching):
                work.cancel()
            await asyncio.gather(*works, *self._fetching, return_exceptions=True)

    async def _look(self) -> None:
        """Ends calls of event loops whose time is over."""
        while True:
            await asyncio.sleep(LOOK_S)
            now = CLOCK.monotonic()
            with self._lock:
                late = [call for call in self._calls.values() if call.future is not None and call.until < now]
            self._finish(late)

    def _finish(self, calls: list[Call]) -> None:
        done = Waiting()
        for call in calls:
            _wake(done, call)
        done.wake()

    async def _keep(self, carrier: Carrier, place: str) -> None:
        """A session with the node of this place, again and again."""
        backoff = Backoff(longest=LONGEST_S)
        async for _ in backoff:
            try:
                session = await carrier.connect_to(place)
                await self._carry(Link(place, session, session.open(r.log_purpose(self.name))), backoff)
            except (SessionError, ValueError) as error:
                self._why[place] = str(error).removeprefix(f"{place}: ")

    async def _carry(self, link: Link, backoff: Backoff) -> None:
        splitter = r.answer_splitter()
        self._links.append(link)
        try:
            while data := await link.stream.read():
                self._hear(link, r.answers_in(splitter, data))
                if link.welcome is not None:
                    backoff.reset()
            self._why.setdefault(link.place, "the node ended the stream")
        finally:
            link.session.close()
            self._links.remove(link)
            self._choose()
            self._send([call for call in list(self._calls.values()) if call.link is link and call.goes_anywhere])

    def _flush(self) -> None:
        with self._lock:
            calls, self._unsent = self._unsent, []
            self._is_told = False
        self._send(calls)

    def _send(self, calls: Iterable[Call]) -> None:
        """What goes to the master waits for one."""
        master = self._master
        some = master or next((link for link in self._links if link.welcome), None)
        with self._lock:  # who gives a call up knows whether it was sent
            for call in calls:
                link = call.link = some if call.goes_anywhere else master
                if link is not None and call.ticket in self._calls:
                    call.was_sent, call.was_resent = True, call.was_sent
                    link.out.append(call)
        for link in (master, some):
            if link is not None:
                link.write()

    def _hear(self, link: Link, answers: list[Heard]) -> None:
        done, was_full, others = Waiting(), self.is_full, list[Heard]()
        with self._lock:
            for heard in answers:
                if heard.commit > self.known:
                    self.known = heard.commit
                if not heard.ticket or heard.reply is Reply.MOVED:
                    others.append(heard)
                    continue
                call = self._calls.pop(heard.ticket, None)
                if call is not None:
                    if not call.goes_anywhere:
                        self._again.reset()
                    self._bytes -= len(call.data)
                    call.heard = heard
                    _wake(done, call)
        done.wake()
        if was_full or not self._calls:
            self.room.notify()
        for heard in others:
            if not heard.ticket:
                self._told(link, heard)
            elif heard.ticket in self._calls:
                self._moved(link, heard)

    def _told(self, link: Link, heard: Heard) -> None:
        """A welcome, news, or a refusal."""
        if heard.reply is Reply.REFUSED:
            self._refused[link.place] = heard
            self._why[link.place] = heard.words.decode()
        elif link.welcome is None:
            welcome = Welcome.read(heard.words)
            if self.welcome is not None and welcome.uuid != self.welcome.uuid:
                raise ValueError(f"node {welcome.node} has another log of this name, with uuid {welcome.uuid.hex()}")
            link.welcome = self.welcome = welcome
            self._why.pop(link.place, None)
            self._refused.pop(link.place, None)
            link.epoch, link.master = welcome.epoch, welcome.master
            self._send([call for call in list(self._calls.values()) if call.goes_anywhere and call.link is None])
        else:
            link.epoch, link.master = heard.position, heard.words.decode()
        self._began.notify()
        self._choose()

    def _moved(self, link: Link, heard: Heard) -> None:
        """The node cannot tell: after a moment, or with news, all goes out again."""
        if link is self._master:
            self._master = None
            link.master = heard.words.decode() or link.master
            self._loop.call_later(self._again.seconds(), self._choose_again, link)

    def _choose_again(self, link: Link) -> None:
        """Not before the node has taken all of the last time: what is sent again is here once."""
        if link in self._links and (link.out or link.stream.is_behind):
            self._loop.call_later(AGAIN_S, self._choose_again, link)
        else:
            self._choose()

    def _choose(self) -> None:
        """The master is whom the node with the highest epoch takes for it."""
        told = max((link for link in self._links if link.master), key=lambda link: link.epoch, default=None)
        master = next((link for link in self._links if told is not None and link.node == told.master), None)
        if master is self._master:
            return
        self._master = master
        for link in self._links:  # what lies there goes to the new master
            link.out = [call for call in link.out if call.goes_anywhere]
        if master is not None:
            for stream in [one for one, link in self._reading.items() if link is not master]:
                stream.reset("another node is the master")  # the old one may be cut off, and hear of nothing
            with self._lock:
                calls = [call for call in self._calls.values() if not call.goes_anywhere]
                self._unsent = [call for call in self._unsent if call.goes_anywhere]
            self._send(calls)

    # ---- readers ----

    def fetch(self, reader: FedReader) -> None:
        task = reader.task = self._loop.create_task(self._fetch(reader))
        self._fetching.add(task)
        task.add_done_callback(self._fetching.discard)

    async def _fetch(self, reader: FedReader) -> None:
        """From one node after another, until the limit, or what no node will say otherwise."""
        try:
            async for _ in Backoff(longest=LONGEST_S):
                ready = [link for link in self._links if link.welcome and link.session.is_connected]
                link = self._master if self._master in ready else next(iter(ready), None)
                others = [link for link in ready if link.place not in reader.refused]
                if link is not None and others:
                    await self._fetch_from(link if link in others else others[0], reader)
                if reader.came >= reader.limit or reader.error is not None:
                    return
        finally:
            reader.watch.tell()

    async def _fetch_from(self, link: Link, reader: FedReader) -> None:
        splitter = r.Splitter(r.RAW, r.LARGEST_RAW)
        with suppress(SessionError, ValueError):
            stream = link.session.open(r.read_purpose(self.name, reader.came, reader.limit))
            self._reading[stream] = link
            try:
                while parts := await stream.read_parts():
                    for part in parts:
                        for (_, why), data in splitter.feed(part):
                            if why:
                                self._fetch_refused(link, reader, why, data)
                                return
                            reader.put(data)
                            reader.refused.clear()
                    while reader.ahead > AHEAD:
                        reader.has_room.clear()
                        await reader.has_room.wait()
            finally:
                del self._reading[stream]
                stream.reset()

    def _fetch_refused(self, link: Link, reader: FedReader, why: int, words: bytes) -> None:
        reader.refused.add(link.place)
        is_final = why in (Refusal.NO_RIGHT, Refusal.TRIMMED, Refusal.NO_RECORD)
        if is_final or reader.refused.issuperset(self.way.places):
            reader.error = error_of(self.name, Heard(Reply.REFUSED, 0, why, 0, words))


class FedReader:
    """The reader in C over bytes that come from nodes, as Reader, but for what only files have. The thread of the loop
    puts bytes in, that of the program takes them."""

    def __init__(self, net: Connection, position: int, limit: int, watch: Watch) -> None:
        self._net, self.limit, self.watch = net, limit, watch
        self.error: Exception | None = None
        self.refused = set[str]()
        self.has_room = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._frames = deque[bytes]()
        self._has_begun = False
        self._begin(position)

    def _begin(self, position: int) -> None:
        welcome = self._net.welcome
        assert welcome is not None
        self.came = self._taken = position
        """All below `came` has come; it is a bound of batches, so another node goes on there."""
        self._core = Reader(f"log {self._net.name}", -1, welcome.uuid, position)

    @property
    def position(self) -> int:
        return self._core.position

    def seek_time(self, time_ns: int, limit: int) -> None:
        self._begin(self._net.ask(Ask.SEEK, r.PLACE.pack(time_ns), anywhere=True).position)

    def take(self, *arguments: Any) -> Any:
        return self._of_what_came(self._core.take, arguments)

    def run(self, *arguments: Any) -> Any:
        return self._of_what_came(self._core.run, arguments)

    def _of_what_came(self, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """What is made of bytes that have come; nothing, if too few have. Raises why there never will be more."""
        if not self._has_begun and self.position < self.limit:
            self._has_begun = True
            self._net.soon(self._net.fetch, self)
        while not (made := make(*arguments)) and self._frames:
            data = self._frames.popleft()
            self._taken += len(data)
            self._core.feed(data)
            self._net.soon(self.has_room.set)
        if not made and self.error is not None:
            raise self.error
        return made

    def put(self, data: bytes) -> None:
        self._frames.append(data)
        self.came += len(data)
        self.watch.tell()

    @property
    def ahead(self) -> int:
        """Bytes that have come and were not taken."""
        return self.came - self._taken

    def close(self) -> None:
        self._net.soon(lambda: self.task is not None and self.task.cancel())
        self._core.close()


def _wake(done: Waiting, call: Call) -> None:
    if call.waiter is not None:
        done.threads.append(call.waiter)
    elif call.future is not None:
        done.tasks[call.future.get_loop()].append(call.future)


_ERRORS: Final[dict[int, type[Exception]]] = {
    Refusal.NO_RIGHT: NotPermitted,
    Refusal.NO_RECORD: ValueError,
    Refusal.LOCKED: LogLocked,
}


def error_of(name: str, heard: Heard) -> Exception:
    """Why a node refuses, as the error of a local log would say it."""
    words = heard.words.decode("utf-8", "replace")
    match heard.reply:
        case Reply.FULL:
            return LogFull(words or f"log {name}: the disks of its nodes have no room. Nothing was appended")
        case Reply.UNKNOWABLE:
            return LogFailed(
                f"log {name}: whether this was appended cannot be known any more: so many records with ids came since "
                "that the nodes do not remember its id. It was not appended again"
            )
        case Reply.TAKEN:
            return LogError(
                f"log {name}: the record at position {heard.position} has this id, and other data or another key, or "
                "is the mark that no record with it shall come. Nothing was appended. An id means one record: append "
                "with a new one, or without"
            )
        case _ if heard.position == Refusal.DAMAGED:
            return LogDamaged(words, f"log {name}")
        case _:
            return _ERRORS.get(heard.position, LogError)(words)
