"""The line from a process to the core of its host: one for all senders and inboxes of a domain.

Frames go out from the thread that asks. One thread of the line hears what the core says, gives answers to the threads
that wait, and tells members of what has moved. When a core was started anew, the line joins its members again, and
asks again what was not answered: the core knows the numbers of what it has done already.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final, Protocol

import rtmw
from rtmw.clock import CLOCK
from rtmw.domain import await_domain, domain_of
from rtmw.errors import ClosedError, DomainNotFound, RtmwError, SweptError
from rtmw.observe.transfers import why_no_core
from rtmw.qos import check_seconds
from rtmw.transfer.address import Life
from rtmw.transfer.client.requests import GRACE_S, Requests
from rtmw.transfer.client.waiting import Deadline, Pending
from rtmw.transfer.errors import CoreNotRunning, TransferError
from rtmw.transfer.frames import CORE_TOPIC, Barrier, Frame, queue_of
from rtmw.transfer.messages import Core, Join, Message
from rtmw.waiting import Signal

__all__ = ["Line", "Member"]

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
