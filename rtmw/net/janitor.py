"""Learns of every death at once, and cleans up after it: nobody has to run into what the dead one held. Once a second
it also ends what is parked and whose time is over (shm/parked.c): no process dies of that.

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

_LOOK_S = 0.05
"""A process that is gone before it was seen is found by the next look."""


_SWEEP_S = 1.0


class Janitor:
    """Watches the processes that are attached to a domain, until it is closed."""

    def __init__(self, domain: Domain) -> None:
        self._region = domain.region
        self._watched: dict[int, tuple[int, str]] = {}
        """Process id and name, by a descriptor that becomes readable when the process ends."""
        self._seen: int | None = None
        """The fingerprint of the participants of which all are watched."""
        self.swept = 0
        self._events, self._end = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._events.register(self._end, select.EPOLLIN)
        self._thread = threading.Thread(target=self._work, name="rtmw janitor", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        due = 0.0
        while True:
            self._look()
            if CLOCK.monotonic() >= due:
                due = CLOCK.monotonic() + _SWEEP_S
                self._region.sweep_parked()
            for descriptor, _ in self._events.poll(_LOOK_S):
                if descriptor == self._end:
                    return
                self._sweep(*self._unwatch(descriptor))

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
                self._sweep(pid, names[pid])
                self._seen = None
                continue
            self._watched[descriptor] = (pid, names[pid])
            self._events.register(descriptor, select.EPOLLIN)

    def _sweep(self, pid: int, name: str) -> None:
        swept = self._region.sweep()
        self.swept += swept
        if swept:
            log.info("%s (%d) ended without closing; what it held has been given back", program(name), pid)

    def _unwatch(self, descriptor: int) -> tuple[int, str]:
        self._events.unregister(descriptor)
        os.close(descriptor)
        return self._watched.pop(descriptor)

    def close(self) -> None:
        os.eventfd_write(self._end, 1)
        self._thread.join()
        for descriptor in [*self._watched]:
            self._unwatch(descriptor)
        self._events.close()
        os.close(self._end)
