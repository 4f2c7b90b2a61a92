"""The logs of a node: its members, the sessions with other nodes, with programs, and with operators.

    data/logs/NAME          the log, which any program of this host may read
    data/marks/NAME.json    which log it is, and which copy       NAME.marks    what this copy has promised

Streams with a node carry all logs together: one messages, and one batches (wire.py).
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import deque
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final
from uuid import uuid4

from rtmw.clock import CLOCK
from rtmw.domain import NO_DOMAIN, Domain
from rtmw.errors import LogError, SessionError
from rtmw.net.security.names import is_own_user, is_user
from rtmw.net.session import Code, Hello, Session, Stream, Terms
from rtmw.net.session.peers import Peers, network_of
from rtmw.observe.services import LOGS_TOPIC, pack_logs
from rtmw.publisher import OwnPublisher
from rtmw.replica import copying, operating, wire
from rtmw.replica import requests as r
from rtmw.replica import words as w
from rtmw.replica.control.settings import LogSettings
from rtmw.replica.guests import CURSORS, Guests
from rtmw.replica.member import Identity, Member

log = logging.getLogger("rtmw.replica")

_ON_THE_WAY: Final = 2 << 20
"""Bytes of a stream that may come before they are read, and that are kept until they are acknowledged."""
_HANDOVER_S: Final = 3.0
"""For the members of a node that ends to hand over; the node waits five seconds for its services."""
_REFUSES_S: Final = 0.2
"""A session without a connection for so long is taken for refused."""
_LOOK_S: Final = 0.5
_ASK_STORE_S: Final = 5.0
"""A log without appends asks nothing of the store: so often it is seen whether that is there."""
_AGAIN_S: Final = 0.2


class _Link:
    """A session with a node: what goes to it."""

    def __init__(self, session: Session) -> None:
        """Raises SessionError: it is over, or the node allows too few streams."""
        self.session = session
        self.messages = session.open(wire.MESSAGES, priority=6)
        self.batches = session.open(wire.BATCHES, priority=3)
        self.batches.on_room = self._ship
        self._ships = deque[tuple[Member, str]]()

    def ship(self, member: Member, to: str) -> None:
        if (member, to) not in self._ships:
            self._ships.append((member, to))
        self._ship()

    def _ship(self) -> None:
        """Parts of each log in turn, as fast as the node takes them."""
        while self._ships and not self.batches.is_behind:
            member, to = self._ships.popleft()
            part = member.part(to)
            if part is not None:
                self._ships.append((member, to))
                self.put(self.batches, member, part)

    def put(self, stream: Stream, member: Member, message: w.Message) -> None:
        try:
            stream.put(wire.pack(member.uuid, member.identity.copy, message))
        except SessionError:  # it is over, as `messages` and `batches` say to who reads them
            self._ships.clear()


class Server:
    """From `run` until `stopping` is set. Not for several threads."""

    def __init__(self, data: Path, node: str, settings: LogSettings, domain: int = NO_DOMAIN) -> None:
        """`domain`: where it says how its logs are. Raises KeysError, OSError, RtmwError."""
        self.data, self.node, self.stopping = data, node, asyncio.Event()
        self._settings = settings
        self.store = settings.control.open()
        self.members = dict[str, Member]()
        self.troubles = dict[str, str]()
        self._by_uuid = dict[bytes, Member]()
        self._links = dict[str, _Link]()
        self.operating = operating.Operating(self)
        hello = Hello(uuid4(), CLOCK.wall_ns(), capabilities=frozenset({f"{wire.SPEAKS}{wire.VERSION}"}))
        terms = Terms(stream_credit=_ON_THE_WAY, send_buffer=_ON_THE_WAY, ack_delay=r.ACK_DELAY_S)
        self.peers = Peers(node, network_of(settings.link, settings.rules, node), hello, terms, self._run)
        self.peers.guest = self._guest
        self.guests = Guests(self.members, self.peers.rights, node)
        self._board: OwnPublisher | None = None
        if domain != NO_DOMAIN:
            self._board = OwnPublisher(LOGS_TOPIC, domain=Domain(domain, create=False), history=1, depth=1)

    @property
    def settings(self) -> w.Settings:
        one = self._settings
        return w.Settings(one.min_insync, one.sync_timeout, one.lag, one.suspect)

    async def run(self) -> None:
        """Raises LogError and its kind: the next process begins with what is on the disk."""
        try:
            for path in sorted((self.data / "marks").glob("*.json")):
                await self._try_open(path)
            await self.peers.begin()
            self.peers.start(self._look_at_store())
            log.info("node %s serves %s; %s", self.node, ", ".join(self.members) or "no log yet", self.store.where)
            while not self.stopping.is_set() and self._failure() is None:
                if self._board is not None:
                    self._board.publish(pack_logs(self.operating.told()))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self.stopping.wait()
            if (failure := self._failure()) is not None:
                raise failure
            await self._hand_over()
        finally:
            await self.peers.close()
            self.guests.close()
            for member in self.members.values():
                with suppress(LogError):  # it has failed, which was said
                    await member.close()
            self.store.close()
            if self._board is not None:
                self._board.close()

    async def _look_at_store(self) -> None:
        """Its `fault` says within some seconds that the store is away, also where nothing is asked of it."""
        said = ""
        while True:
            await self.store.read(next(iter(self.members), self.node))  # of no log, if there is none yet
            if self.store.fault and not said:
                log.warning("the control store: %s", self.store.fault)
            elif said and not self.store.fault:
                log.info("the control store answers again")
            said = self.store.fault
            await asyncio.sleep(_ASK_STORE_S)

    def _failure(self) -> BaseException | None:
        return self.peers.failure or next((one.failed for one in self.members.values() if one.failed), None)

    async def _hand_over(self) -> None:
        """Each log of which this node is the master has another one, if one is in sync."""
        mine = [one for one in self.members.values() if one.replica.role is w.Role.MASTER]
        with suppress(TimeoutError):
            async with asyncio.timeout(_HANDOVER_S):
                await asyncio.gather(*(one.ask(w.Move) for one in mine))

    def obey(self, settings: LogSettings) -> None:
        """Rules, keys, places to connect to, and what new logs have; the store needs a new start. Raises KeysError."""
        if settings.control != self._settings.control:
            log.warning("another [control] takes effect when the node is started again")
        self.peers.obey(network_of(settings.link, settings.rules, self.node))
        self._settings = settings

    # ---- logs ----

    async def _try_open(self, path: Path) -> None:
        try:
            await self._begin(Identity.read(path))
        except (LogError, OSError) as error:
            self.troubles[path.stem] = str(error)
            log.error("log %s is not served by this node: %s", path.stem, error)

    async def open(self, identity: Identity) -> Member:
        """A new copy of a log. Raises LogError, OSError."""
        identity.write(self.data / "marks" / f"{identity.name}.json")
        return await self._begin(identity)

    async def _begin(self, identity: Identity) -> Member:
        member = await asyncio.to_thread(Member, self.data, self.node, identity, self.store, self)
        self.members[identity.name] = self._by_uuid[identity.uuid] = member
        member.begin()
        return member

    async def discard(self, name: str) -> None:
        """An empty copy of a log goes. Raises LogError, OSError."""
        member = self.members.pop(name)
        del self._by_uuid[member.uuid]
        self.guests.gone(name)
        await member.close()
        for ending in ("json", "marks"):
            (self.data / "marks" / f"{name}.{ending}").unlink(missing_ok=True)
        await asyncio.to_thread(shutil.rmtree, member.path)

    async def copy(self, log: Member, to: str) -> bool:
        session = self.session(wire.node_of(to))
        return session is not None and await copying.refetch(log, session)

    # ---- other nodes ----

    @property
    def has_one_log(self) -> bool:
        return len(self.members) == 1

    def session(self, node: str) -> Session | None:
        link = self._links.get(node)
        return link.session if link is not None else None

    def send(self, log: Member, to: str, message: w.Message) -> None:
        if (link := self._links.get(wire.node_of(to))) is not None:
            link.put(link.messages, log, message)

    def ship(self, log: Member, to: str) -> None:
        if (link := self._links.get(wire.node_of(to))) is not None:
            link.ship(log, to)

    async def _run(self, node: str, session: Session) -> None:
        """One session with a node, until it is over."""
        if (why := self._why_not(session)) is not None:
            log.warning("node %s: %s", node, why)
            session.close(why)
            return
        try:
            link = self._links[node] = _Link(session)
        except SessionError as error:
            session.close(str(error))
            return
        work = (
            *(link.messages.read(), link.batches.read(), self._hear(node, session), self._watch(node, session)),
            *(self.guests.tell_cursors(session), session.over()),
        )
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with suppress(SessionError):
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            session.close("the node speaks no more in it")
            if self._links.get(node) is link:
                del self._links[node]
            next_one = self.peers.session(node)
            if next_one is None or next_one.node != session.node:  # else the same process has another session
                self._lost(node)

    def _why_not(self, session: Session) -> str | None:
        """Why a node may not be a member of logs; None: it may."""
        said = next((word for word in session.peer.capabilities if word.startswith(wire.SPEAKS)), "")
        if said != f"{wire.SPEAKS}{wire.VERSION}":
            version = said.removeprefix(wire.SPEAKS) or "none"
            return f"it speaks version {version} of replicated logs, and this one {wire.VERSION}: use the same rtmw"
        why = self._may_not_serve(session)
        return why and f'{session.name} needs a rule with serve = ["log"]: {why}'

    def _may_not_serve(self, session: Session) -> str | None:
        """Without keys whoever reaches a port may do it, and at a Unix socket those who have a rule, and without any
        rule the user as whom this node runs, and root."""
        peer, rights = session.name, self.peers.rights
        is_free = not is_user(peer) or (is_own_user(peer) and not rights.table.rules)
        if self.peers.network.identity is None and is_free:
            return None
        verdict = rights.verdict(peer, "serve", "log")
        return None if verdict.allowed else verdict.why

    def _lost(self, node: str) -> None:
        for member in self.members.values():
            member.lost(node)

    async def _watch(self, node: str, session: Session) -> None:
        """Tells members at once when the process of the node has ended: then its host refuses connections."""
        while session.error is None:
            await session.cut()
            if session.error is not None:
                return
            if not await self.peers.is_refused(node):
                await asyncio.sleep(_REFUSES_S)
            if not session.is_connected:
                self._lost(node)
                await asyncio.sleep(_AGAIN_S)

    async def _hear(self, node: str, session: Session) -> None:
        async with asyncio.TaskGroup() as streams:
            async for stream in session:
                streams.create_task(self._serve(node, session, stream))

    async def _serve(self, node: str, session: Session, stream: Stream) -> None:
        try:
            if stream.purpose in (wire.MESSAGES, wire.BATCHES):
                await self._read(node, stream)
            elif stream.purpose == CURSORS:
                await self.guests.hear_cursors(node, stream)
            elif stream.purpose == operating.QUESTION:
                await operating.answer(stream, self.operating, is_node=True)
            elif stream.purpose == wire.COPY:
                await copying.serve(stream, self._by_uuid)
            else:
                stream.reset(f"{stream.purpose!r} is nothing of replicated logs", Code.REFUSED)
        except SessionError:  # the stream was reset, or the session is over
            return
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:  # of JSON of another shape
            log.warning("node %s does not speak as it should, and its session is closed: %r", node, error)
            session.close(f"the stream {stream.purpose!r} is not as it should be: {error!r:.200}")
        except (LogError, OSError) as error:
            log.warning("node %s is not given %r: %s", node, stream.purpose, error)
            stream.reset(str(error))

    async def _read(self, node: str, stream: Stream) -> None:
        """Messages for members here; those of logs that this node does not have are passed over."""
        split = wire.splitter()
        stream.accept()
        while parts := await stream.read_parts():
            for frame in chain.from_iterable(wire.frames_in(split, part) for part in parts):
                member = self._by_uuid.get(frame.log)
                if member is not None:
                    member.hear(node, frame.sender, frame.message)
                    if stream.purpose == wire.BATCHES:
                        await self._has_room(member)

    async def _has_room(self, member: Member) -> None:
        """While the disk of a log is slower than its master, the stream is not read: it pushes back."""
        while member.holds and member.failed is None and self._by_uuid.get(member.uuid) is member:
            await member.next_try()

    # ---- programs and operators ----

    async def _guest(self, session: Session) -> None:
        if operating.OPERATOR not in session.peer.capabilities:
            await self.guests.run(session)
            return
        async for stream in session:
            with suppress(SessionError):
                refusal = self._may_not_operate(session)
                await operating.answer(stream, self.operating, is_node=False, refusal=refusal)

    def _may_not_operate(self, session: Session) -> str | None:
        why = self._may_not_serve(session)
        return why and f'{session.name} may not operate logs: {why}; give it serve = ["log"]'
