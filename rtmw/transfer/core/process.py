"""The process of a core: the service with a bus, a log and a clock.

One event loop, and no thread but those of the log. A batch of frames is taken, its steps run one after the other, and
their records share a sync (`rtmw/durable_log/syncing.py`). What programs are told waits for it in their outboxes, which
never wait for a program. The end of a program is known at once, and is that of the very process that joined
(`Processes`). A `Board` states on topics that the core is there, for programs, and its errors and counters, for tools
(T11).
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import rtmw
from rtmw.clock import CLOCK
from rtmw.durable_log.syncing import Syncing
from rtmw.locks import STARTING_S, claimed
from rtmw.net.session.peers import Network
from rtmw.observe.services import COUNTERS_TOPIC, TransferCounters, TransferQueue, pack_activity
from rtmw.publisher import OwnPublisher
from rtmw.text.daemon_log import say_more
from rtmw.text.strict_json import as_json
from rtmw.transfer.address import Address, Life, Reach
from rtmw.transfer.core.effects import (
    Arrived,
    Asked,
    Do,
    Drop,
    Effect,
    Ended,
    Finish,
    Given,
    Happened,
    Key,
    Remove,
    Report,
    Steps,
    Tell,
    Ticked,
    Write,
)
from rtmw.transfer.core.peers import CoreDesk, Nodes
from rtmw.transfer.core.report import Happening, Room, counters_of, full_words, queues_of
from rtmw.transfer.core.service import Service
from rtmw.transfer.errors import TransferError
from rtmw.transfer.events import Aborted, Came, Event, Free, Moved, Now, SendTransfers, Tick
from rtmw.transfer.frames import CORE_QUEUE, CORE_TOPIC, EVENTS_TOPIC, Barrier, Frame, pack_frame, queue_of
from rtmw.transfer.limits import Limits
from rtmw.transfer.messages import Advanced, Core, Join
from rtmw.transfer.place import Lies
from rtmw.transfer.records import Spooled, TransferId
from rtmw.transfer.spool import SpoolFile
from rtmw.transfer.store import Machines, Store, Submitted, Volatile
from rtmw.transfer.wire.frames import Offer

__all__ = ["Outbox", "Process"]


class Outbox:
    """Frames for one process. A frame waits for the position up to which the log has to be durable, and for room in the
    queue of a program that does not read; there are as many as the program has asked for, and one a transfer of its
    own. How far transfers are on their way is not among them: such a program reads the next one that says so."""

    def __init__(self, domain: rtmw.Domain, slot: int) -> None:
        reliable = rtmw.Reliability.RELIABLE
        self._publisher = OwnPublisher(queue_of(slot), domain=domain, reliability=reliable, max_blocking=0)
        self._frames: deque[tuple[int, bytes]] = deque()
        self._is_behind = False
        """The program has not read for so long that its queue is full."""

    def put(self, frame: Frame, position: int) -> None:
        """Add a frame. `position`: that of the last record that has to be durable; 0: none."""
        if self._is_behind and isinstance(frame.message, Advanced) and not frame.number:
            return  # the next one says more
        self._frames.append((position, pack_frame(frame)))

    @property
    def is_needed(self) -> bool:
        """Is there something in it for somebody?"""
        return bool(self._frames) and self._publisher.subscribers > 0

    def send(self, durable: int) -> bool:
        """Send the frames that may go. False: the program's queue is full, so look again."""
        frames, self._is_behind = self._frames, False
        while frames and frames[0][0] <= durable:
            with suppress(rtmw.MessageTooLarge):
                self._is_behind = not self._publisher.publish(frames[0][1])
            if self._is_behind:
                return False
            frames.popleft()
        return True

    def close(self) -> None:
        self._publisher.close()


