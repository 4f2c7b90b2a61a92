"""The work of a core for the peers that carry its transfers: `CoreDesk` for all, and `NodeDesk` as one of them sees it.

What comes from another node is told to that node as it is on the disk: `_told` has, of each such transfer, the state
that is durable. What is for another node waits in `_new` until its peer asks for it; from then on that node says how it
ends (`Machine.carried`).

A node is its own peer for what has files: they are copied into a receiver's folder as if they came from elsewhere. The
half that arrives is another transfer then, whose id has the bit ARRIVING (`arriving_id`).

Two nodes tell each other what has come from the other one. A store that was set back to an older state finds out by
that: it gives ids anew that the other node knows, and what came under them would be dropped there as a duplicate.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from rtmw.clock import CLOCK
from rtmw.errors import LogFull
from rtmw.transfer.address import Address, lives_meant
from rtmw.transfer.carry.desk import End, Work
from rtmw.transfer.core.machines import Machines
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import (
    ArriveRun,
    Came,
    EndsConfirmed,
    Event,
    Moved,
    MovedRun,
    Note,
    PassOver,
    SendTransfer,
    SettleRun,
    SettleTransfer,
)
from rtmw.transfer.header import Delivery, Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, Spooled, TransferId, TransferState, arriving_id, own_id
from rtmw.transfer.spool import Spool
from rtmw.transfer.store import is_volatile
from rtmw.transfer.wire.frames import Offer

__all__ = ["CoreDesk", "Host", "NodeDesk"]

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
    """The work of one core for all its peers; see the head of this file. Not for several threads."""

    def __init__(self, host: Host) -> None:
        self.host, self._machines = host, host.machines
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
        if item is not None:
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
        logged: dict[int, TransferState] = {}
        volatile: dict[int, TransferState] = {}
        for id, state in states.items():
            item = self.outgoing(id)
            if item is not None and item.state is not state:
                (volatile if is_volatile(item.lsn) else logged)[item.lsn] = state
        try:
            for run in filter(None, (logged, volatile)):
                self.host.submit(SettleRun(run), run is logged)
        except LogFull:
            return False
        return True

    async def _settle(self, item: Item, state: TransferState, cause: str) -> None:
        machine = self._machines.of(item.lsn)
        while item.lsn in machine.state.items and item.state is not state:
            try:
                self.host.submit(SettleTransfer(item.lsn, state, cause), machine is self._machines.logged)
            except LogFull:
                await asyncio.sleep(_AGAIN_S)
            except TransferRefused:
                break
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

    def look(self, id: TransferId) -> End | None:
        found = self._told.get(id.node, {}).get(id)
        if found is None and id in self._machines.logged.state.seen and not self._has(id):
            return TransferState.REFUSED, "it has come before, and how it ended is forgotten; send it again"
        return found

    def _has(self, id: TransferId) -> bool:
        return bool(self._items(id)) or id in self._machines.logged.state.owed

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        return [(id, end) for id, end in self._told.get(node, {}).items() if end[0] in ENDED]

    def settled(self, ids: Collection[TransferId]) -> None:
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
        for item in self._items(id):
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

    def check_address(self, header: Header) -> None:
        """Check that the address means somebody. Raises TransferRefused: nobody is meant."""
        lives_meant(header.to, self._machines.logged.receivers)

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        held = await self._take_over(body, header.length) if isinstance(body, Path) else body
        logged = header.delivery is Delivery.LOG
        try:
            self.host.submit(SendTransfer(header, held, sender, 0, id), logged)
        finally:
            state = (self._machines.logged if logged else self._machines.volatile).state
            if isinstance(held, Spooled) and held.name not in state.bodies:
                self.host.spool.remove(held.name)

    def arrive_run(self, header: Header, sender: str, letters: dict[TransferId, bytes]) -> bool:
        try:
            done: bool = self.host.submit(ArriveRun(header, sender, letters), header.delivery is Delivery.LOG)
        except (LogFull, TransferRefused):
            return False
        return done

    async def _take_over(self, body: Path, size: int) -> Spooled:
        """Give the file a second name: the first one goes when the log has the transfer, so a crash loses nothing."""
        name = self.host.spool_name()
        held = Spooled(name, size)
        os.link(body, self.host.spool.path(held))
        await asyncio.to_thread(self.host.spool.sync)
        return held

    def take_raw(self, header: Header, body: bytes, sender: str) -> None:
        """Take a SMALL_RAW. It gets an id of this node, since its own never counted."""
        self.host.submit(SendTransfer(header, body, sender), logged=False)

    # ---- what has moved ----

    def to_say(self, note: Note) -> Callable[[Carries], None] | None:
        """Return the call that tells peers when the note is durable; None: nothing is told."""
        if isinstance(note, Moved | MovedRun):
            return self._moved(note) if isinstance(note, Moved) else self._moved_run(note)
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
        item, id = note.item, note.id
        if item is None:
            return None
        if item.record.header.to.node:
            return self._moved_out(note, item)
        if self._is_own(id):
            return None
        end = self.end_of(id)
        is_own = self._is_own(own_id(id))

        def say(peers: Carries) -> None:
            if end is not None:
                self._tell(id, end)
                peers.moved(own_id(id) if is_own else id, *end, is_own=is_own)

        return say

    def _moved_run(self, note: MovedRun) -> Callable[[Carries], None] | None:
        """Return the call for a run. None of its letters is a copy of another, so each is as it has moved."""
        come = [one.record.id for one in note.items if not (one.record.header.to.node or self._is_own(one.record.id))]
        over = [one for one in note.items if one.record.header.to.node] if note.state in ENDED else []
        for item in over:
            self._machines.of(item.lsn).carried.discard(item.lsn)

        def say(peers: Carries) -> None:
            for item in over:
                peers.ended(item.record.id)
            for id in come:
                self._tell(id, (note.state, ""))
                peers.moved(id, note.state, "", is_own=False)

        return say if over or come else None

    def _moved_out(self, note: Moved, item: Item) -> Callable[[Carries], None] | None:
        """Return the call for a transfer for another node; None: nothing is told."""
        if item.lsn not in self._machines.of(item.lsn).state.items:
            self._machines.of(item.lsn).carried.discard(item.lsn)
            return lambda peers: peers.ended(note.id)
        if note.state is not TransferState.ACCEPTED:
            return None

        def say(peers: Carries) -> None:
            self.add_waiting(item)
            peers.ready(item.record.header.to.node)

        return say

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


class NodeDesk:
    """The work of the core for one peer (carry/desk.py). `may`: raises TransferRefused for what the peer has no right
    to send. `is_self`: the peer is this core."""

    def __init__(self, core: CoreDesk, may: Callable[[Header, int], None], *, is_self: bool) -> None:
        self._core, self._may, self._is_self = core, may, is_self

    def _arriving(self, id: TransferId) -> TransferId:
        return arriving_id(id) if self._is_self else id

    def waiting(self, node: str) -> Iterable[Item]:
        return self._core.waiting(node)

    def newest_of(self, node: str) -> Sequence[tuple[int, int]]:
        return _newest_of(self._core.host.machines, node)

    def has_had(self, node: str, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> None:
        unknown = None if self._is_self else _unknown_of(self._core.host.machines, newest, sent)
        if unknown is not None:
            self._core.host.is_behind(node, unknown)

    def report(self, id: TransferId, state: TransferState, cause: str) -> Work:
        return self._core.report(id, state, cause)

    def report_run(self, states: Mapping[TransferId, TransferState]) -> bool:
        return self._core.report_run(states)

    def durable(self) -> Work:
        return self._core.host.durable()

    def delayed(self, id: TransferId) -> None:
        if self._is_self:
            self._core.delayed(id)

    def spool(self, body: Spooled) -> Path:
        return self._core.host.spool.path(body)

    async def folder(self, to: Address) -> Path | None:
        return await self._core.folder(to)

    def check(self, header: Header, size: int) -> None:
        self._may(header, size)
        self._core.check_address(header)

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        if isinstance(body, bytes):
            self._may(header, len(body))
        await self._core.arrive(header, body, sender, self._arriving(id))

    def arrive_run(self, header: Header, sender: str, letters: dict[TransferId, bytes]) -> bool:
        if self._is_self:  # it has files only, which are no letters
            return False
        try:
            self._may(header, header.length)
        except TransferRefused:
            return False
        return self._core.arrive_run(header, sender, letters)

    def look(self, id: TransferId) -> End | None:
        return self._core.look(self._arriving(id))

    def withdraw(self, id: TransferId) -> Work:
        return self._core.withdraw(self._arriving(id))

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        return [(own_id(id) if self._is_self else id, end) for id, end in self._core.owed(node)]

    def settled(self, ids: Collection[TransferId]) -> None:
        self._core.settled([arriving_id(id) for id in ids] if self._is_self else ids)

    def freed(self, offer: Offer, cause: str) -> None:
        self._core.host.freed(offer, cause)

    def take_raw(self, header: Header, body: bytes, sender: str) -> None:
        self._may(header, len(body))
        self._core.take_raw(header, body, sender)


def _newest_of(machines: Machines, node: str) -> list[tuple[int, int]]:
    """Return each incarnation of the node of which something has come, and its largest sequence that has."""
    known = [machine.state.seen.marks.get(node, {}) for machine in (machines.logged, machines.volatile)]
    return [(incarnation, mark.high) for marks in known for incarnation, mark in marks.items() if mark.high >= 0]


def _unknown_of(machines: Machines, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> TransferId | None:
    """Return an id that another node has had of this one, which was not given by it; None: there is none. `newest`:
    what that node says, in the form of `_newest_of`; `sent`: what this core has offered to it, likewise. Ids of earlier
    lives are in the log; those of this life were offered by this core."""
    for state in (machines.logged.state, machines.volatile.state):
        for incarnation, sequence in newest:
            known = max(sent.get(incarnation, 0), (state.life << 32) - 1)
            if incarnation == state.incarnation and sequence > known:
                return TransferId(state.node, incarnation, sequence)
    return None
