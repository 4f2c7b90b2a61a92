"""Learns of every death at once, and cleans up after it: nobody has to run into what the dead one held."""

from __future__ import annotations

import asyncio
import logging
import os

from rtmw.domain import Domain

log = logging.getLogger("rtmw.node")


class Janitor:
    """Watches the processes that are attached to a domain."""

    def __init__(self, domain: Domain, loop: asyncio.AbstractEventLoop) -> None:
        self._domain, self._loop = domain, loop
        self._watched: dict[int, int] = {}
        """Process id: a descriptor that becomes readable when the process ends."""
        self.swept = 0

    def look(self) -> None:
        """Watch who has come since."""
        for pid in self._domain.region.names().keys() - self._watched.keys() - {os.getpid()}:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:  # gone before it was seen, or of another pid namespace: the sweep can tell
                self._sweep(pid)
                continue
            self._watched[pid] = descriptor
            self._loop.add_reader(descriptor, self._on_end, pid)

    def _on_end(self, pid: int) -> None:
        self._unwatch(pid)
        self._sweep(pid)

    def _sweep(self, pid: int) -> None:
        swept = self._domain.region.sweep()
        self.swept += swept
        if swept:
            log.info("process %d died; what it held has been given back", pid)

    def _unwatch(self, pid: int) -> None:
        descriptor = self._watched.pop(pid)
        self._loop.remove_reader(descriptor)
        os.close(descriptor)

    def close(self) -> None:
        for pid in [*self._watched]:
            self._unwatch(pid)
