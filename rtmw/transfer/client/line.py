"""The line from a process to the core of its host: one for all senders and inboxes of a domain.

Frames go out from the thread that asks. One thread of the line hears what the core says, gives answers to the threads
that wait, and tells members of what has moved. When a core was started anew, the line joins its members again, and
asks again what was not answered: the core knows the numbers of what it has done already. `Requests` has what a process
has asked its core, in order, with numbers, until it is answered.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from asyncio import Future, get_running_loop
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import get_ident
from typing import Final, Protocol, TypeAlias

import rtmw
from rtmw.clock import CLOCK
from rtmw.domain import await_domain, domain_of
from rtmw.errors import ClosedError, DomainNotFound, RtmwError, SweptError
from rtmw.observe.services import why_no_core
from rtmw.publisher import OwnPublisher
from rtmw.qos import check_seconds
from rtmw.transfer.address import Life
from rtmw.transfer.client.group import Gathering, Group, Owner, Place
from rtmw.transfer.client.waiting import Deadline, Pending
from rtmw.transfer.errors import CoreNotRunning, TransferError, TransferRefused
from rtmw.transfer.frames import CORE_QUEUE, CORE_TOPIC, Barrier, Frame, pack_frame, queue_of
from rtmw.transfer.header import Header
from rtmw.transfer.messages import Commit, Core, Done, GiveUp, Join, Message, Run, Send, Take, Untake
from rtmw.waiting import Asleep, Signal

__all__ = ["GRACE_S", "Line", "Member", "Requests"]


MOST_PENDING: Final = 1024
"""Requests without an answer, of all members; then a send waits, unless it joins a group that was begun before."""
GRACE_S: Final = 10.0
"""Seconds that a program waits for a core that is started anew."""
_AGAIN_S: Final = 0.001
_OTHERS: Final = 1 << 63
"""Numbers of requests that may be asked twice begin here."""
Gathered: TypeAlias = tuple[Place, Future[None] | None]
"""The place of a letter, and the future that its task waits for."""


class Requests:
    """The requests of one line; any thread. `slot`: that of this process in the domain."""

    def __init__(self, domain: rtmw.Domain, slot: int) -> None:
        self._slot, reliable = slot, rtmw.Reliability.RELIABLE
        self._queue = OwnPublisher(CORE_QUEUE, domain=domain, reliability=reliable, max_blocking=0.1)
        self._try = OwnPublisher(CORE_QUEUE, domain=domain, reliability=reliable, max_blocking=0)
        self.lock = threading.RLock()
        """Held while a request is added and its frame goes out, so that none is asked twice of one core."""
        self.core: Life | None = None
        """The core of this moment; None: there is none. Set under the lock, when another one comes."""
        self.error: Exception | None = None
        """The error because of which nothing is asked any more."""
        self._pending: dict[tuple[Life, int], Pending | Group] = {}
        """Requests without an answer, by member and number; a group has the number of its first letter."""
        self._numbers: dict[Life, int] = {}
        """Number of the next Send or Commit of each member."""
        self._others = itertools.count(_OTHERS)
        self._given_up: list[Pending] = []
        """Requests that were given up, which the core was not told yet."""
        self._gathering = Gathering(self._put)
        self._answered: list[Group] = []
        """Groups that were answered, and whose tasks and threads were not woken yet."""

    # ---- members ----

    def enter(self, life: Life) -> None:
        """Let a member ask."""
        with self.lock:
            self._numbers[life] = 1

    def forget(self, life: Life) -> None:
        """End the requests of a member: it asks nothing any more, and gets no answers."""
        with self.lock:
            self._numbers.pop(life, None)
            error = ClosedError("it was closed meanwhile")
            self._gathering.forget(life, error)
            for key in [key for key in self._pending if key[0] == life]:
                self._fail(self._pending.pop(key), error)

    # ---- what is asked ----

    def begin(self, pending: Pending, timeout: float | None = None) -> Pending:
        """Ask. TimeoutError: the queue of the core has been full for the grace time, or for `timeout` seconds if that
        is less; nothing was asked."""
        seconds = GRACE_S if timeout is None else min(GRACE_S, timeout)
        end = CLOCK.monotonic() + seconds
        while not self._begins(pending):
            core = self.core
            if core is not None and CLOCK.monotonic() >= end:
                raise TimeoutError(
                    f"the queue of the core has been full for {seconds:.1f} s; look whether process {core.pid} is "
                    "stopped"
                )
            time.sleep(_AGAIN_S)  # without the lock: others may have less time, or an event loop
        return pending

    def try_begin(self, pending: Pending) -> bool:
        """Ask, in an event loop. False: the queue is full, or too much is unanswered; nothing was asked."""
        with self.lock:
            return self.has_room() and self._begins(pending)

    def _begins(self, pending: Pending) -> bool:
        """Ask behind what was asked before. False: the queue of the core is full; nothing was asked."""
        with self.lock:
            self._number_gathered()
            if not self._send_unsent():
                return False
            self._add(pending)
            if self.core is not None and not self.put(pending, pending.message, waits=False):
                del self._pending[pending.life, pending.number]
                return False
        return True

    def _check(self, life: Life) -> None:
        if self.error is not None:
            raise self.error
        if life not in self._numbers:
            raise ClosedError("used after close()")

    def _add(self, pending: Pending) -> None:
        life, message = pending.life, pending.message
        self._check(life)
        if isinstance(message, Commit) or (isinstance(message, Send) and not message.txn):
            pending.number = self._numbers[life]
            self._numbers[life] += 1
        else:
            pending.number = next(self._others)
        self._pending[life, pending.number] = pending

    # ---- letters that go out together ----

    def gather(self, owner: Owner, header: Header, body: bytes, waits: bool) -> Gathered | None:
        """Add a letter to those of this turn of the event loop, which go out together at its end. None: too much is
        unanswered. ClosedError. `waits`: with a future, which is finished when it is answered, or there is no core."""
        self.lock.acquire()  # `with` takes twice as long, for each letter
        try:
            group = self._gathering.open.get(owner._life)
            if group is None:
                if not self.has_room():
                    return None
                group = self._begin_turn(owner)
            future: Future[None] | None = None
            if waits:
                loop = group.loop
                if loop is None or group.thread != get_ident() or not loop.is_running():
                    loop = get_running_loop()
                future = loop.create_future()
                group.waiting.tasks[loop].append(future)
            index = group.add(header, body)
            if group.left >= group.full_at:
                self._send_soon()
            return (group, index), future
        finally:
            self.lock.release()

    def _begin_turn(self, owner: Owner) -> Group:
        """Begin a group for this turn of the event loop; the lock is held. ClosedError."""
        group, loop = self._begin_group(owner), get_running_loop()
        group.thread, group.loop = get_ident(), loop
        loop.call_soon(self._send_soon)
        return group

    def join_others(
        self, owner: Owner, header: Header, body: bytes, waits: Asleep | None, deadline: Deadline
    ) -> Place | None:
        """Send a letter of a thread: now, or with others when the core has answered what went before; or soon, if the
        queue of the core is full up to the deadline. None: too much is unanswered. ClosedError. `waits`: is woken when
        it is answered, or there is no core; without, it goes out now."""
        with self.lock:
            if not self.has_room():
                return None
            group = self._gathering.open.get(owner._life) or self._begin_group(owner)
            index = group.add(header, body)
            if waits is not None:
                group.waiting.threads.append(waits)
            goes = waits is None or group.left >= group.full_at or not self._gathering.may_wait()
        while goes and not self.send_gathered() and not deadline.is_over:
            time.sleep(_AGAIN_S)  # without the lock: others may have less time, or an event loop
        return group, index

    def _begin_group(self, owner: Owner) -> Group:
        """Begin a group; the lock is held. ClosedError."""
        self._check(owner._life)
        return self._gathering.begin(owner)

    def begin_runs(self, owner: Owner, runs: Sequence[Run], waits: bool) -> Group | None:
        """Send letters now, in one frame behind what was asked before; or soon, if the queue of the core is full. None:
        too much is unanswered. ClosedError. `waits`: see `put`; without, in an event loop."""
        with self.lock:
            self._number_gathered()
            if not self.has_room():
                return None
            group = self._begin_group(owner)
            for run in runs:
                group.add_run(run.header, run.bodies)
            if waits:
                self.send_gathered(waits)
            else:
                self._send_soon()
            return group

    def _send_soon(self) -> None:
        """Send the gathered letters now, or, if the queue of the core is full, a little later."""
        if not self.send_gathered():
            get_running_loop().call_later(_AGAIN_S, self._send_soon)

    def send_gathered(self, waits: bool = False) -> bool:
        """Send the gathered letters. False: the queue of the core has no room for all of them; with `waits`, for a
        tenth of a second."""
        if self._gathering.is_empty:
            return True
        with self.lock:
            self._number_gathered()
            return self._send_unsent(waits)

    def _number_gathered(self) -> None:
        """Number the gathered letters; the lock is held. Whatever is asked next has a larger number."""
        for group in self._gathering.number(self._numbers):
            self._pending[group.life, group.number] = group

    def _send_unsent(self, waits: bool = False) -> bool:
        """Send the letters that have numbers; the lock is held. False: the core's queue has no room for all of them."""
        if self.core is None:
            self._gathering.leave_to_next_core()
        return self._gathering.send(waits)

    def put(self, pending: Pending, message: Message, waits: bool = True) -> bool:
        """Send a frame of a request. False: the queue is full; with `waits`, for a tenth of a second."""
        return self._put(pending.life, pending.number, message, waits)

    def _put(self, life: Life, number: int, message: Message, waits: bool) -> bool:
        queue = self._queue if waits else self._try
        return queue.publish(pack_frame(Frame(life, self._slot, number, message)))

    def give_up(self, pending: Pending) -> None:
        """Give up a request. After a Send, no more of its body will be sent: the core forgets what it has of it. For a
        Take, nobody waits any more. The core answers the request."""
        with self.lock:
            pending.is_given_up = True
            self._given_up.append(pending)
            self.tell_given_up()

    def tell_given_up(self) -> None:
        """Tell the core what was given up. Whatever its queue has no room for goes out with the next call."""
        with self.lock:
            self._given_up = [pending for pending in self._given_up if not self._tells(pending)]

    def _tells(self, pending: Pending) -> bool:
        """Tell the core that a request was given up; the lock is held. False: the queue of the core has no room."""
        if pending.is_done:
            return True
        if self.core is None:
            self._lose(pending)
            return True
        if isinstance(pending.message, Take):
            return self._put(pending.life, 0, Untake(pending.number), waits=False)
        return self.put(pending, GiveUp(), waits=False)

    def _lose(self, pending: Pending) -> None:
        """End a request that was given up, and of which no core knows; the lock is held."""
        self._pending.pop((pending.life, pending.number), None)
        if isinstance(pending.message, Take):
            pending.take(pending.number, Done(0))
        else:
            pending.fail(TransferRefused("its sender gave it up before all of its body had come"))

    def tell(self, life: Life, message: Message) -> None:
        """Sends a message that has no answer. If there is no core, it is lost."""
        self._queue.publish(pack_frame(Frame(life, self._slot, 0, message)))

    @property
    def unanswered(self) -> int:
        """Number of requests that the core has not answered yet."""
        return len(self._pending) + self._gathering.unanswered

    def has_room(self) -> bool:
        """Is there room for another request whose answer nobody waits for?"""
        return self.unanswered < MOST_PENDING

    # ---- what is answered, in the thread of the line ----

    def take(self, frame: Frame) -> None:
        """Take an answer; `wake_answered` follows."""
        pending = self._pending.get((frame.life, frame.number)) or self._group_with(frame)
        if pending is not None:
            self._answer(pending, frame)

    def _answer(self, pending: Pending | Group, frame: Frame) -> None:
        before = pending.left if isinstance(pending, Group) else 0
        pending.take(frame.number, frame.message)
        if pending.is_done:
            self._pending.pop((frame.life, pending.number), None)
        if isinstance(pending, Group):
            with self.lock:
                if self._gathering.answered(before - pending.left, pending):
                    self.send_gathered()
            if pending.is_done:
                self._answered.append(pending)

    def wake_answered(self) -> None:
        """Wake those who wait for what was answered. The thread does so last, before it sleeps: an event loop that is
        woken needs the interpreter at once."""
        answered, self._answered = self._answered, []
        for group in answered:
            group.waiting.wake()

    def _group_with(self, frame: Frame) -> Group | None:
        """Return the group that has a letter with this number."""
        for (life, _), pending in list(self._pending.items()):
            if life == frame.life and isinstance(pending, Group) and pending.has(frame.number):
                return pending
        return None

    def ask_again(self) -> None:
        """Ask another core all that was not answered; the lock is held."""
        self._gathering.leave_to_next_core()
        for pending in list(self._pending.values()):
            if isinstance(pending, Group):
                self._gathering.put(pending, waits=True)
            elif pending.is_given_up:
                self._lose(pending)
            elif not pending.is_chain:
                self.put(pending, pending.message)

    def wake(self) -> None:
        """Wake those who wait for groups, to see whether there is still no core."""
        for pending in list(self._pending.values()):
            if isinstance(pending, Group):
                pending.waiting.wake()

    # ---- end ----

    def end(self, error: Exception) -> None:
        """End all requests: no answer comes any more."""
        with self.lock:
            self.error = error
            self._gathering.fail_all(error)
            for pending in list(self._pending.values()):
                self._fail(pending, error)
        self.wake_answered()

    def _fail(self, pending: Pending | Group, error: Exception) -> None:
        if isinstance(pending, Group):
            self._gathering.fail(pending, error)
        else:
            pending.fail(error)

    def close(self) -> None:
        self._queue.close()
        self._try.close()


