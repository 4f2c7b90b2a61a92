"""A member: one log on this node. It carries out what a `Replica` decides: disk, sessions, store, clock.

    requests of guests ──┐                        ┌──► answers
    messages of nodes ───┼─► Replica.step ─► effects ──► messages, batches, marks, the control store
    disk, store, timer ──┘                        └──► commit: readers go on

All that came in one turn of the loop is stepped first; what was appended then shares one sync.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

from rtmw.clock import CLOCK
from rtmw.disk import DISK
from rtmw.durable_log.syncing import FAST_S, SYNCS
from rtmw.errors import LogDamaged, LogError, LogFailed, RtmwError
from rtmw.log import Folder
from rtmw.log.copied import set_aside, settle
from rtmw.replica import words as w
from rtmw.replica.control.store import Outcome, Store
from rtmw.replica.protocol import Replica
from rtmw.replica.wal import LogWal, MarksFile
from rtmw.replica.wire import control_in, member_id, node_of, pack_control
from rtmw.replica.words import Role

__all__ = ["Identity", "Member", "Nodes"]

log = logging.getLogger("rtmw.replica")

PART: Final = 512 << 10
"""Bytes of the log that are sent at once; a batch that is larger goes alone, and is read twice."""
_HERE: Final = 256 << 10
"""More bytes than this are synced by the log's thread, also on a fast disk: the loop takes the next ones meanwhile."""
_ROOM_S: Final = 0.01
"""An append that has to wait for room is tried again after so long, if nothing has said before that there is some."""
_SLOW_S: Final = 10.0
"""The slowest sync is told for so long."""
_LOOK_S: Final = 1.0
_RETAIN: Final = 10
"""After so many looks, it is looked whether old segments go."""
_HELD: Final = (w.Append, w.Resolve)


class Nodes(Protocol):
    """The sessions with other nodes, as a member uses them."""

    @property
    def has_one_log(self) -> bool:
        """Nothing else waits while this loop syncs a log."""
        ...

    def send(self, log: Member, to: str, message: w.Message) -> None:
        """Lost, if there is no session with the node of that member."""

    def ship(self, log: Member, to: str) -> None:
        """There is something for it: `Member.part` is called until it gives nothing more."""

    async def copy(self, log: Member, to: str) -> bool:
        """The log of that member, in place of this one. False: it did not come. Raises LogError, OSError."""
        ...


