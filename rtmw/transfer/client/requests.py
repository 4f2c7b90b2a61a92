"""Requests of a process to its core, in order, with their numbers, until they are answered."""

from __future__ import annotations

import itertools
import threading
import time
from asyncio import Future, get_running_loop
from collections.abc import Sequence
from threading import get_ident
from typing import Final, TypeAlias

import rtmw
from rtmw.clock import CLOCK
from rtmw.errors import ClosedError
from rtmw.publisher import OwnPublisher
from rtmw.transfer.address import Life
from rtmw.transfer.client.group import Gathering, Group, Owner, Place
from rtmw.transfer.client.waiting import Deadline, Pending
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.frames import CORE_QUEUE, Frame, pack_frame
from rtmw.transfer.header import Header
from rtmw.transfer.messages import Commit, Done, GiveUp, Message, Run, Send, Take, Untake
from rtmw.waiting import Asleep

__all__ = ["GRACE_S", "Requests"]

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