DEPTH: Final = 4096
FIRST_S: Final = 1.0
"""Seconds that a new member waits for a core that is not there."""
_LOOK_S: Final = 0.2
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
        """The message by which it joins the core of this moment."""
        ...

    def _told(self, message: Message) -> None:
        """Take a frame of the core that answers no request. In the thread of the line."""
        ...

    def _core_changed(self) -> None:
        """Note that another core is there, which knows of this member again. In the thread of the line."""
        ...


def new_life() -> Life:
    """Return a life for a new member of this process."""
    life = Life.of_process(generation=next(_generations))
    assert life is not None, "this process runs"
    return life


def no_core(domain: int, why: str = "", waited: float = 0.0) -> CoreNotRunning:
    """Return the error where no core is. `why`: what the node of this domain says of a core that does not go on.
    `waited`: seconds for which a core was waited for."""
    after = f" (waited {waited:.3g} s)" if waited else ""
    if why:
        return CoreNotRunning(
            f"the node of domain {domain} serves no transfers now{after}: their service {why}. Mend that; the node "
            f"starts it again and again, so it goes on by itself; rtmw node doctor --domain {domain} says how it is"
        )
    return CoreNotRunning(
        f"no node serves the transfers of domain {domain}{after}; start one: "
        f"rtmw node --domain {domain} --serve transfer --data FOLDER; "
        f"if one runs, rtmw node doctor --domain {domain} says what is in its way"
    )


