"""The server of a relay: sockets, a clock and a record around `Machine`. One event loop, and no thread but the log's.

    connection ── frame ──► Machine ── rows ──► Store.append ── sync ──► its calls ──► connections

What a step says leaves once its rows are durable: all that came meanwhile shares the next sync. The first bytes of a
connection say which format it has. An agent that has a place of its own may be silent for ever; then HUSH_S decides.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import rtmw
from rtmw.clock import CLOCK
from rtmw.domain import NO_DOMAIN
from rtmw.net.link.places import Listening
from rtmw.net.process import NodeError
from rtmw.net.security import KeysError, NotTrusted
from rtmw.net.security.names import is_user
from rtmw.net.session.errors import in_words
from rtmw.net.session.sockets import PENDING, Backoff, Door, Guest, carry, reach, ready, tune, user_of
from rtmw.relay.frame import (
    ANSWERED,
    HEAD_ROW,
    LEASE_S,
    LINGER_S,
    LONGEST_DATA,
    MAGIC,
    SIZE_OF_HELLO,
    Form,
    Frame,
    FrameError,
    Hello,
    Kind,
    OwnSplitter,
    Packet,
    Splitter,
    Stamps,
    Welcome,
    encode,
    frame_of,
    kind_of,
    readable,
)
from rtmw.relay.machine import Machine, Seldom
from rtmw.relay.operation import SOCKET, Operation, Question
from rtmw.relay.policy import Policy
from rtmw.relay.rows import Row
from rtmw.relay.seals import HEAD_COMMAND, SEAL_ROWS, Sealer, words
from rtmw.relay.settings import TLS_BEGINS, Agent, Relay, advice, differences
from rtmw.relay.store import Store
from rtmw.text.addresses import UNIX, is_loopback
from rtmw.text.daemon_log import of_user
from rtmw.text.units import counted

if TYPE_CHECKING:
    from ssl import SSLContext

    from rtmw.net.security.identity import Peer

log = logging.getLogger("rtmw.relay")

ALARM_COMMAND: Final = b"A"
"""The command of an order that tells an agent of an alarm."""
LATE: Final = ("listen", "t1", "n1", "form", "checksum")
"""The places, for how long outcomes are known, and what connections that are there speak."""
_LOOK_S: Final = 1.0
_REACH_S: Final = 3.0
_REDIAL_S: Final = 1.0
"""Seconds between two connections to one agent, which may end each at once."""
_DIAL_FIRST_S, _DIAL_MOST_S = 0.2, 5.0
REFUSED_S: Final = 60.0
"""For so long the log does not say again that a connection of the same one is closed for the same reason."""
BAD_MOST: Final = 16
"""Places with no frame, after which a connection is closed."""
SILENT_S: Final = 30.0
"""A connection that has not said whose it is, where that is not known by its place, is closed."""
HUSH_S: Final = 0.25
"""Who speaks first does so by then; an agent that has a place of its own and says nothing takes frames of the paper."""
HANDSHAKE_S: Final = 3.0
UNSENT_MOST: Final = 1 << 20
"""Bytes that wait, beside one order, for an agent which does not read; it is closed beyond them."""
BEHIND: Final = 768 << 10
"""Bytes that wait, from which on no order is sent once more."""
STRANGE: Final = "no agent of the settings connects from there"
TURN: Final = 64
"""Frames that are heard before other connections, timers and signals have their turn."""
_NUMBERS: Final = count(1)


class Server:
    """A relay, from `run` until `stopping` is set. Not for several threads."""

    def __init__(self, folder: Path, relay: Relay, domain: int = NO_DOMAIN) -> None:
        """Raises LogError and its kind, NodeError where it cannot listen, KeysError, OSError."""
        self.policy, self.stopping = Policy(relay), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._take(relay)
        gc.disable()  # what is made of rows is kept: to look through it for garbage takes half of a start
        try:
            self.store = Store(folder, 2 * relay.t1 * (relay.n1 + 1), relay.keep)
            self.machine = Machine(self.policy, self.store.state, Stamps(), self)
            self.machine.time(CLOCK.monotonic(), CLOCK.wall_ns())
            self.machine.begin()
        finally:
            gc.enable()
        self._sealer = Sealer(relay.keys)
        self.operation = Operation(self, domain)
        self._failure: Exception | None = None
        self.connections: dict[int, Connection] = {}
        self._refused = Seldom[tuple[str, str]](REFUSED_S)
        """By whose a connection was, and why it was closed."""
        self._heard: list[tuple[int, list[Packet]]] = []
        """The frames of this turn of the loop, by connection, which share a step."""
        self._waiting: list[partial[None]] = []
        """What is to be called once the rows before are durable."""
        self._is_due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        """By the clock of the machine; infinity: none is set."""
        self._seal_from = SEAL_ROWS
        """Rows without a seal, from which on they get one."""
        self._dials: set[str] = set()
        """Agents that are being dialled; and when each was reached last."""
        self._dialled: dict[str, float] = {}
        self._doors: dict[str, tuple[Listening, Door, partial[None]]] = {}
        """By place; with what opens it again."""

    async def run(self) -> None:
        """Raises LogFailed and LogFull: the next process has the state from the record."""
        loop = asyncio.get_running_loop()
        try:
            self._listen()
            self.step(self.machine.tick)
            self.step(self.machine.obeyed)  # what waits for agents that are dialled
            work = (self._sync(), self._look(), self._check_point(), self.stopping.wait())
            tasks: list[asyncio.Task[Any]] = [loop.create_task(one) for one in work]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if self._failure is not None:
                    raise self._failure
            finally:
                tasks += self._tasks
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            if self.store.rows and self._failure is None:  # else the next start reads them again
                self._try_seal()
                await self._try_checkpoint()
        finally:
            self.close()

    def _listen(self) -> None:
        """A relay that cannot have the socket of operators goes on, and says so."""
        for place in dict.fromkeys(self.policy.relay.listen):
            self._open(place, partial(Connection, self))
        ports = ((place, listening.port) for place, (listening, *_) in self._doors.items())
        places = [f"{place.rpartition(':')[0]}:{port}" if port else place for place, port in ports]
        try:
            place = f"{UNIX}{self.store.folder / SOCKET}"
            self._open(place, partial(Question, self.operation), "the socket of operators")
        except NodeError as error:
            log.warning("no operator can ask or act: %s", error)
        open, orphans = len(self.store.state.open), self.store.state.orphans
        known = f"{counted(open, 'open order')}" if self.store.state.numbered else "empty"
        log.info("relay at %s, record in %s: %s", ", ".join(places), self.store.folder, known)
        self._advise()
        if orphans:
            log.warning("%s of the record are about orders that it does not have", counted(orphans, "row"))

    def _open(self, place: str, guest: Callable[[socket.socket, str], Guest], setting: str = "[relay] listen") -> None:
        listening = Listening(place, setting)
        door = Door(asyncio.get_running_loop(), listening.socket, Counter(), guest, PENDING)
        self._doors[place] = listening, door, partial(self._open, place, guest, setting)

    def _look_at_places(self) -> None:
        """A socket whose file was removed is reached by nobody: there is another one in its place."""
        for place, (listening, door, open_again) in [*self._doors.items()]:
            if not listening.is_there:
                is_news = listening.socket.fileno() >= 0
                door.close()
                listening.close()
                try:
                    open_again()
                    log.warning("%s was removed, and is there again", place)
                except NodeError as error:  # at each look again: its folder may be back by then
                    if is_news:
                        log.warning("it was removed: %s", error)

    def _advise(self) -> None:
        for what, mend in advice(self.policy.relay).items():
            log.warning("%s: %s", what, mend)

    def close(self) -> None:
        """What is open goes on with the next process."""
        if self._timer is not None:
            self._timer.cancel()
        self.operation.close()
        for listening, door, _ in self._doors.values():
            door.close()
            listening.close()
        for connection in list(self.connections.values()):
            connection.close()
        self.store.close()

    def obey(self, relay: Relay) -> None:
        """Other settings; those of LATE hold until it starts anew. Raises KeysError, and then nothing changes."""
        self._take(relay)
        changed = differences(self.policy.relay, relay)
        log.info("relay settings that are others: %s", ", ".join(changed) or "none")
        if late := [name for name in changed if name in LATE]:
            log.warning("%s: takes effect when the relay is started again", ", ".join(late))
        self.policy.obey(relay)
        self.store.keep, self._sealer = relay.keep, Sealer(relay.keys)
        self._advise()
        self.step(self.machine.obeyed)

    # ---- steps ----

    def step(self, event: Callable[..., None] | None, *given: object) -> None:
        """What has come, and then an event of the machine, if any: their rows go to the record together."""
        if self._failure is not None:
            return
        try:
            heard, self._heard = self._heard, []
            self.machine.time(CLOCK.monotonic(), CLOCK.wall_ns())
            for number, packets in heard:
                for packet in packets:
                    self.machine.arrived(number, packet)
            if event is not None:
                event(*given)
            rows, calls = self.machine.done()
            if rows:
                self.store.append(rows)
        except Exception as error:
            self._failure = error  # the state may be ahead of the record: the next process reads that
            self.stopping.set()
            return
        self._waiting += calls
        if rows or calls:
            self._is_due.set()
        self._set_timer()

    def _set_timer(self) -> None:
        """A timer that is set for earlier stays: it finds nothing to do. One that is set for later is cancelled: the
        loop would keep it as long as an order may be kept, and another one each time."""
        due = self.machine.due
        if due < self._timer_due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due = due
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - CLOCK.monotonic()), self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_due = None, math.inf
        self.step(self.machine.tick)

    async def _sync(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            calls, self._waiting = self._waiting, []
            await self.store.sync()
            for call in calls:
                call()
            if self.store.unsealed >= self._seal_from:
                self._try_seal()

    async def _look(self) -> None:
        said = ""
        while True:
            self.store.check()
            self.step(self.machine.look, self.store.lacks_room())
            if said != (said := self.machine.full):
                log.warning("%s", said or "there is room again")
            self._look_at_peers()
            self._look_at_places()
            self.operation.say()
            await asyncio.sleep(_LOOK_S)
            self._look_at_seals()

    def _look_at_seals(self) -> None:
        """There is one a second, behind the next sync; then its head is sent."""
        row, self.store.untold = self.store.untold, None
        if row is not None and self.policy.relay.seal_to:
            self.step(self.machine.own, self.policy.relay.seal_to, HEAD_COMMAND, words(row))
        self._seal_from = 1
        self._is_due.set()

    def _try_seal(self) -> None:
        self._seal_from = SEAL_ROWS
        try:
            if self._failure is None:
                self.store.seal(self._sealer)
        except (rtmw.LogFull, rtmw.LogDamaged) as error:
            log.warning("the record has no new seal: %s", error)

    async def _check_point(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self.store.needs_checkpoint:
                await self._try_checkpoint()

    async def _try_checkpoint(self) -> None:
        try:
            await self.store.checkpoint()
        except (OSError, rtmw.LogFull) as error:
            log.warning("the record has no new checkpoint: %s", error)

    # ---- what the machine says, once its rows are durable ----

    def forward(self, connection: int, order: int, recipient: str) -> None:
        to = self.connections.get(connection)
        if to is None or to.unsent >= BEHIND or not self.machine.is_wanted(order, recipient):
            return
        found = self.store.state.open[order]
        try:
            to.send(frame_of(found.head, self.store.body(found)), None, found.priority, found.lifetime)
        except FrameError as error:
            self.step(self.machine.unsent, order, recipient, str(error))

    def say(self, connection: int, frame: Frame, kind: Kind) -> None:
        if (to := self.connections.get(connection)) is not None:
            to.send(frame, kind)

    def end(self, connection: int, words: str) -> None:
        if (found := self.connections.get(connection)) is not None:
            self.refuse(found, words)

    def alarm(self, row: Row) -> None:
        about = f"{row.source}: {row.cause}" if row.source else row.cause
        log.warning("alarm: %s", about)
        self.operation.tell(row)
        if to := self.policy.relay.alarms_to:
            self.step(self.machine.own, to, ALARM_COMMAND, f"alarm: {about}".encode())

    def keep(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Runs work in a task until it is done, or the server ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- certificates ----

    def _take(self, relay: Relay) -> None:
        """Its keys, for whoever listens, and for whoever connects. Raises KeysError, and NotInstalled where there is no
        library for them."""
        tls = None
        if relay.keys is not None:
            from rtmw.net.security.identity import Identity

            try:
                identity = Identity.load(relay.keys, relay.revoked)
            except KeysError as error:
                raise KeysError(f"[relay] keys: {error}") from None
            tls = identity.server_context(), identity.client_context()
            self.identity = identity  # a handshake may end when there are no keys any more
        self.tls = tls

    def _look_at_peers(self) -> None:
        """Certificates expire, and are revoked."""
        for connection in list(self.connections.values()):
            if connection.peer is not None:
                fault = self.identity.fault(connection.peer) if self.tls else "this relay has no keys"
                if fault is not None:
                    self.refuse(connection, str(fault))

    # ---- connections ----

    def arrived(self, number: int, heard: list[Packet]) -> None:
        """What came by a connection."""
        if self.stopping.is_set():  # sources send again what was not answered
            return
        if not self._heard:
            asyncio.get_running_loop().call_soon(self.step, None)
        self._heard.append((number, heard))

    def lost(self, connection: Connection) -> None:
        del self.connections[connection.number]
        if connection.agent and not self.stopping.is_set():
            self.step(self.machine.gone, connection.number)
        elif connection.dialled and not self.stopping.is_set():  # who answered was another one
            self.dial(connection.dialled)

    def refuse(self, connection: Connection, words: str) -> None:
        """Ends it. The log says why, and of who comes again and again each minute how often."""
        if connection.is_over:
            return
        place = connection.peer.name if connection.peer else connection.address
        whose = f"of {connection.agent}" if connection.agent else f"from {place}"
        about = of_user(connection.address) if is_user(connection.address) else None
        if (more := self._refused.missed((whose, words), CLOCK.monotonic())) is not None:
            since = f" ({more} more times since this was said last)" if more else ""
            log.warning("a connection %s is closed: %s%s", whose, words, since, extra=about)
        connection.close(words)

    def dial(self, name: str) -> None:
        agent = self.policy.agents.get(name)
        if agent is not None and agent.dial and name not in self._dials:
            self._dials.add(name)
            self.keep(self._reach(name)).add_done_callback(lambda _: self._dials.discard(name))

    async def _reach(self, name: str) -> None:
        """Dials an agent until there is a connection, or nothing waits for the agent any more."""
        said = ""
        await asyncio.sleep(self._dialled.get(name, 0.0) + _REDIAL_S - CLOCK.monotonic())
        async for _ in Backoff(_DIAL_FIRST_S, _DIAL_MOST_S):
            agent = self.policy.agents.get(name)  # as a reload may have changed it
            is_wanted = self.store.state.queues[name].waiting and not self.machine.lines[name].connection
            if agent is None or not agent.dial or not is_wanted:
                return
            try:
                async with asyncio.timeout(_REACH_S):
                    sock = await reach(agent.dial)
                self._dialled[name] = CLOCK.monotonic()
                place = agent.dial if sock.family == socket.AF_UNIX else sock.getpeername()[0]
                connection = Connection(self, sock, place, name)
                tls = self.tls[1] if agent.peer and self.tls else None
                await (connection.greet() if tls is None else connection.begin(tls, is_dialler=True))
                return
            except (OSError, TimeoutError) as error:
                words = in_words(error, "")[1]
                if said != (said := words):
                    log.warning("%s at %s is not reached: %s", agent.name, agent.dial, words)


class Connection(asyncio.Protocol):
    """A connection of the relay, which was accepted or dialled. Not for several threads."""

    def __init__(self, server: Server, sock: socket.socket, address: str, dialled: str = "") -> None:
        """`address`: of the host that it comes from. `dialled`: the agent it was made for."""
        self.number = next(_NUMBERS)
        self.address, self.dialled = user_of(sock) if sock.family == socket.AF_UNIX else address, dialled
        """The address is of a host, or a user, `uid:1000`."""
        self.peer: Peer | None = None
        """Who the certificate says the agent is; None: the connection has no TLS."""
        self.agent = ""
        """Empty: nobody knows yet."""
        self.splitter = Splitter(server.policy.relay.checksum, server.policy.relay.form)
        self.is_over = False
        """It is closed, or about to be: nothing more is heard."""
        self._server, self._socket, self._is_taken = server, sock, False
        """Taken: a transport has the socket, and closes it."""
        tune(sock, LEASE_S, is_asked=True)
        self._transport: asyncio.Transport
        """It is there while the server counts this among its connections, and may be asked behind that."""
        self._known = asyncio.Event()
        """It is known whose it is, or it has ended."""
        self._first: bytes | None = b""
        """The byte that it begins with; empty: nothing has come; None: TLS hides it."""
        self._own: OwnSplitter | None = None
        """None: it speaks the frame of the paper, or is not known to do otherwise."""
        self._crc = self._is_own = False
        self._begun: bytes | None = b""
        """What has come, while it may be the beginning of a hello; None: it is none."""
        self._heard: list[Packet] = []
        """What has come, and was not heard."""
        self._unwritten = bytearray()
        """What one turn of the loop has for it, which is written at once."""

    @property
    def unsent(self) -> int:
        """Bytes that its other end has not taken."""
        return len(self._unwritten) + self._transport.get_write_buffer_size()

    @property
    def _form(self) -> Form:
        return self._server.policy.relay.form

    # ---- until it is known whose it is, and how it speaks ----

    async def greet(self) -> None:
        """The door closes those that say nothing, if others come; but for those whose place says who they are."""
        if self._is_of_one:
            self._server.keep(self._enter())
        else:
            await self._enter()

    def over(self) -> None:
        """Closes the connection, unless it was handed on: then the task that has it closes it."""
        if not self._is_taken and not self._is_of_one:
            self._socket.close()

    @property
    def _is_of_one(self) -> bool:
        """Is it known whose it is by its place alone?"""
        return bool(self.dialled) or len(self._server.policy.places.get(self.address, ())) == 1

    async def _enter(self) -> None:
        """Waits until it is known whose the connection is, or it was refused."""
        relay, is_here = self._server.policy.relay, _is_here(self.address)
        try:
            patience = HUSH_S if self._is_of_one and (relay.insecure or is_here) else SILENT_S
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await ready(self._socket.fileno(), "read")
                    self._first = self._socket.recv(1, socket.MSG_PEEK)
            tls = self._server.tls if self._first == bytes((TLS_BEGINS,)) else None
            if tls is None and not (relay.insecure or is_here):
                raise OSError("from beyond this host TLS alone is taken, or insecure = true")
            await self.begin(tls[0] if tls is not None else None)
            async with asyncio.timeout(SILENT_S):
                await self._known.wait()
        except TimeoutError:
            self._server.refuse(self, "it has not said whose it is")
        except OSError as error:
            self._server.refuse(self, in_words(error, "")[1])
        except asyncio.CancelledError:
            if self.number in self._server.connections and not self.agent:
                self._server.refuse(self, "others wait at the door, and it has not said whose it is")
            raise
        finally:
            if not self._is_taken:
                self._socket.close()

    async def begin(self, tls: SSLContext | None, *, is_dialler: bool = False) -> None:
        """A transport takes the socket over. Raises OSError."""
        self._is_taken = True
        self._first, patience = (self._first, None) if tls is None else (None, HANDSHAKE_S)
        await carry(lambda: self, self._socket, tls, is_dialler=is_dialler, patience=patience)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections[self.number] = self
        try:
            if (tls := transport.get_extra_info("ssl_object")) is not None:
                self.peer = self._server.identity.peer_of(tls.getpeercert(binary_form=True))
        except NotTrusted as error:
            self._server.refuse(self, str(error))
            return
        agents = self._candidates()
        if not agents and not self.dialled and self._first in (None, MAGIC[:1]):
            # its hello is heard before it is refused: what is sent before is lost where unread bytes are left
            asyncio.get_running_loop().call_later(HUSH_S, self._server.refuse, self, STRANGE)
        elif not agents:
            self._server.refuse(self, STRANGE)
        elif self._first == b"" and len(agents) == 1:
            self._introduce(b"")

    def _candidates(self) -> dict[bytes, Agent]:
        """The agents that it may be of, by their addresses."""
        peer, policy = self.peer.name if self.peer else "", self._server.policy
        if self.dialled:
            return {one.address: one for one in policy.relay.agents if (one.name, one.peer) == (self.dialled, peer)}
        if not peer:
            return policy.places.get(self.address, {})
        found = (one for one in policy.relay.agents if one.peer == peer and one.origin in ("", self.address))
        return {one.address: one for one in found}

    def _introduce(self, address: bytes, hello: Hello | None = None) -> Agent | None:
        """Whose the connection is: its hello or its first frame has the address, unless, without a hello, its place
        says who it is. None: it is refused."""
        agents = self._candidates()
        agent = agents.get(address) if hello or len(agents) != 1 else next(iter(agents.values()))
        if agent is None or self.agent:
            why = f"its {'hello' if hello else 'first frame'} is of {readable(address)}, who is not there"
            late = "its hello came too late: it was taken for an agent with frames of the paper"
            self._server.refuse(self, STRANGE if not agents else why if agent is None else late)
            return None
        self.agent = agent.name
        self._known.set()
        self._server.step(self._server.machine.connected, self.number, agent.name, hello)
        return agent

    # ---- what comes ----

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        try:
            self._heard += self._divided(data)
        except FrameError as error:
            self._server.refuse(self, str(error))
            return
        self._hear()
        if self.splitter.bad.total() > BAD_MOST:
            causes = ", ".join(f"{number} × {cause}" for cause, number in self.splitter.bad.items())
            self._server.refuse(self, f"what comes is no frames: {causes}")

    def _divided(self, data: bytes) -> list[Packet]:
        """The frames that are whole by now. Raises FrameError for what no agent of this package says."""
        if self._begun is not None:
            data, self._begun = self._begun + data, None
            if MAGIC.startswith(data[: len(MAGIC)]):
                self._is_own = len(data) >= len(MAGIC)
                if len(data) < SIZE_OF_HELLO:
                    self._begun = data
                    return []
                self._welcome(Hello.decode(data[:SIZE_OF_HELLO]))
                data = data[SIZE_OF_HELLO:]
        if self._own is not None:
            return [found for packet in self._own.feed(data) if (found := self._read(packet)) is not None]
        return [Packet(None, frame) for frame in self.splitter.feed(data)]

    def _welcome(self, hello: Hello) -> None:
        agent = self._introduce(hello.address, hello)
        if agent is None:
            return
        self._crc = hello.crc or (self.peer is None and not _is_here(self.address))
        self._own = OwnSplitter(self._crc)
        relay, highest = self._server.policy.relay, self._server.store.state.highest.get(agent.name, b"")
        self._write(Welcome(relay.t2, relay.n2, LONGEST_DATA, highest, self._crc).encode())

    def _read(self, packet: Packet) -> Packet | None:
        """A packet with the letters of this relay in place of the sender's; None: it was answered here."""
        kind, frame, form = packet.kind, packet.frame, self._form
        if kind is Kind.PING:
            self._write(encode(packet._replace(kind=Kind.PONG), self._crc))
        if kind in (Kind.PING, Kind.PONG):
            return None
        is_answer = kind in (Kind.RECEIPT, Kind.ANSWER, Kind.ALERT)
        if is_answer and len(frame.data) < ANSWERED:
            raise FrameError(f"an answer of {len(frame.data)} bytes; it begins with the {ANSWERED} of what it answers")
        letters = form.answer if is_answer else form.order, form.alert if kind is Kind.ALERT else frame.command
        if (frame.type, frame.command) != letters:
            packet = packet._replace(frame=replace(frame, type=letters[0], command=letters[1]))
        return packet._replace(kind=None) if is_answer else packet

    def _hear(self) -> None:
        """What has come, at the rate that the rules give its agent: TCP slows who sends more."""
        while self._heard and not self.is_over and (self.agent or self._introduce(self._heard[0].frame.source)):
            wait = self._server.machine.wait(self.agent, CLOCK.monotonic())
            if wait:
                self._pause(wait)
                return
            heard = self._heard[: 1 if wait is not None else TURN]
            del self._heard[: len(heard)]
            self._server.arrived(self.number, heard)
            if wait is not None:  # its rate counts them
                self._server.step(None)
            if len(heard) == TURN:  # the loop would go on to read while there is more
                self._pause(0)
                return

    def _pause(self, seconds: float) -> None:
        if self._transport.is_reading():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if not self.is_over:
            self._transport.resume_reading()
            self._hear()

    # ---- what leaves ----

    def send(self, frame: Frame, kind: Kind | None, priority: int | None = None, lifetime: float = 0.0) -> None:
        """`kind`: None: as the frame says. Raises FrameError for what does not fit."""
        if self._own is not None:
            kind = kind or kind_of(frame, self._form) or Kind.ORDER
            self._write(encode(Packet(kind, frame, priority, lifetime), self._crc))
            return
        checksum = self.splitter.checksum
        if checksum == "auto":  # nothing has come yet that says it
            agent = self._server.policy.agents.get(self.agent)
            checksum = agent.checksum if agent is not None else "A"
        self._write(frame.encode(checksum, self._form))

    def _write(self, raw: bytes) -> None:
        if self.is_over:
            return
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unwritten += raw

    def _flush(self) -> None:
        if self._unwritten:
            self._transport.write(bytes(self._unwritten))
        self._unwritten.clear()
        if self.unsent > UNSENT_MOST + (self._form.longest if self._own is None else LONGEST_DATA):
            self._server.refuse(self, "it does not read what is sent to it")

    def close(self, words: str = "") -> None:
        """What was to be sent is sent first, if the other end reads it soon. An agent of this package is told why."""
        if words and self._is_own:
            nothing = frame_of(bytes(HEAD_ROW), b"")
            self._write(encode(Packet(Kind.ALERT, nothing.alert(nothing.stamp, words, self._form)), self._crc))
        self.is_over = True
        if self.number in self._server.connections:
            self._flush()
            self._transport.close()
            asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._unwritten.clear()
        self._known.set()
        self._server.lost(self)


def _is_here(address: str) -> bool:
    """So nobody on the way sees its bytes. `address`: of a host, or a user, `uid:1000`."""
    return is_user(address) or is_loopback(address)