class Processes:
    """Watches processes, in the running event loop. `ended`: is called with a life of a process that has ended, whose
    generation counts for nothing."""

    def __init__(self, ended: Callable[[frozenset[Life]], None]) -> None:
        self._ended = ended
        self._watched: dict[tuple[int, int], int] = {}
        """Descriptors by processes; -1: there was none left, so it is looked now and then whether the process runs."""

    def watch(self, life: Life) -> bool:
        """Watch the process of this life. False: it has ended already."""
        process = life.pid, life.start
        if process in self._watched:
            return True
        try:
            descriptor = os.pidfd_open(life.pid)
        except ProcessLookupError:
            return False
        except OSError as error:
            log.warning("process %d is looked at each %g s, for it cannot be watched: %s", life.pid, _LOOK_S, error)
            self._look_later(life)
            return True
        if not life.lives():  # asked behind pidfd_open, so the descriptor is of this process and no later one
            os.close(descriptor)
            return False
        self._watched[process] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._gone, life)
        return True

    def _look_later(self, life: Life) -> None:
        self._watched[life.pid, life.start] = -1
        asyncio.get_running_loop().call_later(_LOOK_S, self._look, life)

    def _look(self, life: Life) -> None:
        if (life.pid, life.start) not in self._watched:
            return
        with suppress(OSError):  # no descriptor to look with either
            if not life.lives():
                self._gone(life)
                return
        self._look_later(life)

    def _gone(self, life: Life) -> None:
        self._unwatch((life.pid, life.start))
        self._ended(frozenset({life}))

    def _unwatch(self, process: tuple[int, int]) -> None:
        descriptor = self._watched.pop(process)
        if descriptor >= 0:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for process in list(self._watched):
            self._unwatch(process)


Counted: TypeAlias = tuple[TransferCounters, list[TransferQueue]]

EVERY_S: Final = 1.0
SHARE: Final = 20
"""Counting may take one part in this many of the core's time."""


class Board:
    """States on topics that the core is there, its errors, and its counters. Never waits. Close it."""

    def __init__(self, domain: rtmw.Domain, node: str) -> None:
        self._core = OwnPublisher(CORE_TOPIC, domain=domain, history=1)
        self._cores = rtmw.Subscriber(CORE_TOPIC, domain=domain)
        me, start_ns = Life.of_process(), CLOCK.monotonic_ns()
        assert me is not None, "this process runs"
        self._announcement = pack_frame(Frame(me, 0, 0, Core(start_ns, node)))
        """Its start is larger than that of each core of the domain before: the memory of a domain does not outlive the
        system, and this clock does not either."""
        self._events = OwnPublisher(EVENTS_TOPIC, domain=domain, history=64)
        self._counters = OwnPublisher(COUNTERS_TOPIC, domain=domain, history=1, depth=1)
        self._next = self._next_count = 0.0
        self._counted: Counted

    def announce(self) -> None:
        """Say that this core is there, to programs that run, and to those that come later."""
        self._core.publish(self._announcement)

    def announce_again(self) -> None:
        """Announce again if another message covers the announcement: late programs read the last one alone."""
        if any(sample._pid != os.getpid() for sample in self._cores.take_many(64)):
            self.announce()

    def tell(self, happening: Happening) -> None:
        """Publish an event as one JSON object."""
        self._events.publish(as_json(happening.row()).encode())

    def is_due(self) -> bool:
        """Is it time to say that this core is at work?"""
        return CLOCK.monotonic() >= self._next

    def say(self, count: Callable[[], Counted], full: Callable[[TransferCounters], str]) -> None:
        """Say that the core is at work. The numbers are those of before while counting anew takes too much of its time.
        `full`: returns what to say of the disk."""
        begun = CLOCK.monotonic()
        self._next = begun + EVERY_S
        if begun >= self._next_count:
            self._counted = count()
            self._next_count = begun + SHARE * (CLOCK.monotonic() - begun)
        counters, queues = self._counted
        self._counters.publish(pack_activity(counters, queues, full(counters)))

    def close(self) -> None:
        self._core.close()
        self._cores.close()
        self._events.close()
        self._counters.close()


log = logging.getLogger("rtmw.transfer")

BATCH: Final = 128
"""Number of frames that are taken at a time."""
DEPTH: Final = 4096
"""Number of frames of programs that the core may have not taken yet."""
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_TICK_S: Final = 0.1
_TICKS: Final = 3
"""Number of ticks, after which senders are told how far transfers are that are on their way."""
_LOOK_S: Final = 1.0
"""Seconds between looks whether a process runs for which there is no descriptor."""
_AGAIN_S: Final = 0.01
"""Seconds after which a full queue is tried again."""