def _fault_of_announcement(frame: Frame, pid: int) -> str:
    if not isinstance(frame.message, Core):
        return f"it is {type(frame.message).__name__}, and no announcement of a core"
    if frame.message.start > CLOCK.monotonic_ns():
        return "it announces a core that starts in the future"
    return "" if frame.life.pid == pid else f"its head names process {frame.life.pid}"


class Line:
    """The line of a process; see the head of this file. Any thread."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self._domain = domain
        slot, reliable = domain.region.slot, rtmw.Reliability.RELIABLE
        assert slot is not None, "the domain is not one that only looks on"
        self._heard = rtmw.Subscriber(queue_of(slot), domain=domain, reliability=reliable, depth=DEPTH)
        self._cores = rtmw.Subscriber(CORE_TOPIC, domain=domain, history=1)
        self._barriers = Barrier(queue_of(slot), self._fault), Barrier(CORE_TOPIC, _fault_of_announcement)
        self._announced: dict[int, tuple[Life, Core]] = {}
        """Processes that have said that they are the core, by pid. Only one of them is."""
        self._core_pids: set[int] = set()
        """Process ids of all cores that it has met: the answers of one that has ended may still be in the queue."""
        self.requests = Requests(domain, slot)
        self.changed = Signal()
        """A core came or went, requests were answered, a member left, or the line was closed."""
        self.start = 0
        """The `start` of the core: another number for each."""
        self.node = ""
        self._has_heard = False
        """It has heard of a core, which may have ended since."""
        self._gone_at = CLOCK.monotonic()
        """Time of the monotonic clock since which there is no core."""
        self._members: dict[Life, Member] = {}
        self._entering = 0
        """Number of members that wait for a core. Written under the lock of this module."""
        self._closed = False
        self._thread = threading.Thread(target=self._hear, name="rtmw transfers", daemon=True)
        self._thread.start()

    @classmethod
    def of(cls, given: int | rtmw.Domain | None) -> Line:
        """Return the line of this process. `given`: what Publisher takes as `domain`."""
        domain = domain_of(given)
        with _lock:
            return cls._of(domain)

    @classmethod
    def _of(cls, domain: rtmw.Domain) -> Line:
        """Return the line of a domain; the lock of this module is held."""
        line = _lines.get(domain.id)
        if line is None or line._closed or line._domain.region is not domain.region:
            line = _lines[domain.id] = cls(rtmw.Domain(domain.id))
        return line

    @classmethod
    def for_member(cls, given: int | rtmw.Domain | None, wait: float | None = None) -> Line:
        """Return the line of this process, which stays until `enter` has returned. `wait`: seconds for a domain that is
        not there yet; None: it is made. CoreNotRunning: it has not come."""
        check_seconds("wait", wait)
        try:
            with nullcontext() if wait is None else await_domain(given, wait):
                domain = domain_of(given)
        except DomainNotFound as error:
            raise CoreNotRunning(f"there is no node for transfers to join: {error}") from None
        with _lock:
            line = cls._of(domain)
            line._entering += 1
            return line

    @property
    def core(self) -> Life | None:
        """The core of this moment; None: there is none."""
        return self.requests.core

    # ---- members ----

    def enter(self, member: Member, wait: float | None = None, ask: Callable[[Pending], Message] | None = None) -> None:
        """Let a member join. CoreNotRunning: there is no core, and none came for a second; or for ten, if there was
        one; or for `wait` seconds, if those are more. `ask`: asks the core, and waits for its answer; without it, the
        answer is waited for as long as there is a core."""
        deadline = Deadline(max(wait or 0.0, FIRST_S))
        try:
            self._await_core(deadline)
            with self.requests.lock:
                self.requests.enter(member._life)
                self._members[member._life] = member
            pending = Pending(member._life, member._join)
            ask(pending) if ask is not None else self._join(pending, deadline)
        except BaseException:
            self._entered()
            self._forget(member._life)
            raise
        self._entered()

    def _entered(self) -> None:
        with _lock:
            self._entering -= 1

    def _await_core(self, deadline: Deadline) -> None:
        begun = CLOCK.monotonic()
        self._comes(lambda: self._has_heard, deadline)
        if self._has_heard:
            grace = Deadline(GRACE_S)
            self._comes(lambda: self.core is not None, deadline if grace.ends_before(deadline) else grace)
        if self.core is None:
            raise self._no_core(CLOCK.monotonic() - begun)

    def _comes(self, met: Callable[[], bool], deadline: Deadline) -> None:
        """Wait for the condition; all who wait are woken now and then, to look for themselves."""
        while not self.changed.wait(met, deadline.left) and not deadline.is_over:
            pass

    def _join(self, pending: Pending, deadline: Deadline) -> None:
        """Ask the core of this moment; if that ends, the next one, until the deadline and for the grace time."""
        self.requests.begin(pending)
        while True:
            try:
                self.wait(pending)
                return
            except CoreNotRunning:
                self._comes(lambda: self.core is not None, deadline)
                if self.core is None:
                    raise

    def leave(self, life: Life, message: Message) -> None:
        """Let a member leave that is closed; the core is told, if there is one. Idempotent."""
        with self.requests.lock:
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
        with self.requests.lock:
            self._members.pop(life, None)
            self.requests.forget(life)
        self.changed.notify()
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        with _lock, self.requests.lock:
            is_last = not self._members and not self._entering
            if is_last and _lines.get(self._domain.id) is self:
                del _lines[self._domain.id]  # who comes from now on gets another one
        if is_last:
            self.close()

    # ---- waiting ----

    def ask(self, life: Life, message: Message, timeout: float | None = None) -> Message:
        """Ask, and wait for the answer. Errors: TransferRefused and so on, CoreNotRunning, TimeoutError."""
        deadline = Deadline(timeout)
        return self.wait(self.requests.begin(Pending(life, message), deadline.left), deadline.left)

    def wait(self, pending: Pending, timeout: float | None = None) -> Message:
        """Wait for an answer. TimeoutError: there is none yet. CoreNotRunning: no core for the grace time."""
        if not self.wait_until(lambda: pending.is_done, timeout):
            raise TimeoutError(f"the core has not answered within {timeout} s")
        return pending.result()

    async def reached(self, pending: Pending, timeout: float | None = None) -> Message:
        """Wait as `wait` does, for a task."""
        if not await self.until(lambda: pending.is_done, timeout):
            raise TimeoutError(f"the core has not answered within {timeout} s")
        return pending.result()

    def wait_until(self, met: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for a condition. False: not met within `timeout` seconds. CoreNotRunning: no core for the grace time."""
        deadline = Deadline(timeout)
        while not self.changed.wait(met, deadline.left):
            if deadline.is_over:
                return False
            self.check_core()
        return True

    async def until(self, met: Callable[[], bool], timeout: float | None) -> bool:
        """Wait as `wait_until` does, for a task."""
        deadline = Deadline(timeout)
        while not await self.changed.reached(met, deadline.left):
            if deadline.is_over:
                return False
            self.check_core()
        return True

    def check_core(self) -> None:
        """Raises CoreNotRunning: there has been none for the grace time; ClosedError: nothing is heard any more."""
        error = self.requests.error
        if error is not None:
            raise type(error)(*error.args)
        if self.core is None and CLOCK.monotonic() - self._gone_at > GRACE_S:
            raise self._no_core(CLOCK.monotonic() - self._gone_at)

    def _no_core(self, waited: float) -> CoreNotRunning:
        return no_core(self._domain.id, why_no_core(self._domain), waited)

    # ---- what the core says ----

    def _hear(self) -> None:
        waits, look_at = rtmw.WaitSet(self._heard, self._cores), 0.0
        try:
            while not self._closed:
                if self._cores in waits.wait(_LOOK_S):
                    self._hear_cores()
                if CLOCK.monotonic() >= look_at:
                    look_at = CLOCK.monotonic() + _LOOK_S
                    self._look_at_core()
                    self.requests.send_gathered()  # of an event loop that was closed meanwhile
                    self.requests.tell_given_up()
                samples = self._heard.take_many(256)
                if samples:
                    for sample in samples:
                        frame = self._barriers[0].frame_of(sample.value, sample._pid)
                        if frame is not None:
                            self._take(frame)
                    self.changed.notify()
                    self.requests.wake_answered()
        except (ClosedError, SweptError, rtmw.ForkedError) as error:
            self._end(error)
        except Exception as error:
            self._end(TransferError(f"the core is heard no more: {error!r}; open senders and inboxes anew"))
            raise  # a fault of rtmw; without the line above, threads would wait for answers for ever

    def _hear_cores(self) -> None:
        for sample in self._cores.take_many(16):
            frame = self._barriers[1].frame_of(sample.value, sample._pid)
            if frame is None or not isinstance(frame.message, Core):
                continue
            if frame.life.lives():
                self._announced[frame.life.pid] = frame.life, frame.message
                if frame.message.start > self.start:
                    self._meet(frame.life, frame.message)
            self._has_heard = True
            self.changed.notify()

    def _look_at_core(self) -> None:
        """Look whether the core has ended, which is seen in its process."""
        if self.core is not None and not self.core.lives():
            self.requests.core, self._gone_at = None, CLOCK.monotonic()
            self._announced = {pid: said for pid, said in self._announced.items() if said[0].lives()}
            for said in self._announced.values():  # what has ended was none: another program had said that it is one
                self._meet(*said)
            self.changed.notify()
        if self.core is None and CLOCK.monotonic() - self._gone_at > GRACE_S:
            self.changed.notify(all=True)  # threads that wait look at check_core
            self.requests.wake()

    def _meet(self, life: Life, core: Core) -> None:
        """Join the members to a core that was not there before, and ask it again what was not answered."""
        self._core_pids.add(life.pid)
        with self.requests.lock:
            self.requests.core, self.start, self.node = life, core.start, core.node
            for member in self._members.values():
                self.requests.tell(member._life, member._join)
            self.requests.ask_again()
            members = list(self._members.values())
        for member in members:
            member._core_changed()
        self.changed.notify()

    @property
    def refused(self) -> int:
        """Number of messages to this process that were no frames of a core."""
        return sum(barrier.refused for barrier in self._barriers)

    def _fault(self, frame: Frame, pid: int) -> str:
        return "" if pid in self._core_pids else "it is not the core that says so"

    def _take(self, frame: Frame) -> None:
        if frame.number == 0:
            member = self._members.get(frame.life)
            if member is not None:
                member._told(frame.message)
            return
        self.requests.take(frame)

    # ---- end ----

    def _end(self, error: Exception) -> None:
        self._closed = True
        self.requests.end(error)
        self.changed.notify(all=True)

    def close(self) -> None:
        """Close the line: the last member has left, or the process ends. Idempotent."""
        if not self._closed:
            self._end(ClosedError("used after close()"))
        for one in (self._heard, self._cores, self.requests):
            one.close()  # which wakes the thread
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * _LOOK_S)