@dataclass(frozen=True)
class Identity:
    """What a node knows for good of its copy of a log: `data/marks/NAME.json`."""

    name: str
    uuid: bytes
    copy: bytes
    """The uuid of the copy."""
    description: bytes
    """Description of the type."""

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Raises LogError."""
        try:
            told = json.loads(path.read_bytes())
            return cls(told["name"], *(bytes.fromhex(told[key]) for key in ("uuid", "copy", "description")))
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"{path} is not as it was written ({error}); restore it from a copy") from None

    def write(self, path: Path) -> None:
        told = {"name": self.name} | {key: getattr(self, key).hex() for key in ("uuid", "copy", "description")}
        DISK.make_folders(path.parent)
        DISK.replace(path, json.dumps(told).encode() + b"\n", 0o600)


class Member:
    """From `begin` until `close`, in one event loop."""

    def __init__(self, data: Path, node: str, identity: Identity, store: Store, nodes: Nodes) -> None:
        """Recovers the log, in a thread that is not that of the loop. Raises LogError and its kind, OSError."""
        self.name, self.uuid, self.description = identity.name, identity.uuid, identity.description
        self.identity, self.node = identity, node
        self.me = member_id(node, identity.copy)
        self.path = data / "logs" / self.name
        self._marks = MarksFile(data / "marks" / f"{self.name}.marks")
        self._was_lost = False
        self.wal = self._open()
        self._marks.life += 1
        self._marks.keep(self._marks.marks)
        self.replica = Replica(self.me, self.wal, self._marks.marks, self._marks.life, self._marks.others)
        self.committed = 0
        """Readers may read to here."""
        self.is_open = True
        """The log may be read; not while it is cut, or copied anew."""
        self.failed: Exception | None = None
        """The process has to start again."""
        self.trouble = ""
        """Why the control store's value cannot be used; empty: it can."""
        self.stray = ""
        """Why this copy is no member; empty: it is one, or the store has not been asked."""
        self.refusal = ""
        """Why the last message of another member was passed over; empty once a master is followed."""
        self.notes = Counter[int]()
        self.copying = ""
        """How far that is, or what it waits for."""
        self._store, self._nodes = store, nodes
        self._events, self._held = deque[w.Event](), deque[w.Event]()
        self._tried = asyncio.Event()
        self._is_busy = self._syncs = False
        self._sync_s = self._sync_begun = 0.0
        """How long a sync takes on average, and when the one began that is under way; 0: none is."""
        self._slowest = 0.0, 0.0
        """How long the slowest sync of the last seconds took, and when it ended."""
        self.ticket = count(1).__next__
        """The number of a new request."""
        self._asks = dict[int, Callable[[w.Answer], None]]()
        self._shipping = dict[str, w.Ship]()
        self._listeners = dict[int, Callable[[], None]]()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        self._durable, self._role = 0, Role.SLAVE
        self._checkpoint = (-1, 0.0)
        """What it is, and since when."""
        self._at_disk = asyncio.Lock()
        self._tasks = set[asyncio.Task[None]]()

    def _open(self) -> LogWal:
        """One that is damaged is set aside where others have it: this one begins empty, to be copied (rule 13)."""
        settle(self.path)
        if self._marks.life > 0 and not (self.path / "log").exists():
            self._be_another()
        try:
            return LogWal(self.path, self.uuid, self.description)
        except LogDamaged as error:
            if len(self._marks.others) < 2:
                raise
            log.error("log %s is set aside, and copied anew: %s", self.name, error)
            self._be_another()
            set_aside(self.path)
            return LogWal(self.path, self.uuid, self.description)

    def _be_another(self) -> None:
        """Durably, before there is a log that has less: no start after this one takes that for all there was."""
        marks = self._marks.marks
        self._marks.keep(marks._replace(incarnation=marks.incarnation + 1, checkpoint=0))
        self._was_lost = True

    @property
    def folder(self) -> Folder:
        return self.wal.folder

    @property
    def earliest(self) -> int:
        return self.wal.earliest

    def begin(self) -> None:
        """It takes part from now on."""
        self._durable = self.wal.durable
        asyncio.get_running_loop().add_reader(self.wal.watch(), self._rung)
        if not self._was_lost:  # what readers of the folder are shown was final before
            self.replica.commit = self.committed = min(self.folder.bounds()[1], self.wal.durable)
        self._carry_out(self.replica.begin(CLOCK.monotonic(), self._was_lost))
        self._start(self._look())
        self._set_timer()

    async def close(self) -> None:
        """Who waits is told MOVED. LogFailed: the log had failed."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.wal.watch())
        self._tried.set()
        if self._timer is not None:
            self._timer.cancel()
        async with self._at_disk:  # a thread that is there cannot be cancelled
            self.is_open, tasks = False, list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.is_open = False  # a copy that was broken off has opened the log again
        for ticket in list(self._asks):
            self._answer(w.Answer(ticket, w.Reply.MOVED))
        for call in list(self._listeners.values()):  # a reader looks again, and is told that there is no such log here
            call()
        try:
            await asyncio.to_thread(self.wal.close)
        finally:
            self.wal.forget()

    # ---- what guests ask ----

    def ask_many(self, events: Sequence[w.Request], heard: Callable[[w.Answer], None]) -> None:
        """Steps all in this turn. `heard` gets the answer of each; their tickets are those of `ticket`."""
        for event in events:
            self._asks[event.ticket] = heard
        self._events.extend(events)
        self._turn()

    async def ask(self, event: Callable[[int], w.Request]) -> w.Answer:
        """Waits for the answer to what is made of a ticket."""
        answer: asyncio.Future[w.Answer] = asyncio.get_running_loop().create_future()
        self.ask_many([event(self.ticket())], lambda told: None if answer.done() else answer.set_result(told))
        return await answer

    def read_raw(self, position: int, size: int) -> bytes | None:
        """Whole batches of what is committed. None: none yet. LogError: they were trimmed; LogDamaged."""
        if not self.is_open:
            return None
        try:
            return self.wal.raw(position, self.committed, size)
        except LogDamaged as error:
            self.step(w.Rotten(str(error)))
            raise

    def on_commit(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls when more is committed, or less. Returns what ends that."""
        key = self.ticket()
        self._listeners[key] = call
        return lambda: self._listeners.pop(key, None) and None

    def status(self, control: w.Control | None = None) -> w.Status:
        """With the names of nodes. `control`: what the store says, if it was asked."""
        told = self.replica.status(control)
        return replace(
            told, master=node_of(told.master), in_sync=frozenset(map(node_of, told.in_sync)),
            members=frozenset(map(node_of, told.members)),
        )  # fmt: skip

    @property
    def holds(self) -> bool:
        """Batches or requests wait for room in the log."""
        return bool(self._held)

    async def next_try(self) -> None:
        """Until what waits for room was tried again, or the member closes."""
        self._tried.clear()
        await self._tried.wait()

    def lags(self) -> dict[str, tuple[int, float]]:
        """Bytes that each other member has not acknowledged, and for how many seconds, as a master knows it."""
        now = CLOCK.monotonic()
        return {
            node_of(name): (self.wal.end - peer.acked, now - peer.wanted[1] if peer.wanted else 0.0)
            for name, peer in self.replica.peers.items()
        }

    def slowest_sync(self) -> float:
        """Seconds that the slowest sync of the last ones took, or that the present one takes already."""
        now, (took, at) = CLOCK.monotonic(), self._slowest
        present = now - self._sync_begun if self._sync_begun else 0.0
        return max(present, took if now - at < _SLOW_S else 0.0)

    def checkpoint_age(self) -> float:
        """Seconds for which records that are committed lie above a checkpoint that does not rise; to a second."""
        checkpoint, now = self.replica.status().checkpoint, CLOCK.monotonic()
        if checkpoint != self._checkpoint[0] or checkpoint >= self.committed:
            self._checkpoint = checkpoint, now
        return now - self._checkpoint[1]

    # ---- what other nodes say ----

    def hear(self, node: str, copy: bytes, message: w.Message) -> None:
        self.step(w.Received(member_id(node, copy), message))

    def lost(self, node: str) -> None:
        """There is no session with this node, or its host refuses one."""
        for member in self.replica.control.members or self._marks.others:
            if node_of(member) == node:
                self._shipping.pop(member, None)
                self.step(w.Lost(member))

    def part(self, to: str) -> w.Batches | None:
        """The next batches for another member. None: there is nothing more for now."""
        ship, replica = self._shipping.get(to), self.replica
        if ship is None or not self.is_open or replica.role is not Role.MASTER or replica.epoch != ship.epoch:
            return None
        try:
            data = self.wal.raw(ship.start, ship.end, PART)
        except LogDamaged as error:
            self.step(w.Rotten(str(error)))
            return None
        except LogError:  # trimmed meanwhile: heartbeats say from where on it is there
            return None
        if data is None:
            return None
        self._shipping[to] = ship._replace(start=ship.start + len(data))
        return w.Batches(ship.epoch, ship.start, data, replica.commit)

    # ---- steps ----

    def step(self, *events: w.Event) -> None:
        self._events.extend(events)
        self._turn()

    def _turn(self) -> None:
        if self._is_busy or self.failed is not None:
            return
        self._is_busy = True
        try:
            while self._events:
                self._step(self._events.popleft())
            if self.is_open and self.wal.end > self._durable and not self._syncs:
                self._syncs = True
                asyncio.get_running_loop().call_soon(self._sync)
        except Exception as error:  # the state may be ahead of the disk: the next process begins with what is there
            self.failed = error
            log.error("log %s: %r", self.name, error, exc_info=error)
        finally:
            self._is_busy = False
        self._set_timer()

    def _step(self, event: w.Event) -> None:
        is_request = isinstance(event, _HELD)
        part = None
        if not is_request and isinstance(event, w.Received) and isinstance(event.message, w.Batches):
            part = event.message
        if self._held and (is_request or part is not None):
            self._held.append(event)
            return
        try:
            leads = not (is_request and self._events and isinstance(self._events[0], _HELD))
            try:
                self.replica.step(event, CLOCK.monotonic(), leads=leads)
            finally:
                self._carry_out(self.replica.effects)
        except TimeoutError:
            if part is not None and part.position < self.wal.end:  # some of it had room
                rest = part._replace(position=self.wal.end, data=part.data[self.wal.end - part.position :])
                event = w.Received(event.peer, rest)  # type: ignore[union-attr]
            self._held.append(event)
            asyncio.get_running_loop().call_later(_ROOM_S, self._rung)
        except LogFailed as error:
            self._fail(error)
        except LogDamaged as error:
            self._events.append(w.Rotten(str(error)))
        except (ValueError, RtmwError) as error:  # of a peer or a guest that is not as it should be
            if isinstance(event, _HELD):
                self._answer(w.Answer(event.ticket, w.Reply.REFUSED, words=str(error)))
            else:
                self.refusal = _named(str(error))
            say = log.error if isinstance(error, LogError) else log.warning
            say("log %s: a message is passed over: %s", self.name, error)

    def _carry_out(self, effects: Sequence[w.Effect]) -> None:
        for place, effect in enumerate(effects):
            try:
                _CARRIED[type(effect)](self, effect)
            except Exception:
                self._carry_out(effects[place + 1 :])
                raise
        replica = self.replica
        if replica.role is not self._role:
            self._role = replica.role
            epoch = f", epoch {replica.epoch}" if replica.epoch else ""
            log.info("log %s: %s is %s%s", self.name, self.node, self._role.value, epoch)

    def _sync(self) -> None:
        """Behind what this turn ships. On a fast disk here: that spares two hand-overs between threads."""
        self._syncs = False
        if not self.is_open or self.failed is not None or self.wal.end <= self._durable:
            return
        self._sync_begun = self._sync_begun or CLOCK.monotonic()  # it may be under way since an earlier turn
        is_fast = self._sync_s <= FAST_S and self._nodes.has_one_log and self.wal.end - self._durable <= _HERE
        if is_fast and self.wal.try_sync():
            self._synced()
        else:
            self.wal.sync()

    def _set_timer(self) -> None:
        """A timer that is set for earlier stays: it finds nothing to do."""
        due = self.replica.due
        if due >= self._timer_due or self.failed is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later(max(0.0, due - CLOCK.monotonic()), self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_due = None, math.inf
        self.step(w.Tick())

    def _rung(self) -> None:
        """More is durable, or there is room, or the writer has failed."""
        self.wal.hear()
        self._synced()
        self._tried.set()

    def _synced(self) -> None:
        if not self.is_open:
            return
        try:
            self.wal.check()
        except LogFailed as error:
            self._fail(error)
            return
        held, self._held = self._held, deque[w.Event]()
        if self.wal.durable > self._durable:
            self._durable = self.wal.durable
            if self._sync_begun:
                now = CLOCK.monotonic()
                took, self._sync_begun = now - self._sync_begun, 0.0
                self._sync_s += (took - self._sync_s) / SYNCS
                if took >= self._slowest[0] or now - self._slowest[1] >= _SLOW_S:
                    self._slowest = took, now
            self._events.append(w.Synced())
        if held or self._events:
            self.step(*held)

    async def _look(self) -> None:
        for turn in count():
            await asyncio.sleep(_LOOK_S)
            self.checkpoint_age()
            if self.replica.epoch:
                self.refusal = self.stray = ""
            if self.is_open and turn % _RETAIN == 0 and self.replica.role is Role.MASTER:
                await self._retain()
            if self.is_open:
                self.wal.earliest = self.folder.bounds()[0]
                if self.replica.is_full and self.wal.has_room():
                    self.step(w.Room())

    async def _retain(self) -> None:
        """Only the master's clock trims: all members begin where it says."""
        settings = self.replica.control.settings
        if not (settings.age or settings.bytes):
            return
        with suppress(OSError, LogError):  # a segment that was trimmed just now; damage is found by who reads
            self.step(
                w.TrimTo(await asyncio.to_thread(self.wal.retained, settings.age, settings.bytes, CLOCK.wall_ns()))
            )

    # ---- effects ----

    def _send(self, effect: w.Send) -> None:
        self._nodes.send(self, effect.peer, effect.message)

    def _ship(self, effect: w.Ship) -> None:
        ship = self._shipping.get(effect.peer)
        if ship is not None and ship.epoch == effect.epoch and ship.end == effect.start:
            effect = effect._replace(start=ship.start)
        self._shipping[effect.peer] = effect
        self._nodes.ship(self, effect.peer)

    def _commit(self, effect: w.Commit) -> None:
        self.committed = effect.position
        if self.is_open:
            self.wal.commit(effect.position)
        self._tell()

    def _tell(self) -> None:
        for call in list(self._listeners.values()):
            call()

    def _trim(self, effect: w.Trim) -> None:
        self.wal.trim(effect.position)

    def _answer(self, effect: w.Answer) -> None:
        heard = self._asks.pop(effect.ticket, None)
        if heard is not None:
            if effect.words:
                effect = effect._replace(words=_named(effect.words))
            heard(effect)

    def _note(self, effect: w.Note) -> None:
        self.notes[effect.rule] += 1
        if effect.rule in _TOLD:
            log.info("log %s: %s", self.name, _named(effect.words))

    def _keep(self, effect: w.Keep) -> None:
        self._marks.others = self.replica.control.members or self._marks.others
        self._in_thread(partial(self._marks.keep, effect.marks), w.Done(effect))

    def _truncate(self, effect: w.Truncate) -> None:
        log.warning("log %s: what lies behind %d is cut, up to %d", self.name, effect.end, self.wal.end)
        self._in_thread(partial(self.wal.truncate, effect.end), w.Done(effect), closes=True)

    def _in_thread(self, work: Callable[[], None], then: w.Event, *, closes: bool = False) -> None:
        self.is_open = self.is_open and not closes
        self._start(self._worked(work, then, closes))

    async def _worked(self, work: Callable[[], None], then: w.Event, closes: bool) -> None:
        """One after the other, so that marks are kept in their order."""
        async with self._at_disk:
            try:
                await asyncio.to_thread(work)
            except (OSError, LogError) as error:
                self._fail(error)
                return
        if closes:
            self.opened()
        self.step(then)

    def _fail(self, error: Exception) -> None:
        self.failed = error
        self._carry_out(self.replica.step(w.Failed(str(error)), CLOCK.monotonic()))

    def opened(self) -> None:
        """The log was cut, or copied anew: it is open again. What waited for room is asked again, or comes again."""
        self.is_open, self._durable, self._sync_begun = True, self.wal.durable, 0.0
        held, self._held = self._held, deque[w.Event]()
        for event in held:
            if isinstance(event, _HELD):
                self._answer(w.Answer(event.ticket, w.Reply.MOVED))
        self._tried.set()
        self._tell()

    def _refetch(self, effect: w.Refetch) -> None:
        self._start(self._copied(effect.peer))

    async def _copied(self, peer: str) -> None:
        try:
            is_done = await self._nodes.copy(self, peer)
        except (OSError, LogError) as error:
            log.warning("log %s: it is not copied from %s: %s", self.name, node_of(peer), error)
            is_done = False
        self.step(w.Refetched(is_done))

    # ---- the store ----

    def _read_store(self, effect: w.ReadStore) -> None:
        self._start(self._read(effect.number, with_slices=self.replica.role is Role.CANDIDATE))

    async def _read(self, number: int, *, with_slices: bool) -> None:
        value = await self._store.read(self.name, slices=with_slices)
        answer = w.Read(number, 0, None)
        if value is not None:
            try:
                control = self._control(value.version, value.state)
                slices = tuple(value.slices[one.start] for one in control.slices) if with_slices else ()
                if any(len(data) != one.end - one.start for one, data in zip(control.slices, slices, strict=False)):
                    raise ValueError("a slice of the cache is not as long as the state says")
                answer = w.Read(number, value.version, control, slices, bool(self._store.tight))
                self.trouble = ""
                self._know(control.members)
            except (ValueError, KeyError) as error:
                self.trouble = f"{self._store.where}: log {self.name}: {error}"
                log.warning("%s", self.trouble)
        self.step(answer)

    def _know(self, members: frozenset[str]) -> None:
        """Says once that this copy is none of them."""
        was, self.stray = self.stray, ""
        if self.me not in members:
            twins = [node_of(one) for one in members if one.endswith(self.identity.copy.hex())]
            whose = f": it is that of node {twins[0]}, whose data was copied" if twins else ""
            self.stray = f"the copy of {self.node} is no member of the log{whose}"
        if self.stray and not was:
            advice = f"`rtmw log members {self.name} add {self.node}` gives it another"
            log.error("log %s: %s; %s", self.name, self.stray, advice)

    def _control(self, version: int, state: bytes) -> w.Control:
        """Raises ValueError."""
        if not version or not state:
            raise ValueError("there is no such log; if its creation was not finished, create it again")
        uuid, control = control_in(state)
        if uuid != self.uuid:
            raise ValueError(
                f"it is another one there, {uuid.hex()}; this node's copy in {self.path} is {self.uuid.hex()}"
            )
        return control

    def _change_store(self, effect: w.ChangeStore) -> None:
        slices: dict[int, bytes | None] = {one.start: None for one in effect.control.slices}
        if effect.put is not None:
            slices[effect.put.start] = self.wal.raw(*effect.put, effect.put.end - effect.put.start)
        self._start(self._change(effect, slices))

    async def _change(self, effect: w.ChangeStore, slices: dict[int, bytes | None]) -> None:
        state = pack_control(self.uuid, effect.control)
        done = await self._store.change(self.name, effect.version, state, slices)
        if done.outcome is Outcome.UNKNOWN:
            log.warning("log %s: %s", self.name, self._store.fault)
        self.step(w.Changed(effect.number, done.outcome, done.version, bool(self._store.tight)))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed = self.failed or (error if isinstance(error, Exception) else RuntimeError(str(error)))
            log.error("log %s: %r", self.name, error, exc_info=error)


def _named(words: str) -> str:
    """Members by the names of their nodes, for people."""
    return re.sub(r"\.[0-9a-f]{32}\b", "", words)


_TOLD: Final = frozenset({7, 8, 9, 13})
"""Rules of which operators want to read: switches, and members that leave and come back."""
_CARRIED: Final = w.methods(Member, "_", w.Effect)
