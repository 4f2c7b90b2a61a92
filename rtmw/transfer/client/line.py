"""The line from a process to the core of its host: one for all senders and inboxes of a domain.

Frames go out from the thread that asks. One thread of the line hears what the core says, gives answers to who waits,
and tells members of what has moved. When a core was started anew, the line joins its members again, and asks again
what was not answered: the core knows the numbers of what it has done already.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import rtmw
from rtmw.clock import CLOCK
from rtmw.domain import domain_of
from rtmw.errors import ClosedError, RtmwError, SweptError
from rtmw.transfer.address import Life
from rtmw.transfer.client.group import Group, Owner
from rtmw.transfer.client.pending import Pending
from rtmw.transfer.client.waiting import Signal, wake
from rtmw.transfer.errors import CoreNotRunning, TransfersDamaged
from rtmw.transfer.frames import CORE_QUEUE, CORE_TOPIC, Frame, pack_frame, queue_of, unpack_frame
from rtmw.transfer.header import Header
from rtmw.transfer.messages import Commit, Core, Join, Message, Send

__all__ = ["Line", "Member"]

DEPTH: Final = 4096
MOST_PENDING: Final = 1024
"""Requests without an answer, of all members; then a send waits."""
GRACE_S: Final = 10.0
"""So long a program waits for a core that is started anew."""
FIRST_S: Final = 1.0
"""So long a new member waits for a core that is not there."""
_LOOK_S: Final = 0.2
_AGAIN_S: Final = 0.001
_OTHERS: Final = 1 << 63
"""Numbers of requests that may be asked twice begin here."""

Place: TypeAlias = tuple[Group, int]
"""Of a letter: its group, and its index there."""

_generations = itertools.count(1)
_lines: weakref.WeakValueDictionary[int, Line] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _lines.clear()


os.register_at_fork(after_in_child=_after_fork)


class Member(Protocol):
    """A sender or an inbox, as its line sees it. The line keeps it; it leaves when it is closed."""

    _life: Life

    @property
    def _join(self) -> Join:
        """How it joins the core of this moment."""
        ...

    def _told(self, message: Message) -> None:
        """What nobody has asked for. In the thread of the line."""
        ...

    def _core_changed(self) -> None:
        """Another core is there, which knows of this member again. In the thread of the line."""
        ...


def new_life() -> Life:
    """Of a member of this process."""
    life = Life.of_process(generation=next(_generations))
    assert life is not None, "this process runs"
    return life


def _left(end: float | None) -> float | None:
    """Seconds until this time; None: no limit."""
    return None if end is None else max(0.0, end - CLOCK.monotonic())


class Line:
    """See the head of this file. Any thread."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self._domain = domain
        region = domain.region
        self._slot = next(row[0] for row in region.participants() if row[1] == os.getpid())
        reliable = rtmw.Reliability.RELIABLE
        self._heard = rtmw.Subscriber(queue_of(self._slot), domain=domain, reliability=reliable, depth=DEPTH)
        self._cores = rtmw.Subscriber(CORE_TOPIC, domain=domain, history=1)
        self._queue = rtmw.Publisher(CORE_QUEUE, domain=domain, reliability=reliable, max_blocking=0.1)
        self._try = rtmw.Publisher(CORE_QUEUE, domain=domain, reliability=reliable, max_blocking=0)
        self.changed = Signal()
        """A core came or went, requests were answered, or the line was closed."""
        self.core: Life | None = None
        self.start = 0
        """Of the core: another number for each."""
        self.node = ""
        self._has_heard = False
        """Of a core, which may have ended since."""
        self._gone_at = CLOCK.monotonic()
        """Since when there is no core."""
        self._members: dict[Life, Member] = {}
        self._pending: dict[tuple[Life, int], Pending | Group] = {}
        """By the number of the request; of a group, that of its first letter."""
        self._numbers: dict[Life, int] = {}
        """Of the next Send or Commit of each member."""
        self._gathered: dict[Life, Group] = {}
        """Letters that go out soon."""
        self._unsent: deque[Group] = deque()
        """Groups that have their numbers, and for which the queue of the core had no room yet."""
        self._grouped = 0
        """Letters in groups that are not answered."""
        self._others = itertools.count(_OTHERS)
        self._sending = threading.RLock()
        """Held while a request is noted and its frame goes out, so that none is asked twice of one core."""
        self._closed = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._hear, name="rtmw transfers", daemon=True)
        self._thread.start()

    @classmethod
    def of(cls, given: int | rtmw.Domain | None) -> Line:
        """The line of this process. `given`: as `domain` of Publisher."""
        domain = domain_of(given)
        with _lock:
            line = _lines.get(domain.id)
            if line is None or line._closed or line._domain.region is not domain.region:
                line = _lines[domain.id] = cls(rtmw.Domain(domain.id))
            return line

    # ---- members ----

    def enter(self, member: Member) -> None:
        """It joins. CoreNotRunning: there is no core, and none came for a second; or for ten, if there was one."""
        self.changed.wait(lambda: self._has_heard, FIRST_S)
        if not self._has_heard or not self.changed.wait(lambda: self.core is not None, GRACE_S):
            self._close_if_unused()
            raise self.no_core()
        with self._sending:
            self._numbers[member._life] = 1
            self._members[member._life] = member
        try:
            self.ask(member._life, member._join)
        except BaseException:
            self._forget(member._life)
            raise

    def leave(self, life: Life, message: Message) -> None:
        """It is closed; the core is told, if there is one. Idempotent."""
        with self._sending:
            if life not in self._members:
                return
        try:
            if self.core is not None:
                self.ask(life, message, 1.0)
        except (RtmwError, TimeoutError):
            pass  # it finds out by the end of this process
        finally:
            self._forget(life)

    def _forget(self, life: Life) -> None:
        with self._sending:
            self._members.pop(life, None)
            self._numbers.pop(life, None)
            gathered = self._gathered.pop(life, None)
            if gathered is not None:
                self._grouped -= gathered.left
                gathered.fail(ClosedError("it was closed meanwhile"))
            for key in [key for key in self._pending if key[0] == life]:
                pending = self._pending.pop(key)
                self._grouped -= pending.left
                pending.fail(ClosedError("it was closed meanwhile"))
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        with self._sending:
            is_last = not self._members
        if is_last:
            self.close()

    # ---- requests ----

    def begin(self, pending: Pending) -> Pending:
        """Asks. TimeoutError: the queue of the core has been full for the grace time; nothing was asked."""
        with self._sending:
            self._number_gathered()
            self._note(pending)
            if self.core is not None and not self._put_in_turn(pending):
                self._put_late(pending)
        return pending

    def try_begin(self, pending: Pending) -> bool:
        """The same for an event loop. False: the queue is full, or too much is unanswered; nothing was asked."""
        with self._sending:
            self._number_gathered()
            if not self.has_room() or not self._send_unsent():
                return False
            self._note(pending)
            if self.core is not None and not self.put(pending, pending.message, waits=False):
                del self._pending[pending.life, pending.number]
                return False
        return True

    def _check_member(self, life: Life) -> None:
        if self._closed or life not in self._members:
            raise ClosedError("used after close()") if self._error is None else self._error

    def _note(self, pending: Pending) -> None:
        life, message = pending.life, pending.message
        self._check_member(life)
        if isinstance(message, Commit) or (isinstance(message, Send) and not message.txn):
            pending.number = self._numbers[life]
            self._numbers[life] += 1
        else:
            pending.number = next(self._others)
        self._pending[life, pending.number] = pending

    # ---- letters that go out together ----

    def gather(self, owner: Owner, header: Header, body: bytes, waits: asyncio.Future[None] | None) -> Place | None:
        """A letter of this turn of the event loop, which goes out with others at its end. None: too much is unanswered.
        ClosedError. `waits`: is finished when it is answered, or there is no core."""
        life = owner._life
        with self._sending:
            if len(self._pending) + self._grouped >= MOST_PENDING:
                return None
            group = self._gathered.get(life)
            if group is None:
                self._check_member(life)
                group = self._gathered[life] = Group(owner, life)
                asyncio.get_running_loop().call_soon(self._send_soon)
            index = group.add(header, body, waits)
            self._grouped += 1
            if group.is_full:
                self._send_soon()
            return group, index

    def _send_soon(self) -> None:
        """What was gathered goes out, or, if the queue of the core is full, a little later."""
        if not self._send_gathered():
            asyncio.get_running_loop().call_later(_AGAIN_S, self._send_soon)

    def _send_gathered(self) -> bool:
        with self._sending:
            self._number_gathered()
            return self._send_unsent()

    def _number_gathered(self) -> None:
        """The lock is held. Whatever is asked next has a larger number."""
        for life, group in self._gathered.items():
            number = self._numbers[life]
            self._numbers[life] = group.number_from(number)
            self._pending[life, number] = group
            self._unsent.append(group)
        self._gathered.clear()

    def _send_unsent(self, waits: bool = False) -> bool:
        """The lock is held. False: the queue of the core has no room for all of it. Without a core, the next one is
        asked."""
        while self._unsent and (self.core is None or self._put_all(self._unsent[0], waits)):
            self._unsent.popleft()
        return not self._unsent

    def _put_in_turn(self, pending: Pending) -> bool:
        """Behind what was asked before."""
        return self._send_unsent(waits=True) and self.put(pending, pending.message)

    def _put_all(self, pending: Pending | Group, waits: bool) -> bool:
        return all(self._put(pending.life, *request, waits) for request in pending.requests())

    def _put_late(self, pending: Pending) -> None:
        end = CLOCK.monotonic() + GRACE_S
        while (core := self.core) is not None and not self._put_in_turn(pending):
            if CLOCK.monotonic() >= end:
                del self._pending[pending.life, pending.number]
                raise TimeoutError(
                    f"the queue of the core has been full for {GRACE_S:.0f} s; look whether process {core.pid} is "
                    "stopped"
                )

    def put(self, pending: Pending, message: Message, waits: bool = True) -> bool:
        """A frame of a request. False: the queue is full; with `waits`, for a tenth of a second."""
        return self._put(pending.life, pending.number, message, waits)

    def _put(self, life: Life, number: int, message: Message, waits: bool) -> bool:
        queue = self._queue if waits else self._try
        return queue.publish(pack_frame(Frame(life, self._slot, number, message)))

    def ask(self, life: Life, message: Message, timeout: float | None = None) -> Message:
        """Asks, and waits for the answer. Errors: TransferRefused and so on, CoreNotRunning, TimeoutError."""
        return self.wait(self.begin(Pending(life, message)), timeout)

    def tell(self, life: Life, message: Message) -> None:
        """What has no answer. A core that is not there need not hear it."""
        self._queue.publish(pack_frame(Frame(life, self._slot, 0, message)))

    def wait(self, pending: Pending, timeout: float | None = None) -> Message:
        """TimeoutError: no answer yet. CoreNotRunning: there has been no core for the grace time."""
        if not self.wait_until(lambda: pending.is_done, timeout):
            raise TimeoutError(f"the core has not answered within {timeout} s")
        return pending.result()

    async def reached(self, pending: Pending, timeout: float | None = None) -> Message:
        """The same for a task."""
        if not await self.until(lambda: pending.is_done, timeout):
            raise TimeoutError(f"the core has not answered within {timeout} s")
        return pending.result()

    def wait_until(self, met: Callable[[], bool], timeout: float | None) -> bool:
        """False: not within `timeout` seconds. CoreNotRunning: there has been no core for the grace time."""
        end = None if timeout is None else CLOCK.monotonic() + timeout
        while not self.changed.wait(met, _left(end)):
            if end is not None and CLOCK.monotonic() >= end:
                return False
            self.check_core()
        return True

    async def until(self, met: Callable[[], bool], timeout: float | None) -> bool:
        """The same for a task."""
        end = None if timeout is None else CLOCK.monotonic() + timeout
        while not await self.changed.reached(met, _left(end)):
            if end is not None and CLOCK.monotonic() >= end:
                return False
            self.check_core()
        return True

    def check_core(self) -> None:
        """Raises CoreNotRunning: there has been none for the grace time; ClosedError: nothing is heard any more."""
        if self._error is not None:
            raise type(self._error)(*self._error.args)
        if self.core is None and CLOCK.monotonic() - self._gone_at > GRACE_S:
            raise self.no_core()

    def no_core(self) -> CoreNotRunning:
        return CoreNotRunning(
            f"no node serves the transfers of domain {self._domain.id}; start one: "
            f"rtmw node --domain {self._domain.id} --serve transfer --data FOLDER"
        )

    @property
    def unanswered(self) -> int:
        """Requests that the core has not answered yet."""
        return len(self._pending) + self._grouped

    def has_room(self) -> bool:
        """For another request whose answer nobody waits for."""
        return self.unanswered < MOST_PENDING

    # ---- what the core says ----

    def _hear(self) -> None:
        waits, look_at = rtmw.WaitSet(self._heard, self._cores), 0.0
        try:
            while not self._closed:
                waits.wait(_LOOK_S)
                self._hear_cores()
                if CLOCK.monotonic() >= look_at:
                    look_at = CLOCK.monotonic() + _LOOK_S
                    self._look_at_core()
                    self._send_gathered()  # of an event loop that was closed meanwhile
                frames = [sample.value for sample in self._heard.take_many(256)]
                if frames:
                    for frame in frames:
                        self._take(frame)
                    self.changed.notify()
        except (ClosedError, SweptError, rtmw.ForkedError) as error:
            self._end(error)

    def _hear_cores(self) -> None:
        for sample in self._cores.take_many(16):
            frame = unpack_frame(sample.value)
            if not isinstance(frame.message, Core) or frame.message.start <= self.start:
                continue
            if frame.life.lives():
                self._meet(frame.life, frame.message)
            self._has_heard = True
            self.changed.notify()

    def _look_at_core(self) -> None:
        """That it has ended is seen in its process."""
        if self.core is not None and not self.core.lives():
            self.core, self._gone_at = None, CLOCK.monotonic()
            self.changed.notify()
        if self.core is None and CLOCK.monotonic() - self._gone_at > GRACE_S:
            self.changed.notify(all=True)  # who waits looks at check_core
            for pending in list(self._pending.values()):
                wake(pending.woken())

    def _meet(self, life: Life, core: Core) -> None:
        """A core that was not there before."""
        with self._sending:
            self.core, self.start, self.node = life, core.start, core.node
            for member in self._members.values():
                self._queue.publish(pack_frame(Frame(member._life, self._slot, 0, member._join)))
            self._unsent.clear()
            for pending in list(self._pending.values()):
                self._put_all(pending, waits=True)
            members = list(self._members.values())
        for member in members:
            member._core_changed()
        self.changed.notify()

    def _take(self, data: bytes) -> None:
        try:
            frame = unpack_frame(data)
        except TransfersDamaged:
            return  # of another version, or of nobody; who waits is told by its timeout
        if frame.number == 0:
            member = self._members.get(frame.life)
            if member is not None:
                member._told(frame.message)
            return
        pending = self._pending.get((frame.life, frame.number)) or self._group_with(frame)
        if pending is not None:
            before = pending.left
            pending.take(frame.number, frame.message)
            if pending.is_done:
                self._pending.pop((frame.life, pending.number), None)
                wake(pending.woken())
            if before:
                with self._sending:
                    self._grouped -= before - pending.left

    def _group_with(self, frame: Frame) -> Group | None:
        """The group that has a letter with this number."""
        for (life, _), pending in list(self._pending.items()):
            if life == frame.life and isinstance(pending, Group) and pending.has(frame.number):
                return pending
        return None

    # ---- end ----

    def _end(self, error: Exception) -> None:
        self._closed, self._error = True, error
        with self._sending:
            for pending in [*self._pending.values(), *self._gathered.values()]:
                pending.fail(error)
        self.changed.notify(all=True)

    def close(self) -> None:
        """The last member has left, or the process ends. Idempotent."""
        if not self._closed:
            self._end(ClosedError("used after close()"))
        for one in (self._heard, self._cores, self._queue, self._try):
            one.close()  # which wakes the thread
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * _LOOK_S)
