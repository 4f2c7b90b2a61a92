"""The other nodes of a core (rtmw/net/session/peers.py), and what is carried to and from each.

The core is its own peer for what has files (desk.py), over two ends of a stream within its process. Parts of transfers
whose node has gone are kept for some time; `Left` says how long, and which go first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from uuid import NAMESPACE_URL, uuid5

from rtmw.errors import StreamError
from rtmw.net.session import Hello, Session
from rtmw.net.session import Terms as SessionTerms
from rtmw.net.session.peers import Network, Peers
from rtmw.transfer.carry.content import Content, names_files
from rtmw.transfer.carry.journal import Coming, Journal
from rtmw.transfer.carry.peer import KNOWS_SEEN, Peer, sweep
from rtmw.transfer.core.desk import CoreDesk, NodeDesk
from rtmw.transfer.core.progress import Progress, coming_from, held_for, left_behind, passed_over, progress_of
from rtmw.transfer.errors import TransferRefused, TransfersDamaged
from rtmw.transfer.events import Now
from rtmw.transfer.files.source import Fingerprint
from rtmw.transfer.files.staging import Folder
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.limits import Limits
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferId, TransferState
from rtmw.transfer.wire.frames import Terms

__all__ = ["Left", "Nodes", "loop_ends", "too_much"]


ROOM: Final = 1 << 20
"""Bytes on their way, above which `write` waits."""


class LoopEnd:
    """One end of a stream within the process; for one reader and one writer, in one event loop. See `half.Bytes`."""

    def __init__(self) -> None:
        self._other: LoopEnd = self
        self._inbox: list[bytes] = []
        self._changed = asyncio.Event()
        self._error: StreamError | None = None

    async def read_parts(self) -> list[bytes]:
        await self._until(lambda: bool(self._inbox))
        parts, self._inbox = self._inbox, []
        self._other._changed.set()
        return parts

    async def write(self, data: bytes) -> None:
        await self._until(lambda: sum(map(len, self._other._inbox)) < ROOM)
        self._other._inbox.append(data)
        self._other._changed.set()

    async def _until(self, met: Callable[[], bool]) -> None:
        while self._error is None and not met():
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise StreamError(str(self._error), self._error.code)

    def reset(self, words: str, code: int) -> None:
        for end in (self, self._other):
            end._error = end._error or StreamError(words, code)
            end._changed.set()


def loop_ends() -> tuple[LoopEnd, LoopEnd]:
    one, other = LoopEnd(), LoopEnd()
    one._other, other._other = other, one
    return one, other


class Left(NamedTuple):
    """Transfers that one node has begun and does not send now."""

    peer: Peer
    id: TransferId
    coming: Coming

    @property
    def most(self) -> int:
        """Largest number of bytes that it has on the disk."""
        return min(self.coming.offer.size, self.coming.mark.position + Terms().reach)


def too_much(parts: Iterable[Left], limits: Limits, wall_ns: int) -> Iterator[tuple[Left, str]]:
    """Yield those beyond a limit, with the reason."""
    size = 0
    for part in sorted(parts, key=lambda part: -part.coming.left_ns):
        size += part.most
        age = (wall_ns - part.coming.left_ns) / 1e9
        if age > limits.left_age:
            yield part, f"its node has not sent it for {age:.0f} s, and such parts are kept for {limits.left_age:.0f} s"
        elif size > limits.left_bytes:
            yield part, f"parts whose nodes have gone have more than {limits.left_bytes} bytes; the oldest go first"


_LOOP_AGAIN_S: Final = 0.2
_LOOK_S: Final = 60.0
_ON_THE_WAY: Final = 4 << 20
"""Bytes of a stream that may come before they are read, and that are kept until they are acknowledged: several of the
largest pieces, of which one is made or written while others are on the line."""


class Nodes:
    """The other nodes of a core, from `async with` on. `data`: the folder of the core. Not for several threads."""

    def __init__(self, desk: CoreDesk, data: Path, node: str, network: Network) -> None:
        self._desk, self._data, self._node = desk, data, node
        incarnation = uuid5(NAMESPACE_URL, f"{node} {desk.incarnation}")
        hello = Hello(incarnation, desk.life, capabilities=frozenset({"transfer", KNOWS_SEEN}))
        terms = SessionTerms(stream_credit=_ON_THE_WAY, send_buffer=_ON_THE_WAY)
        self._sessions = Peers(node, network, hello, terms, self._run)
        self._peers: dict[str, Peer] = {}
        self._looping: asyncio.Task[None] | None = None
        """The task that carries what this node sends itself."""
        self._journal: Journal | None = None
        self._swept: set[Path] = set()
        self._looks_ns = 0
        """When parts that were left are looked at next, on the monotonic clock."""

    async def __aenter__(self) -> Self:
        if self._sessions.network.link.is_used or (self._data / "journal").exists():
            self._opened()
        await self._sessions.begin()
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

    async def _run(self, node: str, session: Session) -> None:
        await self._peer(node).run(session)

    def _peer(self, node: str) -> Peer:
        peer = self._peers.get(node)
        if peer is None:
            desk = NodeDesk(
                self._desk, lambda header, size: self._check(node, header, size), is_self=node == self._node
            )
            peer = self._peers[node] = Peer(node, desk, self._opened(), self._data / "bodies")
        return peer

    def _check(self, node: str, header: Header, size: int) -> None:
        """May the peer send it here? Raises TransferRefused."""
        if node == self._node:
            return
        name, subject = self._sessions.certified(node), f"{header.to.service}@{self._node}"
        verdict = self._sessions.rights.verdict(name, "send", subject, priority=header.priority, size=size)
        if not verdict.allowed:
            rule = f" ({verdict.place})" if verdict.place else ""
            raise TransferRefused(f"{name or 'a node without keys'} may not send to {subject}: {verdict.why}{rule}")

    # ---- files of this node for itself ----

    async def _loop(self, peer: Peer) -> None:
        while True:
            one, other = loop_ends()
            await asyncio.gather(peer.outbound.run(one), peer.inbound.run(other))
            await asyncio.sleep(_LOOP_AGAIN_S)

    # ---- what the core asks ----

    def ready(self, node: str) -> None:
        """Send what is durable for this node and was not there before."""
        peer = self._peer(node) if node == self._node else self._peers.get(node)
        if peer is None:
            for id in self._desk.raws(node):
                cause = f"lost: node {node!r} is not connected"
                self._sessions.start(self._desk.report(id, TransferState.REFUSED, cause))
            return
        if node == self._node and self._looping is None:
            self._looping = self._sessions.start(self._loop(peer))
        peer.outbound.ready()

    def is_up(self, node: str) -> bool:
        return node in self._peers and (node == self._node or self._sessions.is_up(node))

    def moved(self, id: TransferId, state: TransferState, cause: str, *, is_own: bool) -> None:
        """Tell its node that a transfer has another state here, durably. `is_own`: that node is this one."""
        peer = self._peers.get(self._node if is_own else id.node)
        if peer is not None:
            peer.inbound.moved(id, state, cause)

    def sources(self, header: Header, body: bytes | Spooled) -> tuple[Fingerprint, ...] | None:
        """Return the fingerprints of the files that the body names, as they are now; None: it names none.
        TransferRefused: one cannot be read."""
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
        """Note the files that an accepted transfer names. After a crash before this is on the disk, the files are taken
        as they are then."""
        journal = self._opened()
        if id not in journal.going:
            journal.source(id, sources)

    def ended(self, id: TransferId) -> None:
        """Note that a transfer for another node is over."""
        if self._journal is not None:
            self._journal.done(id)

    def withdraw(self, item: Item) -> bool:
        """Withdraw a transfer that nobody wants any more. True: no other node can have it. False: its node is asked,
        and reports."""
        node = item.record.header.to.node
        if item.lsn not in self._desk.host.machines.of(item.lsn).carried:
            return True
        self.ready(node)
        outbound = self._peer(node).outbound
        outbound.look()
        outbound.withdraw(item.record.id)
        return False

    def receiver_came(self, folder: Path | None) -> None:
        """Try what waits for an inbox again: one was opened."""
        self._desk.receiver_came()
        if folder is not None and folder not in self._swept:
            self._swept.add(folder)
            with suppress(TransferRefused, OSError), Folder(folder) as opened:
                opened.sweep(self._journal.arriving_names() if self._journal is not None else set())
        for peer in self._peers.values():
            peer.inbound.try_again()

    def look_at_left(self, now: Now) -> None:
        """Bound the parts of transfers whose nodes have gone, by age and size. Called often, it looks now and then."""
        journal = self._journal
        if journal is None or now.monotonic_ns < self._looks_ns:
            return
        limits = self._desk.host.machines.logged.limits
        self._looks_ns = now.monotonic_ns + round(1e9 * min(_LOOK_S, limits.left_age / 4))
        nodes = {id.node for id in journal.coming}
        peers = [self._peer(node) for node in nodes if node != self._node]
        parts = [Left(peer, *one) for peer in peers for one in peer.inbound.left(now.wall_ns).items()]
        for part, cause in too_much(parts, limits, now.wall_ns):
            part.peer.inbound.free(part.id, cause)

    # ---- what is shown ----

    def why_waits(self, item: Item) -> str:
        """Return why a transfer waits that is for another node, and not there yet."""
        node = item.record.header.to.node
        peer = self._peers.get(node)
        cause = peer.outbound.causes.get(item.record.id) if peer is not None else None
        if peer is not None and self.is_up(node):
            before = peer.outbound.machine.waits_for(item.record.id)
            if before is not None:
                return held_for(before)
            return passed_over(cause) if cause else ""
        if cause is not None:
            return cause
        if not self._sessions.network.link.is_used:
            return f"this node has no sessions with others: node {node!r} needs [transfer] listen or connect"
        tries = "; ".join(f"{place}: {why}" for place, why in self._sessions.failing.items())
        return f"node {node!r} is not connected{': ' if tries else ''}{tries}"

    def progress(self, item: Item) -> Progress:
        peer, body = self._peers.get(item.record.header.to.node), item.record.body
        held = self._desk.host.spool.path(body) if isinstance(body, Spooled) else body
        return progress_of(item, held, peer, self._journal)

    def advanced(self) -> set[TransferId]:
        """Return the transfers of which their nodes have said how much they have, since this was asked last."""
        return {id for peer in self._peers.values() for id in peer.outbound.take_advanced()}

    def arriving(self) -> list[dict[str, Any]]:
        """Return the transfers that have come in part from other nodes, as rows."""
        peers = [peer for node, peer in self._peers.items() if node != self._node]
        rows = [one for peer in peers for one in coming_from(peer)]
        return rows + left_behind(peers, self._journal, self._node)

    # ---- settings, and the end ----

    def obey(self, network: Network) -> None:
        """Take new rules, keys and places to connect to; where the node listens stays until a new start."""
        self._sessions.obey(network)

    def failure(self) -> BaseException | None:
        """An unexpected error; the core has to end with it."""
        return next((peer.failed for peer in self._peers.values() if peer.failed), self._sessions.failure)

    async def __aexit__(self, *_: object) -> None:
        await self._sessions.close()
        for peer in self._peers.values():
            await peer.close()
        if self._journal is not None:
            self._journal.close()
