"""The other nodes of a core: who they are, sessions with them, and what is carried to and from each.

A peer is meant by the name that addresses have, `service@NAME`: the last part of the name in its certificate, or, where
there are no keys, what it says of itself. The core is its own peer for what has files (desk.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from uuid import NAMESPACE_URL, uuid5

from rtmw.addresses import place_to_listen, place_to_reach
from rtmw.errors import SessionError
from rtmw.net.security.names import parse_name
from rtmw.net.security.rights import Rights
from rtmw.net.session import Carrier, Hello, Session, Terms
from rtmw.net.session.backoff import Backoff
from rtmw.transfer.address import Address
from rtmw.transfer.carry.content import Content, names_files
from rtmw.transfer.carry.desk import Work
from rtmw.transfer.carry.journal import Journal
from rtmw.transfer.carry.loop import loop_ends
from rtmw.transfer.carry.peer import KNOWS_SEEN, Peer, sweep
from rtmw.transfer.core.desk import CoreDesk, NodeDesk
from rtmw.transfer.core.left import Left, too_much
from rtmw.transfer.core.network import Network
from rtmw.transfer.core.progress import Progress, coming_from, held_for, left_behind, passed_over, progress_of
from rtmw.transfer.errors import TransferRefused, TransfersDamaged
from rtmw.transfer.events import Now
from rtmw.transfer.files.source import Fingerprint
from rtmw.transfer.files.staging import Folder
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferId, TransferState

__all__ = ["Nodes"]

log = logging.getLogger("rtmw.transfer")

_SAYS_NODE: Final = "node="
"""Before the name of a node, among the capabilities in its hello."""
_AGAIN_S: Final = 0.2
_LONGEST_S: Final = 0.5
"""Between two tries to begin a session, at most: what is parked for a node that is back waits for the next one."""
_LOOK_S: Final = 60.0
_ON_THE_WAY: Final = 4 << 20
"""Bytes of a stream that may come before they are read, and that are kept until they are acknowledged: several of the
largest pieces, of which one is made or written while others are on the line."""
MOST: Final = 1000
"""Other nodes that a core knows, and reasons that its log has said."""


@dataclass
class _PeerNode:
    """A peer, and its session of this moment."""

    peer: Peer
    name: str = ""
    """In its certificate, as rules mean it."""
    session: Session | None = None
    running: asyncio.Task[None] | None = None


class Nodes:
    """From `async with` on. `data`: the folder of the core. Not for several threads."""

    def __init__(self, desk: CoreDesk, data: Path, node: str, network: Network) -> None:
        self._desk, self._data, self._node, self._network = desk, data, node, network
        self._rights = Rights(network.rules)
        self._peers: dict[str, _PeerNode] = {}
        self._journal: Journal | None = None
        self._carrier: Carrier | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._dialled: dict[str, Session] = {}
        """By a place of `connect`: the session with it."""
        self._swept: set[Path] = set()
        self._said: dict[str, str] = {}
        self._failure: BaseException | None = None
        self._looks_ns = 0
        """When parts that were left are looked at next."""
        self.failing: dict[str, str] = {}
        """By a place of `connect`: why there is no session with it."""
        self.refused: Counter[str] = Counter()
        """Sessions that were no peer's, by cause."""

    async def __aenter__(self) -> Self:
        if self._network.link.is_used or (self._data / "journal").exists():
            self._opened()
        if self._network.link.is_used:
            await self._listen(self._meet())
        for node in self._desk.nodes:
            self.ready(node)
        return self

    def _opened(self) -> Journal:
        if self._journal is None:
            bodies = self._data / "bodies"
            bodies.mkdir(exist_ok=True)
            self._journal = Journal(self._data / "journal")
            self._journal.keep_going(lambda id: self._desk.outgoing(id) is not None)
            sweep(bodies, self._journal)
        return self._journal

    # ---- sessions ----

    def _meet(self) -> Carrier:
        """From now on there may be sessions, and places to connect to are dialled."""
        link, identity = self._network.link, self._network.identity
        node = uuid5(NAMESPACE_URL, f"{self._node} {self._desk.incarnation}")
        hello = Hello(node, self._desk.life, capabilities=frozenset({"transfer", KNOWS_SEEN, _SAYS_NODE + self._node}))
        terms = Terms(lease=link.lease, stream_credit=_ON_THE_WAY, send_buffer=_ON_THE_WAY)
        carrier = self._carrier = Carrier(node, identity=identity, insecure=link.insecure, terms=terms, hello=hello)
        self._start(self._accept(carrier))
        self._dial_all(carrier)
        return carrier

    async def _listen(self, carrier: Carrier) -> None:
        how = "with TLS" if carrier.identity else "without TLS: anybody who reaches it may read, change and send"
        for place in self._network.link.listen:
            port = await carrier.listen(*place_to_listen(place))
            log.info("transfers of other nodes are accepted at %s (port %d), %s", place, port, how)

    def _start(self, work: Work) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            log.error("%r", error, exc_info=error)

    def _dial_all(self, carrier: Carrier) -> None:
        wanted = self._network.link.connect
        for place in self._dialling.keys() - set(wanted):
            self._dialling.pop(place).cancel()
            self.failing.pop(place, None)
            if (session := self._dialled.pop(place, None)) is not None:
                session.close(f"{place} was taken out of connect")
        for place in wanted:
            if place not in self._dialling:
                self._dialling[place] = self._start(self._dial(carrier, place))

    async def _dial(self, carrier: Carrier, place: str) -> None:
        backoff = Backoff(longest=_LONGEST_S)
        async for _ in backoff:
            try:
                session = await carrier.connect(*place_to_reach(place))
            except SessionError as error:
                why = str(error).removeprefix(f"{place}: ")
            else:
                self.failing.pop(place, None)
                self._dialled[place] = session
                backoff.reset()
                await session.over()
                del self._dialled[place]
                why = str(session.error)
            self.failing[place] = why
            self._say(place, f"no session with {place}: {why}; it is tried again and again")

    def _say(self, about: str, words: str) -> None:
        if self._said.get(about) != words:
            self._said[about] = words
            log.warning("%s", words)
            while len(self._said) > MOST:
                del self._said[next(iter(self._said))]

    async def _accept(self, carrier: Carrier) -> None:
        async for session in carrier:
            try:
                node = self._who(session)
            except TransferRefused as error:
                self.refused["name"] += 1
                self._say(session.name or str(session.node), str(error))
                session.close(str(error))
                continue
            entry = self._peer_node(node)
            before, entry.name = entry.session, session.name
            if before is not None:
                before.close("another session has begun with this node")
            entry.session = session
            entry.running = self._start(self._carry(entry, session, entry.running))

    def _who(self, session: Session) -> str:
        """The name of the peer. TransferRefused: addresses cannot mean it."""
        words = [word for word in session.peer.capabilities if word.startswith(_SAYS_NODE)]
        said = words[0].removeprefix(_SAYS_NODE) if words else ""
        identity = self._network.identity
        if identity is not None:
            name, mine = parse_name(session.name), parse_name(identity.name)
            if name.site != mine.site:
                raise TransferRefused(
                    f"{session.name} is of another site than {identity.name}: addresses name nodes of one site"
                )
            if said != name.node:
                raise TransferRefused(f"the node of {session.name} calls itself {said!r}; set name there")
        if said == self._node:
            raise TransferRefused(f"two nodes have the name {said!r}; give one of them another name")
        try:
            Address.parse(f"any@{said}")
        except ValueError:
            raise TransferRefused(f"the peer calls itself {said!r}, which is no name of a node") from None
        if said not in self._peers and len(self._peers) >= MOST:
            raise TransferRefused(
                f"{MOST} nodes are known here already; start this one again to forget those that are gone"
            )
        return said

    async def _carry(self, entry: _PeerNode, session: Session, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        log.info("node %s is connected", entry.peer.node)
        try:
            await entry.peer.run(session)
        finally:
            if entry.session is session:
                entry.session = None
                log.info("node %s is gone: %s", entry.peer.node, session.error)

    def _peer_node(self, node: str) -> _PeerNode:
        entry = self._peers.get(node)
        if entry is None:
            desk = NodeDesk(
                self._desk, lambda header, size: self._check(node, header, size), is_self=node == self._node
            )
            entry = self._peers[node] = _PeerNode(Peer(node, desk, self._opened(), self._data / "bodies"))
        return entry

    def _check(self, node: str, header: Header, size: int) -> None:
        """May the peer send it here? Raises TransferRefused."""
        if node == self._node:
            return
        name, subject = self._peers[node].name, f"{header.to.service}@{self._node}"
        verdict = self._rights.verdict(name, "send", subject, priority=header.priority, size=size)
        if not verdict.allowed:
            rule = f" ({verdict.place})" if verdict.place else ""
            raise TransferRefused(f"{name or 'a node without keys'} may not send to {subject}: {verdict.why}{rule}")

    # ---- files of this node for itself ----

    async def _loop(self, peer: Peer) -> None:
        while True:
            one, other = loop_ends()
            await asyncio.gather(peer.outbound.run(one), peer.inbound.run(other))
            await asyncio.sleep(_AGAIN_S)

    # ---- what the core asks ----

    def ready(self, node: str) -> None:
        """Something for this node is durable that was not there before."""
        entry = self._peer_node(node) if node == self._node else self._peers.get(node)
        if entry is None:
            for id in self._desk.raws(node):
                cause = f"lost: node {node!r} is not connected"
                self._start(self._desk.report(id, TransferState.REFUSED, cause))
            return
        if node == self._node and entry.running is None:
            entry.running = self._start(self._loop(entry.peer))
        entry.peer.outbound.ready()

    def is_up(self, node: str) -> bool:
        entry = self._peers.get(node)
        return entry is not None and (node == self._node or entry.session is not None)

    def moved(self, id: TransferId, state: TransferState, cause: str, *, is_own: bool) -> None:
        """A transfer that has come from its node has another state here, durably. `is_own`: that node is this one."""
        entry = self._peers.get(self._node if is_own else id.node)
        if entry is not None:
            entry.peer.inbound.moved(id, state, cause)

    def sources(self, header: Header, body: bytes | Spooled) -> tuple[Fingerprint, ...] | None:
        """The files that it names, as they are now; None: it names none. TransferRefused: one cannot be read."""
        if header.kind is Kind.BUF:
            return None
        held = self._desk.host.spool.path(body) if isinstance(body, Spooled) else body
        try:
            if not names_files(header.kind, held):
                return None
            content = Content(header.kind, held)
        except TransfersDamaged as error:
            raise ValueError(str(error)) from None
        self._opened()  # now: a full disk refuses it before it is accepted
        if header.delivery is Delivery.SMALL_RAW:
            raise ValueError("a file is not sent as SMALL_RAW, which is not acknowledged; use Delivery.NORMAL")
        return content.fingerprints

    def accepted(self, id: TransferId, sources: tuple[Fingerprint, ...]) -> None:
        """Accepted transfers name these files. After a crash before this is on the disk, the files are taken as they
        are then."""
        journal = self._opened()
        if id not in journal.going:
            journal.source(id, sources)

    def ended(self, id: TransferId) -> None:
        """A transfer for another node is over."""
        if self._journal is not None:
            self._journal.done(id)

    def withdraw(self, item: Item) -> bool:
        """Nobody wants it any more. True: no other node can have it. False: its node is asked, and reports."""
        node = item.record.header.to.node
        if item.lsn not in self._desk.host.machines.of(item.lsn).carried:
            return True
        self.ready(node)
        outbound = self._peer_node(node).peer.outbound
        outbound.look()
        outbound.withdraw(item.record.id)
        return False

    def receiver_came(self, folder: Path | None) -> None:
        """An inbox was opened: what waits for one is tried again."""
        self._desk.receiver_came()
        if folder is not None and folder not in self._swept:
            self._swept.add(folder)
            with suppress(TransferRefused, OSError), Folder(folder) as opened:
                opened.sweep(self._journal.arriving_names() if self._journal is not None else set())
        for entry in self._peers.values():
            entry.peer.inbound.try_again()

    def look_at_left(self, now: Now) -> None:
        """Parts of transfers whose nodes have gone are bounded by age and size. Called often, it looks now and then."""
        journal = self._journal
        if journal is None or now.monotonic_ns < self._looks_ns:
            return
        limits = self._desk.host.machines.logged.limits
        self._looks_ns = now.monotonic_ns + round(1e9 * min(_LOOK_S, limits.left_age / 4))
        nodes = {id.node for id in journal.coming}
        peers = [self._peer_node(node).peer for node in nodes if node != self._node]
        parts = [Left(peer, *one) for peer in peers for one in peer.inbound.left(now.wall_ns).items()]
        for part, cause in too_much(parts, limits, now.wall_ns):
            part.peer.inbound.free(part.id, cause)

    # ---- what is shown ----

    def why_waits(self, item: Item) -> str:
        """Of what is for another node, and not there yet."""
        node = item.record.header.to.node
        entry = self._peers.get(node)
        cause = entry.peer.outbound.causes.get(item.record.id) if entry is not None else None
        if entry is not None and self.is_up(node):
            before = entry.peer.outbound.machine.waits_for(item.record.id)
            if before is not None:
                return held_for(before)
            return passed_over(cause) if cause else ""
        if cause is not None:
            return cause
        if not self._network.link.is_used:
            return f"this node has no sessions with others: node {node!r} needs [transfer] listen or connect"
        tries = "; ".join(f"{place}: {why}" for place, why in self.failing.items())
        return f"node {node!r} is not connected{': ' if tries else ''}{tries}"

    def progress(self, item: Item) -> Progress:
        entry, body = self._peers.get(item.record.header.to.node), item.record.body
        held = self._desk.host.spool.path(body) if isinstance(body, Spooled) else body
        return progress_of(item, held, entry.peer if entry is not None else None, self._journal)

    def advanced(self) -> set[TransferId]:
        """Transfers of which their nodes have said how much they have, since this was asked last."""
        return {id for entry in self._peers.values() for id in entry.peer.outbound.take_advanced()}

    def arriving(self) -> list[dict[str, Any]]:
        """Transfers that have come in part from other nodes."""
        peers = [entry.peer for node, entry in self._peers.items() if node != self._node]
        rows = [one for peer in peers for one in coming_from(peer)]
        return rows + left_behind(peers, self._journal, self._node)

    # ---- settings, and the end ----

    def obey(self, network: Network) -> None:
        """Rules, keys and places to connect to; where it listens stays until a new start."""
        self._network = network
        self._rights.swap(network.rules)
        if self._carrier is None:
            if network.link.connect:
                self._meet()
            return
        if network.identity is not None:
            self._carrier.recheck(network.identity)
        self._dial_all(self._carrier)

    def failure(self) -> BaseException | None:
        """An unexpected error; the core has to end with it."""
        return next((entry.peer.failed for entry in self._peers.values() if entry.peer.failed), self._failure)

    async def __aexit__(self, *_: object) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._carrier is not None:
            await self._carrier.close()
        for entry in self._peers.values():
            await entry.peer.close()
        if self._journal is not None:
            self._journal.close()