def _now() -> Now:
    return Now(CLOCK.monotonic_ns(), CLOCK.wall_ns())


def _claim(domain: int) -> socket.socket:
    """Claim a name that one core of a domain can have, until its process ends. TransferError: it is taken."""
    held = claimed(f"rtmw-transfer-{domain}", STARTING_S)
    if held is None:
        raise TransferError(f"another node serves the transfers of domain {domain} already; stop one of them")
    return held


class Process:
    """A core, from `run` until `stop`. Errors: those of Store and Domain, and NotPermitted-like claims; see `run`."""

    def __init__(
        self, domain: rtmw.Domain, data: Path, node: str, limits: Limits | None = None, network: Network | None = None
    ) -> None:
        self._domain, self._data, self.stopping = domain, data, asyncio.Event()
        self._claim = _claim(domain.id)
        chosen = limits or Limits()
        self._store = Store(data, node=node, limits=chosen, now=_now)
        self._board = Board(domain, node)
        known = self._store.machine.state
        self._volatile = Volatile(node, known.incarnation + known.life, chosen, _now)
        self.spool, self.machines = self._store.spool, Machines(self._store.machine, self._volatile.machine, _now)
        self._service = Service(self.machines, self._store.spool.path)
        self._desk = CoreDesk(self)
        self.nodes = self._service.nodes = Nodes(self._desk, data, node, network or Network())
        self._files: dict[Key, SpoolFile] = {}
        self._syncing = Syncing(self._store._log)
        self._outboxes: dict[int, Outbox] = {}
        self._is_full = False
        self._room = Room(data, self._say_room)
        self._happened: deque[Asked] = deque()
        self._processes = Processes(self._ended)
        self.barrier = Barrier(CORE_QUEUE, self._fault)

    def obey(self, network: Network, limits: Limits) -> None:
        """Take settings that were read again."""
        self.machines.logged.limits = self.machines.volatile.limits = limits
        self.nodes.obey(network)

    # ---- the loop ----

    async def run(self) -> None:
        """Serve until `stopping` is set. Raises LogFailed: the outcome of what programs wait for is unknown to them."""
        queue = rtmw.Subscriber(
            CORE_QUEUE, domain=self._domain, reliability=rtmw.Reliability.RELIABLE, depth=DEPTH, lease=None
        )
        with queue:
            async with self.nodes:
                await self._serve(queue)

    async def _serve(self, queue: rtmw.Subscriber[bytes]) -> None:
        tasks = [asyncio.create_task(work) for work in (self._read(queue), self._syncing.run(self._send), self._tick())]
        tasks.append(asyncio.create_task(self._until_stopped()))
        self._board.announce()
        self._count()  # now: its node, and tools, tell by it whether it is at work
        self._say_how_it_lies()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _say_how_it_lies(self) -> None:
        lies = self._store.lies
        if lies is not Lies.HERE:
            log.warning("%s: ids of transfers have a new incarnation from now on", lies.value)
            self._board.tell(self._service.events.of_store(lies.value, _now().wall_ns))

    async def _until_stopped(self) -> None:
        await self.stopping.wait()

    async def _read(self, queue: rtmw.Subscriber[bytes]) -> None:
        async for first in queue:
            for sample in [first, *queue.take_many(BATCH)]:
                frame = self.barrier.frame_of(sample.data, sample._pid)
                sample.release()
                if frame is not None and (not isinstance(frame.message, Join) or self._admit(frame)):
                    self._drive(Arrived(frame))
            self._drive(Given())
            self._send()
            if self._syncing.try_sync():
                self._send()
            else:
                self._syncing.start()
            await asyncio.sleep(0)

    def _fault(self, frame: Frame, pid: int) -> str:
        """Return why a frame may not come in; empty: it may. A process speaks for its own members, and is answered on
        its own queue."""
        if frame.life.pid != pid:
            return f"its head names process {frame.life.pid}"
        member = self._service.members.get(frame.life)
        if member is not None:
            is_own = member.slot == frame.slot
        else:
            is_own = not isinstance(frame.message, Join) or self._domain.region.pid_at(frame.slot) == pid
        if is_own:
            return ""
        if not frame.life.lives():
            return (
                "it has ended before this was read, and its place among the programs of the domain is free or another's"
            )
        return f"it asks for answers to program {frame.slot} of the domain, which is another process"

    def _admit(self, frame: Frame) -> bool:
        """Let a program join: its process is watched, and has an outbox. False: it cannot."""
        if not self._processes.watch(frame.life):
            return False
        if frame.slot not in self._outboxes:
            try:
                self._outboxes[frame.slot] = Outbox(self._domain, frame.slot)
            except rtmw.LimitReached as error:
                log.warning("process %d cannot join: %s", frame.life.pid, error)
                return False
        return True

    def _end_batch(self) -> None:
        self._drive(Given())
        self._send()
        self._syncing.start()

    def _send(self) -> None:
        full = [not outbox.send(self._syncing.durable) for outbox in self._outboxes.values()]
        if any(full) and not self._is_full:
            self._is_full = True
            asyncio.get_running_loop().call_later(_AGAIN_S, self._send_again)

    def _send_again(self) -> None:
        self._is_full = False
        self._send()

    async def _tick(self) -> None:
        for tick in itertools.count():
            await asyncio.sleep(_TICK_S)
            for logged in (True, False):
                with suppress(rtmw.LogFull):  # what could not be logged is due at the next tick, too
                    for lsn in self._do(Do(Tick(), logged)) or ():
                        self.nodes.withdraw(self.machines.of(lsn).state.items[lsn])
            if tick % _TICKS == 0:
                self._drive(Ticked())
            self._drop_outboxes()
            self._board.announce_again()
            self._room.look()
            self.nodes.look_at_left(_now())
            failure = self.nodes.failure()
            if failure is not None:
                raise failure
            self._end_batch()
            self._count()

    def _count(self) -> None:
        if self._board.is_due():
            say_more(logging.getLogger())
            self._store.note_time()
            self._volatile.note_time()
            self._board.say(self._counted, self._full)

    def _counted(self) -> Counted:
        machines = self._store.machine, self._volatile.machine
        ages = zip(machines, (self._store.ages, self._volatile.ages), strict=True)
        return counters_of(machines, self._service.redelivered), queues_of(ages)

    def _full(self, kept: TransferCounters) -> str:
        return full_words(self._data, kept, self._store.log_disk(), self._room.lacks) if self._room.is_full else ""

    def _drop_outboxes(self) -> None:
        used = {member.slot for member in self._service.members.values()}
        for slot in self._outboxes.keys() - used:
            if not self._outboxes[slot].is_needed:
                self._outboxes.pop(slot).close()

    def _ended(self, lives: frozenset[Life]) -> None:
        """Let the members of a process leave that is gone."""
        pids = {(life.pid, life.start) for life in lives}
        self._drive(Ended(frozenset(m for m in self._service.members if (m.pid, m.start) in pids)))
        self._end_batch()

    # ---- effects ----

    def _drive(self, event: Asked) -> None:
        """Run the step of an event, and then those of what it has told: one after the other, never nested."""
        self._happened.append(event)
        if len(self._happened) > 1:
            return
        while self._happened:
            self._run(self._service.step(self._happened[0]))
            self._happened.popleft()

    def _run(self, steps: Steps) -> None:
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                effect = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                return
            answer = error = None
            try:
                answer = self._do(effect)
            except rtmw.LogFailed:
                raise
            except (rtmw.RtmwError, ValueError, OSError) as failure:
                error = failure

    def _do(self, effect: Effect) -> Any:
        match effect:
            case Tell(frame=frame, logged=logged):
                outbox = self._outboxes.get(frame.slot)
                if outbox is not None:
                    outbox.put(frame, self._syncing.logged if logged else 0)
            case Do(event=event, logged=logged):
                done = (self._store if logged else self._volatile).submit(event)
                if logged:
                    self._look_at_room(event, done)
                return self._follow(done, logged)
            case Write() | Finish():
                return self._spool(effect)
            case Drop(key=key):
                file = self._files.pop(key, None)
                if file is not None:
                    file.abandon()
            case Report(happening=happening, logged=logged):
                self._later(logged, lambda: self._board.tell(happening))
            case Remove(body=body):
                self._store.spool.remove(body.name)
        return None

    # ---- for the desk ----

    def submit(self, event: Event, logged: bool) -> Any:
        """Do a step of one of the machines, whose records go to the disk soon. Raises what the step raises."""
        try:
            return self._do(Do(event, logged))
        finally:
            self._end_batch()

    async def durable(self) -> None:
        """Wait until all that was logged before this call is on the disk."""
        await self._syncing.wait()

    def spool_name(self) -> str:
        return self._store.spool_name()

    def folder(self, to: Address) -> Path | None:
        """Return the folder of the newest inbox that the address means and that takes files; None: there is none."""
        for member in reversed(self._service.members.values()):
            is_meant = to.reach is not Reach.ONE or member.life.pid == to.pid
            if member.role and member.name == to.service and member.folder and is_meant:
                return Path(member.folder)
        return None

    def is_behind(self, node: str, id: TransferId) -> None:
        """End the core; the next one begins a new incarnation."""
        self._store.place.say_behind()
        raise TransferError(
            f"node {node!r} has had transfer {id} of this store, which does not know it: it was set back to an older "
            "state. It is opened anew, with a new incarnation of its ids"
        )

    def freed(self, offer: Offer, cause: str) -> None:
        """Tell tools that the part of a transfer that had come was removed, because the sending node has left it."""
        self._board.tell(self._service.events.of_part(offer, cause, _now().wall_ns))

    def _follow(self, done: Submitted, logged: bool) -> Any:
        """Carry out the notes of a step, and return its answer."""
        if done.last is not None:
            self._syncing.note(done.last, done.waits)
        told: list[Moved | Aborted | Came] = []
        for note in done.notes:
            if not isinstance(note, Free):
                told.append(note)
            else:
                self._later(logged, lambda body=note.body: self._store.spool.remove(body.name))  # type: ignore[misc]
            if (say := self._desk.to_say(note)) is not None:
                self._later(logged, lambda say=say: say(self.nodes))  # type: ignore[misc]
        if told:
            self._drive(Happened(tuple(told), logged))
        if done.failure is not None:
            raise done.failure
        return done.answer

    def _look_at_room(self, event: Event, done: Submitted) -> None:
        """Say once that the disk is full, and once that there is room again: something was sent."""
        if isinstance(done.failure, rtmw.LogFull):
            self._room.log_has_none(f"nothing that is logged is accepted: {done.failure}")
        elif isinstance(event, SendTransfers):
            self._room.log_has_some()

    def _say_room(self, why: str) -> None:
        """Tell tools of the disk. `why`: what is not accepted, and why; empty: there is room."""
        cause = f"{why}. Now {self._full(self._counted()[0])}" if why else ""
        if why:
            log.warning("%s", cause)
        else:
            log.info("there is room again")
        self._board.tell(self._service.events.of_disk(cause, _now().wall_ns))

    def _later(self, logged: bool, work: Callable[[], object]) -> None:
        if logged:
            self._syncing.later(work)
        else:
            work()

    def _spool(self, effect: Write | Finish) -> Spooled | None:
        """Write to the spool. OSError: the disk has no room, which is told, or has failed; the body is gone."""
        try:
            if isinstance(effect, Write):
                self._write(effect)
                return None
            body = self._files[effect.key].finish()
        except OSError as error:
            file = self._files.pop(effect.key, None)
            if file is not None:
                file.abandon()
            if error.errno not in NO_ROOM:
                raise
            raise OSError(self._room.spool_has_none(effect.size)) from error
        del self._files[effect.key]
        self._room.spool_has_some()
        return body

    def _write(self, effect: Write) -> None:
        file = self._files.get(effect.key)
        if file is None:
            file = self._store.spool.receive(self._store.spool_name(), effect.durable)
            self._files[effect.key] = file
        file.write(effect.data)

    # ---- end ----

    def close(self) -> None:
        """Close the core. Transfers stay; programs find the next core. LogFailed, if nobody was told of it yet."""
        for file in self._files.values():
            file.abandon()
        self._processes.close()
        for outbox in self._outboxes.values():
            outbox.close()
        self._board.close()
        with suppress(rtmw.ClosedError):
            self._claim.close()
        self._store.close()
