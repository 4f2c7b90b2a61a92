"""Learns of every death at once, and cleans up after it a tenth of a second later: nobody has to run into what the dead
one held, and who looks on (observe/events.py) reads in the tables before that it has died. Once a second it also ends
what is parked and whose time is over (shm/parked.c): no process dies of that.

In a thread of its own, so that no other work of the node comes before it.
"""

from __future__ import annotations

import logging
import os
import select
import threading

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.observe import program

log = logging.getLogger("rtmw.node")

_DEATHS_LOOK_S = 0.05
"""A process that is gone before it was seen is found by the next look."""

_TELL_S = 0.1
_SWEEP_S = 1.0
"""Between sweeps of what is parked; and the longest time that the first of many deaths waits."""


class Janitor:
    """Watches the processes that are attached to a domain, until it is closed."""

    def __init__(self, domain: Domain) -> None:
        self._region = domain.region
        self._watched: dict[int, tuple[int, str]] = {}
        """Process id and name, by a descriptor that becomes readable when the process ends."""
        self._seen: int | None = None
        """The fingerprint of the participants of which all are watched."""
        self._ended: dict[int, str] = {}
        """Those to sweep up after, and when: `_first` is the time of the first death."""
        self._first = self._sweep_at = 0.0
        self.swept = 0
        self._events, self._end = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._events.register(self._end, select.EPOLLIN)
        self._thread = threading.Thread(target=self._work, name="rtmw janitor", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        due = 0.0
        while True:
            self._look()
            if self._ended and CLOCK.monotonic() >= self._sweep_at:
                self._sweep()
            if CLOCK.monotonic() >= due:
                due = CLOCK.monotonic() + _SWEEP_S
                self._region.sweep_parked()
            for descriptor, _ in self._events.poll(_DEATHS_LOOK_S):
                if descriptor == self._end:
                    return
                self._note(*self._unwatch(descriptor))

    def _look(self) -> None:
        """Watch who has come since."""
        now = self._region.participants_fingerprint()
        if now == self._seen:
            return
        self._seen = now
        names, known = self._region.names(), {pid for pid, _ in self._watched.values()}
        for pid in names.keys() - known - {os.getpid()}:
            try:
                descriptor = os.pidfd_open(pid)
            except OSError:  # gone before it was seen, or of another pid namespace: the sweep can tell
                self._note(pid, names[pid])
                self._seen = None
                continue
            self._watched[descriptor] = (pid, names[pid])
            self._events.register(descriptor, select.EPOLLIN)

    def _note(self, pid: int, name: str) -> None:
        if pid in self._ended:
            return
        now = CLOCK.monotonic()
        self._first = self._first if self._ended else now
        self._ended[pid] = name
        self._sweep_at = min(now + _TELL_S, self._first + _SWEEP_S)

    def _sweep(self) -> None:
        died = self._region.names().keys() & self._ended.keys()
        swept = self._region.sweep()
        self.swept += swept
        for pid in died if swept else ():
            log.info("%s (%d) ended without closing; what it held has been given back", program(self._ended[pid]), pid)
        self._ended.clear()

    def _unwatch(self, descriptor: int) -> tuple[int, str]:
        self._events.unregister(descriptor)
        os.close(descriptor)
        return self._watched.pop(descriptor)

    def close(self) -> None:
        os.eventfd_write(self._end, 1)
        self._thread.join()
        if self._ended:
            self._sweep()
        for descriptor in [*self._watched]:
            self._unwatch(descriptor)
        self._events.close()
        os.close(self._end)
