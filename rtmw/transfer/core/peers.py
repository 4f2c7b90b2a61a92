"""The other nodes of a core (rtmw/net/session/peers.py), and its work for the peers that carry transfers to and from
them.

`CoreDesk` is that work. What comes from another node is told to that node as it is on the disk: `_told` has, of each
such transfer, the state that is durable. What is for another node waits in `_new` until its peer asks for it; from then
on that node says how it ends (`Machine.carried`).

A node is its own peer for what has files, over two ends of a stream within its process: they are copied into a
receiver's folder as if they came from elsewhere. The half that arrives is another transfer then, whose id has the bit
ARRIVING (`arriving_id`). Parts of transfers whose node has gone are kept for some time; `Left` says how long, and which
go first.

Two nodes tell each other what has come from the other one. A store that was set back to an older state finds out by
that: it gives ids anew that the other node knows, and what came under them would be dropped there as a duplicate.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self
from uuid import NAMESPACE_URL, uuid5

from rtmw.clock import CLOCK
from rtmw.errors import LogFull, StreamError
from rtmw.net.session import Hello, Session
from rtmw.net.session import Terms as SessionTerms
from rtmw.net.session.peers import Network, Peers
from rtmw.transfer.address import Address, lives_meant
from rtmw.transfer.carry.content import Content, names_files
from rtmw.transfer.carry.half import End
from rtmw.transfer.carry.journal import Coming, Journal
from rtmw.transfer.carry.peer import KNOWS_SEEN, Peer, sweep
from rtmw.transfer.core.report import Progress, coming_from, held_for, left_behind, passed_over, progress_of
from rtmw.transfer.errors import TransferRefused, TransfersDamaged
from rtmw.transfer.events import (
    Came,
    EndsConfirmed,
    Event,
    Moved,
    Note,
    Now,
    PassOver,
    SendTransfers,
    Sent,
    SettleTransfers,
)
from rtmw.transfer.files import Fingerprint, Folder
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.limits import Limits
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, Spooled, TransferId, TransferState, arriving_id, own_id
from rtmw.transfer.spool import Spool
from rtmw.transfer.store import Machines, is_volatile
from rtmw.transfer.wire.frames import Offer, Terms

__all__ = ["CoreDesk", "Host", "Left", "Nodes", "loop_ends", "too_much"]


_AGAIN_S: Final = 0.5
"""Seconds after which it is tried again to log what a full disk has refused."""
_BACK_S: Final = 2.0
"""Seconds after the start of a core; by then, programs of the core before have joined it."""
_SENT: Final = (TransferState.SENT, "")
_LEAST_FAR: Final = (TransferState.ACCEPTED, TransferState.DELIVERED, TransferState.DEAD)


class Host(Protocol):
    """The process of the core, as its desk uses it."""

    machines: Machines
    spool: Spool
    nodes: Nodes

    def submit(self, event: Event, logged: bool) -> Any:
        """Do a step of one of the machines; its records go to the disk soon. Raises what the step raises; LogFull."""
        ...

    async def durable(self) -> None:
        """Wait until all that was logged before this call is on the disk."""
        ...

    def spool_name(self) -> str: ...

    def folder(self, to: Address) -> Path | None:
        """Return the folder of an inbox that the address means; None: there is none."""
        ...

    def freed(self, offer: Offer, cause: str) -> None:
        """Tell tools that the part of a transfer that had come was removed, because the sending node has left it."""
        ...

    def is_behind(self, node: str, id: TransferId) -> None:
        """End the core: that node has had a transfer of this store that the store does not know."""
        ...


class Carries(Protocol):
    """Those who are told of each transfer that has moved, when the move is durable."""

    def ready(self, node: str) -> None: ...

    def ended(self, id: TransferId) -> None: ...

    def moved(self, id: TransferId, state: TransferState, cause: str, *, is_own: bool) -> None: ...


class CoreDesk:
    """The work of one core for all its peers (carry/half.py); see the head of this file. Not for several threads.

    A peer speaks of transfers of its own node alone. Those of this node are the ones that it carries to itself.
    """

    def __init__(self, host: Host) -> None:
        self.host, self._machines = host, host.machines
        self.durable, self.freed, self.spool = host.durable, host.freed, host.spool.path
        self._joined = asyncio.Event()
        self._all_back = CLOCK.monotonic() + (_BACK_S if self.life > 1 else 0.0)
        self._new: dict[str, dict[int, None]] = {}
        """Numbers of transfers that their peer was not given yet, by its node."""
        self._told: dict[str, dict[TransferId, End]] = {}
        """The durable states of transfers that came from other nodes, by node."""
        state = self._machines.logged.state
        for lsn, node in state.items.for_nodes():
            self._new.setdefault(node, {})[lsn] = None
            self._machines.logged.carried.add(lsn)
        for id in {*state.owed, *state.foreign}:
            self._tell(id, self.end_of(id))

    @property
    def incarnation(self) -> int:
        """Incarnation of the store."""
        return self._machines.logged.state.incarnation

    @property
    def life(self) -> int:
        """Number of times that a core has begun with this store, this one included."""
        return self._machines.logged.state.life

    # ---- for other nodes ----

    @property
    def nodes(self) -> list[str]:
        """The nodes for which something waits."""
        return list(self._new)

    def add_waiting(self, item: Item) -> None:
        """Let a transfer that is durable wait for its peer."""
        self._new.setdefault(item.record.header.to.node, {})[item.lsn] = None

    def newest_of(self, node: str) -> list[tuple[int, int]]:
        known = [machine.state.seen.marks.get(node, {}) for machine in (self._machines.logged, self._machines.volatile)]
        return [(incarnation, mark.high) for marks in known for incarnation, mark in marks.items() if mark.high >= 0]

    def has_had(self, node: str, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> None:
        unknown = None if self._is_here(node) else _unknown_of(self._machines, newest, sent)
        if unknown is not None:
            self.host.is_behind(node, unknown)

    def waiting(self, node: str) -> Iterator[Item]:
        for lsn in self._new.pop(node, {}):
            item = self._item(lsn)
            if item is not None:
                self._machines.of(lsn).carried.add(lsn)
                yield item

    def outgoing(self, id: TransferId) -> Item | None:
        """Return a transfer for another node that has not ended; None: there is none."""
        for item in self._items(id):
            if item.record.header.to.node:
                return item
        return None

    def delayed(self, id: TransferId) -> None:
        """Pass over a transfer that this node carries to itself. Other nodes have queues of their own."""
        item = self.outgoing(id)
        if item is not None and self._is_here(item.record.header.to.node):
            self.host.submit(PassOver(item.lsn), not is_volatile(item.lsn))

    def _items(self, id: TransferId) -> list[Item]:
        states = self._machines.logged.state, self._machines.volatile.state
        return [state.items[lsn] for state in states for lsn in state.numbers(id)]

    async def report(self, id: TransferId, state: TransferState, cause: str) -> None:
        item = self.outgoing(id)
        if item is None:
            return
        deadline = item.record.deadline_ns
        if state is TransferState.CANCELLED and 0 < deadline <= CLOCK.wall_ns():
            state = TransferState.EXPIRED
        if item.state is not state:
            await self._settle(item, state, cause)
        if state is TransferState.ACCEPTED:
            self.add_waiting(item)

    def report_run(self, states: Mapping[TransferId, TransferState]) -> bool:
        found = [(item, state) for id, state in states.items() if (item := self.outgoing(id)) is not None]
        moved = [(item.lsn, state) for item, state in found if item.state is not state]
        try:
            for (logged, state), same in groupby(moved, lambda one: (not is_volatile(one[0]), one[1])):
                self.host.submit(SettleTransfers([lsn for lsn, _ in same], state), logged)
        except LogFull:
            return False
        return True

    async def _settle(self, item: Item, state: TransferState, cause: str) -> None:
        machine = self._machines.of(item.lsn)
        while item.lsn in machine.state.items and item.state is not state:
            try:
                self.host.submit(SettleTransfers((item.lsn,), state, cause), machine is self._machines.logged)
                break
            except LogFull:
                await asyncio.sleep(_AGAIN_S)
        await self.host.durable()

    # ---- from other nodes ----

    def end_of(self, id: TransferId) -> End | None:
        """Return the state as it is now, whether or not that is durable, and its cause; of copies, those of the one
        that is least far. None: the transfer never came, or its end is not kept."""
        here = [item for item in self._items(id) if not item.record.header.to.node]
        if here:
            least = min(here, key=lambda item: _LEAST_FAR.index(item.state))
            state = TransferState.SENT if least.state is TransferState.ACCEPTED else least.state
            return state, least.cause
        logged, volatile = self._machines.logged.state, self._machines.volatile.state
        return logged.owed.get(id) or volatile.owed.get(id)

    def _tell(self, id: TransferId, end: End | None) -> None:
        if end is not None:
            self._told.setdefault(id.node, {})[id] = end

    def _is_here(self, node: str) -> bool:
        return node == self._machines.logged.state.node

    def _arriving(self, id: TransferId) -> TransferId:
        """Return the id under which a transfer of a peer comes: this node carries its own ones to itself."""
        return arriving_id(id) if self._is_here(id.node) else id

    def look(self, id: TransferId) -> End | None:
        id = self._arriving(id)
        found = self._told.get(id.node, {}).get(id)
        if found is None and id in self._machines.logged.state.seen and not self._has(id):
            return TransferState.REFUSED, "it has come before, and how it ended is forgotten; send it again"
        return found

    def _has(self, id: TransferId) -> bool:
        return bool(self._items(id)) or id in self._machines.logged.state.owed

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        return [(self._as_sent(id), end) for id, end in self._told.get(node, {}).items() if end[0] in ENDED]

    def _as_sent(self, id: TransferId) -> TransferId:
        return own_id(id) if self._is_here(id.node) else id

    def settled(self, ids: Collection[TransferId]) -> None:
        ids = [self._arriving(id) for id in ids]
        for id in ids:
            self._told.get(id.node, {}).pop(id, None)
        for machine in (self._machines.logged, self._machines.volatile):
            owed = [id for id in ids if id in machine.state.owed]
            try:
                if owed:
                    self.host.submit(EndsConfirmed(owed), machine is self._machines.logged)
            except LogFull:
                for id in owed:
                    self._tell(id, self.end_of(id))  # it is said again on the next stream

    async def withdraw(self, id: TransferId) -> None:
        for item in self._items(self._arriving(id)):
            if item.state is TransferState.ACCEPTED and not item.record.header.to.node:
                await self._settle(item, TransferState.CANCELLED, "cancelled by its sender")

    async def folder(self, to: Address) -> Path | None:
        while (found := self.host.folder(to)) is None and (left := self._all_back - CLOCK.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._joined.wait()
        return found

    def receiver_came(self) -> None:
        self._joined.set()
        self._joined = asyncio.Event()

    def check(self, node: str, header: Header, size: int) -> None:
        self.host.nodes.check_right(node, header, size)
        lives_meant(header.to, self._machines.logged.receivers)

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        if isinstance(body, bytes):
            self.host.nodes.check_right(id.node, header, len(body))
        held = await self._take_over(body, header.length) if isinstance(body, Path) else body
        logged = header.delivery is Delivery.LOG
        try:
            self.host.submit(SendTransfers(header, (held,), sender, 0, (self._arriving(id),)), logged)
        finally:
            state = (self._machines.logged if logged else self._machines.volatile).state
            if isinstance(held, Spooled) and held.name not in state.bodies:
                self.host.spool.remove(held.name)

    def arrive_run(self, node: str, header: Header, sender: str, letters: dict[TransferId, bytes]) -> int:
        self.host.nodes.check_right(node, header, header.length)
        event = SendTransfers(header, tuple(letters.values()), sender, ids=tuple(letters))
        sent: Sent = self.host.submit(event, header.delivery is Delivery.LOG)
        return sent.done

    async def _take_over(self, body: Path, size: int) -> Spooled:
        """Give the file a second name: the first one goes when the log has the transfer, so a crash loses nothing."""
        name = self.host.spool_name()
        held = Spooled(name, size)
        os.link(body, self.host.spool.path(held))
        await asyncio.to_thread(self.host.spool.sync)
        return held

    def take_raw(self, node: str, header: Header, body: bytes, sender: str) -> None:
        """Take a SMALL_RAW. It gets an id of this node, since its own never counted."""
        self.host.nodes.check_right(node, header, len(body))
        self.host.submit(SendTransfers(header, (body,), sender), logged=False)

    # ---- what has moved ----

    def to_say(self, note: Note) -> Callable[[Carries], None] | None:
        """Return the call that tells peers when the note is durable; None: nothing is told."""
        if isinstance(note, Moved):
            return self._moved(note)
        return self._came(note) if isinstance(note, Came) and (note.node or note.ids) else None

    def _came(self, note: Came) -> Callable[[Carries], None]:
        """Return the call that tells peers of a run of letters."""

        def say(peers: Carries) -> None:
            if note.node:
                self._new.setdefault(note.node, {}).update(dict.fromkeys(note.items))
                peers.ready(note.node)
            for id in note.ids:
                self._tell(id, _SENT)
                peers.moved(id, *_SENT, is_own=False)

        return say

    def _moved(self, note: Moved) -> Callable[[Carries], None] | None:
        over: list[TransferId] = []
        back: list[Item] = []
        come: list[tuple[TransferId, End]] = []
        for item in note.items:
            id = item.record.id
            if item.record.header.to.node:
                machine = self._machines.of(item.lsn)
                if item.lsn not in machine.state.items:
                    machine.carried.discard(item.lsn)
                    over.append(id)
                elif note.state is TransferState.ACCEPTED:
                    back.append(item)
            elif not self._is_own(id) and (end := self.end_of(id)) is not None:
                come.append((id, end))

        def say(peers: Carries) -> None:
            for id in over:
                peers.ended(id)
            for item in back:
                self.add_waiting(item)
                peers.ready(item.record.header.to.node)
            for id, end in come:
                self._tell(id, end)
                is_own = self._is_here(id.node)
                peers.moved(own_id(id) if is_own else id, *end, is_own=is_own)

        return say if over or back or come else None

    def raws(self, node: str) -> list[TransferId]:
        """Return the ids of each SMALL_RAW that waits for this node; they wait no longer."""
        new = self._new.get(node, {})
        raws = [item for lsn in new if (item := self._item(lsn)) and item.record.header.delivery is Delivery.SMALL_RAW]
        for item in raws:
            del new[item.lsn]
        return [item.record.id for item in raws]

    def _item(self, lsn: int) -> Item | None:
        return self._machines.of(lsn).state.items.get(lsn)

    def _is_own(self, id: TransferId) -> bool:
        return self._machines.logged.state.is_own(id) or self._machines.volatile.state.is_own(id)


def _unknown_of(machines: Machines, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> TransferId | None:
    """Return an id that another node has had of this one, which was not given by it; None: there is none. `newest`:
    what that node says, in the form of `newest_of`; `sent`: what this core has offered to it, likewise. Ids of earlier
    lives are in the log; those of this life were offered by this core."""
    for state in (machines.logged.state, machines.volatile.state):
        for incarnation, sequence in newest:
            known = max(sent.get(incarnation, 0), (state.life << 32) - 1)
            if incarnation == state.incarnation and sequence > known:
                return TransferId(state.node, incarnation, sequence)
    return None


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
            peer = self._peers[node] = Peer(node, self._desk, self._opened(), self._data / "bodies")
        return peer

    def check_right(self, node: str, header: Header, size: int) -> None:
        """Check that this node may send it here. Raises TransferRefused."""
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
